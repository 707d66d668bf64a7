//! Decoded values.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use std::fmt::Write as _;
use std::sync::Arc;

/// A value decoded from a payload.
///
/// In JSON (`serde::Serialize`), numbers are numbers, except that those outside `u64` and `i64` are
/// text in decimal digits, and `"NaN"`, `"Infinity"` and `"-Infinity"` are text; bytes are text in
/// lower-case hexadecimal, and a label is its name, or a number if it has none.
///
/// ```
/// use perfring_types::read::Value;
/// let value = Value::List(vec![Value::F64(0.5), Value::F32(f32::NAN), Value::U128(1 << 70)]);
/// assert_eq!(serde_json::to_string(&value).unwrap(), r#"[0.5,"NaN","1180591620717411303424"]"#);
/// assert_eq!(value.to_string(), "[0.5 NaN 1180591620717411303424]");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer of up to eight bytes.
    I64(i64),
    /// An unsigned integer of up to eight bytes.
    U64(u64),
    /// A signed integer of sixteen bytes.
    I128(i128),
    /// An unsigned integer of sixteen bytes.
    U128(u128),
    /// A floating-point number of four bytes.
    F32(f32),
    /// A floating-point number of eight bytes.
    F64(f64),
    /// A character.
    Char(char),
    /// Text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A value of an enumeration.
    Label {
        /// The value.
        value: i64,
        /// Its name, if it has one.
        name: Option<Arc<str>>,
    },
    /// A list.
    List(Vec<Value>),
    /// Fields, in their order. The names are shared with the type.
    Struct(Vec<(Arc<str>, Value)>),
}

impl Value {
    /// Returns the value at this path: names of fields and indices of lists, separated by dots. A
    /// name may contain dots, as OpenTelemetry's names do.
    ///
    /// ```
    /// use perfring_types::read::Value;
    /// let value = Value::Struct(vec![
    ///     ("pos".into(), Value::Struct(vec![("x".into(), Value::I64(-1))])),
    ///     ("http.status".into(), Value::List(vec![Value::U64(200), Value::U64(500)])),
    /// ]);
    /// assert_eq!(value.get("pos.x"), Some(&Value::I64(-1)));
    /// assert_eq!(value.get("http.status.1"), Some(&Value::U64(500)));
    /// assert_eq!(value.get("http"), None);
    /// ```
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        match self {
            Value::Struct(fields) => {
                let whole = fields.iter().find(|(name, _)| &**name == path);
                let inner = || {
                    fields.iter().find_map(|(name, value)| {
                        value.get(path.strip_prefix(&**name)?.strip_prefix('.')?)
                    })
                };
                whole.map(|(_, value)| value).or_else(inner)
            }
            Value::List(values) => {
                let (index, rest) = match path.split_once('.') {
                    Some((index, rest)) => (index, Some(rest)),
                    None => (path, None),
                };
                let value = values.get(index.parse::<usize>().ok()?)?;
                rest.map_or(Some(value), |rest| value.get(rest))
            }
            _ => None,
        }
    }
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Returns the text for a number that JSON cannot represent.
pub(super) fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => to.serialize_unit(),
            Value::Bool(value) => to.serialize_bool(*value),
            Value::I64(value) => to.serialize_i64(*value),
            Value::U64(value) => to.serialize_u64(*value),
            Value::I128(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => to.serialize_i64(value),
                (_, Ok(value)) => to.serialize_u64(value),
                _ => to.collect_str(value),
            },
            Value::U128(value) => match u64::try_from(*value) {
                Ok(value) => to.serialize_u64(value),
                Err(_) => to.collect_str(value),
            },
            Value::F32(value) => match not_finite((*value).into()) {
                Some(name) => to.serialize_str(name),
                None => to.serialize_f32(*value),
            },
            Value::F64(value) => match not_finite(*value) {
                Some(name) => to.serialize_str(name),
                None => to.serialize_f64(*value),
            },
            Value::Char(value) => to.serialize_char(*value),
            Value::Str(value) => to.serialize_str(value),
            Value::Bytes(value) => to.serialize_str(&hex(value)),
            Value::Label { name: Some(name), .. } => to.serialize_str(name),
            Value::Label { value, name: None } => to.serialize_i64(*value),
            Value::List(values) => to.collect_seq(values),
            Value::Struct(fields) => {
                let mut map = to.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(&**name, value)?;
                }
                map.end()
            }
        }
    }
}
