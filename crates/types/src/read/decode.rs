//! Decoding a payload to a [`Value`].

use super::archive::ArchiveReader;
use super::json;
use super::limits::{Fault, Left, labelled};
use super::types::{Type, TypeField, TypeShape};
use super::value::Value;
use crate::schema::{Encoding, Kind};
use crate::tagged::{Data, Values};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// So many names are searched one after the other, which takes less than a hash.
const FEW: usize = 16;

/// A payload that does not match its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPayload {
    name: String,
    /// The path of the field with the error, as in [`Value::get`]; or empty.
    pub field: String,
    what: String,
}

impl fmt::Display for BadPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record is not a valid {:?}: ", self.name)?;
        if !self.field.is_empty() {
            write!(f, "field {:?}: ", self.field)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for BadPayload {}

impl Type {
    /// Decodes a record of this type.
    ///
    /// | encoding | gives |
    /// |---|---|
    /// | Pod, rkyv | a struct of the fields, constants among them |
    /// | tagged | a struct of the fields that are present, constants among them, in the type's order; then the named values in theirs. A name that occurs more than once has a list of all its values, in their order |
    /// | UTF-8 | text |
    /// | JSON | its value; numbers that do not fit in 64 bits become `f64` |
    /// | bytes, and encodings of a later version | bytes |
    ///
    /// An integer whose kind is an enumeration is a label. A field of an unknown kind is bytes, or
    /// is left out if the type does not give its size. In a `text` that is not UTF-8, U+FFFD
    /// replaces what is invalid: fixed-size texts are often truncated within a character.
    ///
    /// A decode makes at most 2^20 values and one for each byte of the payload, and at most 16 MiB
    /// of text, bytes and names and four bytes for each of the payload. So a payload that points to
    /// itself, or a malicious type, cannot cost unbounded memory or time.
    ///
    /// # Errors
    ///
    /// The payload does not match this type, or exceeds these limits, or is in a format of rkyv
    /// that this program does not know.
    ///
    /// ```
    /// use perfring_abi::RecordType;
    /// use perfring_types::read::{Type, Value};
    /// let text = r#"{"name":"demo.On","encoding":"pod","size":1,"fields":[{"name":"on","kind":"bool"}]}"#;
    /// let on = Type::parse(RecordType::new(5000).unwrap(), text).unwrap();
    /// assert_eq!(on.decode(&[1]).unwrap().get("on"), Some(&Value::Bool(true)));
    /// assert_eq!(
    ///     on.decode(&[2]).unwrap_err().to_string(),
    ///     r#"the record is not a valid "demo.On": field "on": 2 is not a boolean"#,
    /// );
    /// ```
    pub fn decode(&self, payload: &[u8]) -> Result<Value, BadPayload> {
        self.values(payload).map_err(|fault| {
            let mut field = String::new();
            for name in fault.path.iter().rev() {
                if !field.is_empty() {
                    field.push('.');
                }
                field.push_str(name);
            }
            BadPayload { name: self.name.clone(), field, what: fault.what }
        })
    }

    /// Returns what [`Value::get`] returns for this path in the decoded record, without making its other values; nothing if the
    /// record is invalid. Returns `None` if the record must be decoded to know it.
    ///
    /// ```
    /// use perfring_abi::RecordType;
    /// use perfring_types::read::{Type, Value};
    /// use perfring_types::tagged::TaggedWriter;
    /// let text = r#"{"name":"demo.On","encoding":"tagged","fields":[{"name":"on","kind":"any"}]}"#;
    /// let on = Type::parse(RecordType::new(5000).unwrap(), text).unwrap();
    /// let mut payload = Vec::new();
    /// TaggedWriter::new(&mut payload).bool(0u16, true);
    /// assert_eq!(on.decode_one(&payload, "on"), Some(Some(Value::Bool(true))));
    /// assert_eq!(on.decode_one(&payload, "off"), Some(None));
    /// ```
    pub fn decode_one(&self, payload: &[u8], path: &str) -> Option<Option<Value>> {
        let is_label = |field: &TypeField| field.shape.kind.known() == Some(Kind::Enum);
        if self.encoding.known() != Some(Encoding::Tagged) || self.fields.iter().any(is_label) {
            return None;
        }
        let (mut found, mut is_within) = (None, false);
        // Returns whether the value is the one, and notes whether it may contain that.
        let mut is_it = |name: &str| {
            is_within |= path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
            name == path
        };
        for field in &self.fields {
            if let Some(constant) = &field.constant
                && is_it(&field.name)
                && found.replace(constant.clone()).is_some()
            {
                return None; // a list of several values
            }
        }
        for value in Values::new(payload) {
            let Ok(value) = value else { return Some(None) };
            let name = match value.field {
                None => value.name,
                Some(number) => match self.fields.get(usize::from(number)) {
                    Some(field) => &*field.name,
                    None => return Some(None),
                },
            };
            if is_it(name) && found.replace(shaped(value.data, None)).is_some() {
                return None;
            }
        }
        (found.is_some() || !is_within).then_some(found)
    }

    fn values(&self, payload: &[u8]) -> Result<Value, Fault> {
        match self.encoding.known() {
            Some(Encoding::Pod) => {
                let layout = self.layout.clone()?;
                if payload.len() != self.size as usize {
                    let (is, says) = (payload.len(), self.size);
                    return Err(format!("it has {is} bytes instead of {says}").into());
                }
                ArchiveReader::new(payload, layout).structure(&self.fields, 0)
            }
            Some(Encoding::Rkyv) => {
                let layout = self.layout.clone()?;
                let root = payload.len().checked_sub(self.size as usize).ok_or_else(|| {
                    format!("it has {} bytes, and its root needs {}", payload.len(), self.size)
                })?;
                ArchiveReader::new(payload, layout).structure(&self.fields, root)
            }
            Some(Encoding::Tagged) => self.tagged(payload),
            Some(Encoding::Utf8) => match str::from_utf8(payload) {
                Ok(text) => Ok(Value::Str(text.to_owned())),
                Err(error) => Err(format!("it is not UTF-8: {error}").into()),
            },
            Some(Encoding::Json) => {
                json::parse(payload).map_err(|error| format!("it is not JSON: {error}").into())
            }
            Some(Encoding::Bytes) | None => Ok(Value::Bytes(payload.to_vec())),
        }
    }

    fn tagged(&self, payload: &[u8]) -> Result<Value, Fault> {
        // A place for each field, then one for each other name.
        let mut places: Vec<Option<FoundValues>> = vec![None; self.fields.len()];
        let mut names: HashMap<&str, usize> = HashMap::new(); // of those after the first few
        // The limit for constants of the type. A value takes bytes of the payload, so those are few
        // anyway.
        let mut left = Left::of(&[]);
        for (at, field) in self.fields.iter().enumerate() {
            if let Some(constant) = &field.constant {
                left.take_bytes(field.name.len())?;
                let constant = left.constant(constant).map_err(|fault| fault.at(&field.name))?;
                put(&mut places, self.first(at), || field.name.clone(), constant);
            }
        }
        for value in Values::new(payload) {
            let value = value.map_err(|damage| damage.to_string())?;
            let (at, name, field) = match value.field {
                Some(number) => {
                    let (number, count) = (number as usize, self.fields.len());
                    let field = self.fields.get(number).ok_or_else(|| {
                        format!("a value belongs to field {number}, and the type has {count}")
                    })?;
                    (self.first(number), &*field.name, Some(field))
                }
                None => match self.place_of(value.name) {
                    Some(at) => (at, value.name, self.fields.get(at)),
                    None => {
                        let others = places.iter().skip(self.fields.len()).take(FEW);
                        let mut others = others.flatten();
                        let at = match others.position(|other| *other.name == *value.name) {
                            Some(nth) => self.fields.len() + nth,
                            None if places.len() < self.fields.len() + FEW => places.len(),
                            None => *names.entry(value.name).or_insert(places.len()),
                        };
                        (at, value.name, None)
                    }
                },
            };
            if at >= places.len() {
                places.resize_with(at + 1, || None);
            }
            if value.field.is_some() && places.get(at).is_some_and(Option::is_none) {
                left.take_bytes(name.len())?;
            }
            let value = shaped(value.data, field.map(|field| &field.shape));
            left.take_label(&value)?;
            let name = || field.map_or_else(|| Arc::from(name), |field| field.name.clone());
            put(&mut places, at, name, value);
        }
        Ok(Value::Struct(places.into_iter().flatten().map(FoundValues::named).collect()))
    }

    /// Returns the index of the first field with the name of this one: it gets the values of all.
    fn first(&self, at: usize) -> usize {
        self.firsts.get(at).copied().unwrap_or(at)
    }

    /// Returns the index of the first field with this name.
    fn place_of(&self, name: &str) -> Option<usize> {
        match self.fields.len() <= FEW {
            true => self.fields.iter().position(|field| *field.name == *name),
            false => self.by_name.get(name).copied(),
        }
    }
}

/// The values found under one name.
#[derive(Clone)]
struct FoundValues {
    name: Arc<str>,
    first: Value,
    more: Vec<Value>,
}

impl FoundValues {
    fn named(self) -> (Arc<str>, Value) {
        if self.more.is_empty() {
            return (self.name, self.first);
        }
        let mut all = vec![self.first];
        all.extend(self.more);
        (self.name, Value::List(all))
    }
}

fn put(
    places: &mut [Option<FoundValues>],
    at: usize,
    name: impl FnOnce() -> Arc<str>,
    value: Value,
) {
    match places.get_mut(at) {
        Some(Some(place)) => place.more.push(value),
        Some(empty) => {
            *empty = Some(FoundValues { name: name(), first: value, more: Vec::new() });
        }
        None => {}
    }
}

/// Returns a tagged value, with the label's name if its field is an enumeration.
fn shaped(data: Data<'_>, shape: Option<&TypeShape>) -> Value {
    let value = match data {
        Data::None => Value::Null,
        Data::Bool(value) => Value::Bool(value),
        Data::I64(value) => Value::I64(value),
        Data::U64(value) => Value::U64(value),
        Data::F64(value) => Value::F64(value),
        Data::Text(value) => Value::Str(value.to_owned()),
        Data::Bytes(value) => Value::Bytes(value.to_vec()),
        Data::I128(value) => Value::I128(value),
        Data::U128(value) => Value::U128(value),
        Data::F64s(values) => Value::List(values.iter().map(Value::F64).collect()),
        Data::U64s(values) => Value::List(values.iter().map(Value::U64).collect()),
    };
    match shape {
        Some(shape) if shape.kind.known() == Some(Kind::Enum) => labelled(value, shape),
        _ => value,
    }
}
