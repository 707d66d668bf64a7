//! Attributes as labels.

use super::{names, text};
use perfring_types::read::Value;
use std::collections::BTreeMap;

/// Adds attributes to labels.
pub(super) fn add<'a>(
    labels: &mut BTreeMap<String, String>,
    attributes: impl Iterator<Item = (&'a str, &'a Value)>,
) {
    let mut attributes: Vec<_> = attributes.collect();
    attributes.sort_by_key(|(name, _)| *name);
    let taken: Vec<String> = labels.keys().cloned().collect();
    for (name, value) in attributes {
        let mut name = names::label(name);
        if name == "le" || name == "quantile" || taken.contains(&name) {
            name.insert_str(0, "exported_");
        }
        let value = text::value(&shown(value));
        match labels.get_mut(&name) {
            Some(its) => {
                its.push(';');
                its.push_str(&value);
            }
            None => {
                labels.insert(name, value);
            }
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::Label { name: Some(name), .. } => name.to_string(),
        // As in OpenTelemetry's rules: lists and the like as JSON.
        other => match serde_json::to_value(other) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(json) => json.to_string(),
            Err(_) => other.to_string(),
        },
    }
}
