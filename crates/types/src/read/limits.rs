//! Limits and errors of a decode.

use super::types::TypeShape;
use super::value::Value;
use std::fmt;

/// The most values that a decode makes, besides one for each byte of the payload.
pub(super) const MAX_VALUES: usize = 1 << 20;

/// The most bytes of text, bytes and names that a decode makes, besides four for each of the
/// payload.
const MAX_BYTES: usize = 16 << 20;

/// The remaining budget of a decode.
pub(super) struct Left {
    pub(super) values: usize,
    bytes: usize,
}

impl Left {
    pub(super) fn of(payload: &[u8]) -> Self {
        Left {
            values: MAX_VALUES.saturating_add(payload.len()),
            bytes: MAX_BYTES.saturating_add(payload.len().saturating_mul(4)),
        }
    }

    pub(super) fn take_values(&mut self, count: usize) -> Result<(), Fault> {
        self.values = self.values.checked_sub(count).ok_or_else(Self::nothing)?;
        Ok(())
    }

    pub(super) fn take_bytes(&mut self, count: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.checked_sub(count).ok_or_else(Self::nothing)?;
        Ok(())
    }

    /// Takes the bytes of a label's name, if the value is a label with a name.
    pub(super) fn take_label(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Label { name: Some(name), .. } => self.take_bytes(name.len()),
            _ => Ok(()),
        }
    }

    /// Copies a constant.
    pub(super) fn constant(&mut self, constant: &Value) -> Result<Value, Fault> {
        self.weigh(constant)?;
        Ok(constant.clone())
    }

    fn weigh(&mut self, value: &Value) -> Result<(), Fault> {
        self.take_values(1)?;
        match value {
            Value::Str(text) => self.take_bytes(text.len()),
            Value::List(values) => values.iter().try_for_each(|value| self.weigh(value)),
            Value::Struct(fields) => fields.iter().try_for_each(|(name, value)| {
                self.take_bytes(name.len())?;
                self.weigh(value)
            }),
            _ => Ok(()),
        }
    }

    /// The error when a limit is exceeded.
    pub(super) fn nothing() -> Fault {
        "it makes more values, or longer ones, than this program reads from one record".into()
    }
}

/// An error and its path: callers add the names on the way up.
pub(super) struct Fault {
    pub(super) path: Vec<String>,
    pub(super) what: String,
}

impl Fault {
    pub(super) fn at(mut self, name: impl fmt::Display) -> Self {
        self.path.push(name.to_string());
        self
    }
}

impl<T: Into<String>> From<T> for Fault {
    fn from(what: T) -> Self {
        Fault { path: Vec::new(), what: what.into() }
    }
}

/// Returns an integer as a value of this enumeration; one that does not fit in 64 bits stays as it
/// is.
pub(super) fn labelled(value: Value, shape: &TypeShape) -> Value {
    let number = match &value {
        Value::I64(number) => Some(*number),
        Value::U64(number) => i64::try_from(*number).ok(),
        Value::I128(number) => i64::try_from(*number).ok(),
        Value::U128(number) => i64::try_from(*number).ok(),
        _ => None,
    };
    match number {
        Some(value) => Value::Label { value, name: shape.label(value).cloned() },
        None => value,
    }
}
