//! Values as debug annotations.

use super::names::Names;
use super::proto::DebugAnnotation;
use perfring_types::read::Value;

/// Returns a named value as an event's details show it.
pub(super) fn annotation(names: &mut Names, name: &str, value: &Value) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(names.annotation(name)), ..plain(names, value) }
}

/// Returns the fields of a struct; for any other value, one annotation with this name.
pub(super) fn annotations(names: &mut Names, name: &str, value: &Value) -> Vec<DebugAnnotation> {
    match value {
        Value::Struct(fields) => {
            fields.iter().map(|(name, value)| annotation(names, name, value)).collect()
        }
        other => vec![annotation(names, name, other)],
    }
}

pub(super) fn text(names: &mut Names, name: &str, text: String) -> DebugAnnotation {
    let name_iid = Some(names.annotation(name));
    DebugAnnotation { name_iid, string_value: Some(text), ..DebugAnnotation::default() }
}

pub(super) fn number(names: &mut Names, name: &str, number: u64) -> DebugAnnotation {
    let name_iid = Some(names.annotation(name));
    DebugAnnotation { name_iid, uint_value: Some(number), ..DebugAnnotation::default() }
}

fn plain(names: &mut Names, value: &Value) -> DebugAnnotation {
    let mut out = DebugAnnotation::default();
    match value {
        Value::Bool(value) => out.bool_value = Some(*value),
        Value::I64(value) => out.int_value = Some(*value),
        Value::U64(value) => out.uint_value = Some(*value),
        Value::F32(value) => out.double_value = Some((*value).into()),
        Value::F64(value) => out.double_value = Some(*value),
        Value::Char(value) => out.string_value = Some(value.to_string()),
        Value::Str(value) => out.string_value = Some(value.clone()),
        Value::Label { name: Some(name), .. } => out.string_value = Some(name.to_string()),
        Value::Label { value, name: None } => out.int_value = Some(*value),
        Value::List(values) => {
            out.array_values = values.iter().map(|value| plain(names, value)).collect();
        }
        Value::Struct(fields) => {
            let members = fields.iter().map(|(name, value)| annotation(names, name, value));
            out.dict_entries = members.collect();
        }
        // Null, bytes, and numbers of more than 64 bits.
        other => out.string_value = Some(other.to_string()),
    }
    out
}
