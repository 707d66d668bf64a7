//! Values of attributes.

use perfring_producer::types::tagged::{Key, TaggedWriter};
use std::fmt;

/// A value of an attribute, or a body.
///
/// ```
/// use perfring_telemetry::Value;
/// let attributes = [("peer", Value::from("10.0.0.1")), ("tries", 3u64.into()), ("ok", true.into())];
/// # let _ = attributes;
/// ```
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value.
    #[default]
    None,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A number.
    F64(f64),
    /// Text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A large signed integer.
    I128(i128),
    /// A large unsigned integer.
    U128(u128),
    /// Numbers.
    F64s(&'a [f64]),
    /// Unsigned integers.
    U64s(&'a [u64]),
    /// Values of any kinds but lists: in the record, the same name with each of them. So a list of one that is no number is
    /// read as that value, and a list in a list as more of its values.
    List(&'a [Value<'a>]),
    /// Text, formatted directly into the record.
    Display(&'a dyn fmt::Display),
    /// Text, formatted directly into the record.
    Debug(&'a dyn fmt::Debug),
}

impl Value<'_> {
    /// Appends the value to a record that [`Sink::write`](crate::Sink::write) writes.
    ///
    /// ```
    /// use perfring_telemetry::Value;
    /// use perfring_telemetry::types::tagged::{TaggedWriter, Values};
    /// let mut payload = Vec::new();
    /// Value::List(&["a".into(), "b".into()]).write("hosts", &mut TaggedWriter::new(&mut payload));
    /// let names: Vec<_> = Values::new(&payload).map(|value| value.unwrap().name).collect();
    /// assert_eq!(names, ["hosts", "hosts"]);
    /// ```
    pub fn write<'k>(&self, key: impl Into<Key<'k>>, writer: &mut TaggedWriter<'_>) {
        let key = key.into();
        match *self {
            Value::None => writer.none(key),
            Value::Bool(value) => writer.bool(key, value),
            Value::I64(value) => writer.i64(key, value),
            Value::U64(value) => writer.u64(key, value),
            Value::F64(value) => writer.f64(key, value),
            Value::Str(value) => writer.text(key, value),
            Value::Bytes(value) => writer.bytes(key, value),
            Value::I128(value) => writer.i128(key, value),
            Value::U128(value) => writer.u128(key, value),
            Value::F64s(value) => writer.f64s(key, value),
            Value::U64s(value) => writer.u64s(key, value),
            Value::List([]) => writer.u64s(key, &[]),
            Value::List([Value::F64(one)]) => writer.f64s(key, &[*one]),
            Value::List([Value::U64(one)]) => writer.u64s(key, &[*one]),
            Value::List([Value::I64(one)]) if *one >= 0 => writer.u64s(key, &[one.unsigned_abs()]),
            Value::List(values) => values.iter().for_each(|value| value.write(key, writer)),
            Value::Display(value) => writer.display(key, value),
            Value::Debug(value) => writer.debug(key, value),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Bool(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::U64(value) => value.fmt(f),
            Value::F64(value) => value.fmt(f),
            Value::Str(value) => value.fmt(f),
            Value::Bytes(value) => value.fmt(f),
            Value::I128(value) => value.fmt(f),
            Value::U128(value) => value.fmt(f),
            Value::F64s(value) => value.fmt(f),
            Value::U64s(value) => value.fmt(f),
            Value::List(values) => values.fmt(f),
            Value::Display(value) => value.fmt(f),
            Value::Debug(value) => value.fmt(f),
        }
    }
}

macro_rules! from {
    ($($type:ty: $variant:ident),* $(,)?) => {$(
        impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Value::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool: Bool, i8: I64, i16: I64, i32: I64, i64: I64, u8: U64, u16: U64, u32: U64, u64: U64,
    f32: F64, f64: F64, i128: I128, u128: U128, &'a str: Str, &'a [u8]: Bytes, &'a [f64]: F64s,
    &'a [u64]: U64s,
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Value::Str(value)
    }
}
