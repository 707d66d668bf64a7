//! The losses that no marker in a golden file reports: readers return them at the end.

use perfring_abi::Cause;
use serde_json::{Value, json};

/// Returns the losses that no marker reports, at the end of the stream or at `pos`.
pub fn unmarked(expect: &Value, pos: &Value) -> Vec<Value> {
    let count = |key: String| expect["books"][key].as_u64().unwrap_or(0);
    let lost = |cause: Cause| {
        let name = cause.name();
        let [records, bytes] = ["records", "bytes"]
            .map(|unit| count(format!("{name}_{unit}")) - count(format!("told_{name}_{unit}")));
        json!({"pos": pos, "cause": name, "lost_records": records, "lost_bytes": bytes})
    };
    Cause::REFUSED.map(lost).into_iter().filter(|lost| lost["lost_records"] != 0).collect()
}

/// Returns the items of a description, and the losses after them.
#[must_use]
pub fn with_unmarked(items: &Value, expect: &Value) -> Value {
    json!([items.as_array().unwrap().clone(), unmarked(expect, &expect["data_head"])].concat())
}
