//! The fields of the built-in record types by number, and the SDK's values in them.

use crate::lacks::{Lack, Lacks};
use opentelemetry::logs::AnyValue;
use opentelemetry::{Array, InstrumentationScope, KeyValue, Value as Sdk};
use perfring_telemetry::names::{ATTRIBUTES, AttributeName};
use perfring_telemetry::types::tagged::{CUT, Key, TaggedWriter};
use perfring_telemetry::types::{Class, Schema};
use perfring_telemetry::{Value, names};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name in a record, in bytes.
const LONGEST_NAME: usize = 255;

/// Returns the number of a type's field.
#[allow(clippy::panic, reason = "at compile time")]
pub(crate) const fn number(schema: &Schema<'static>, name: &str) -> u16 {
    let mut at = 0;
    while at < schema.fields.len() {
        if is_same(schema.fields[at].name.as_bytes(), name.as_bytes()) {
            return at as u16;
        }
        at += 1;
    }
    panic!("the type has no such field")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Returns the time in ns since 1970.
pub(crate) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A record under construction.
pub(crate) struct Record<'a, 'w> {
    pub(crate) writer: &'a mut TaggedWriter<'w>,
    pub(crate) lacks: &'a Lacks,
    pub(crate) class: Class,
}

impl Record<'_, '_> {
    pub(crate) fn text(&mut self, field: u16, text: &str) {
        if !text.is_empty() {
            self.writer.text(field, text);
        }
    }

    /// Writes the name of a scope. The types of samples have no number for it.
    pub(crate) fn scope(&mut self, scope: &InstrumentationScope, target: Option<&str>) {
        let name = target.unwrap_or_else(|| scope.name());
        if !name.is_empty() {
            self.writer.text(names::SCOPE, name);
        }
        self.lacks.count(Lack::ScopeVersions, u64::from(scope.version().is_some()));
        self.lacks.count(Lack::SchemaUrls, u64::from(scope.schema_url().is_some()));
        self.lacks.count(Lack::ScopeAttributes, scope.attributes().count() as u64);
    }

    /// Writes attributes whose names are unique.
    pub(crate) fn unique<'k>(&mut self, attributes: impl Iterator<Item = &'k KeyValue>) {
        for KeyValue { key, value, .. } in attributes {
            self.attribute(key.as_str(), |key, record| record.value(key, value));
        }
    }

    /// Writes attributes: of each name the last one, as OpenTelemetry's API has it. Each would otherwise become a list.
    /// Before them, how many the SDK has dropped: behind them might be no room.
    pub(crate) fn attributes(&mut self, attributes: &[KeyValue], dropped: u32) {
        if dropped > 0 {
            self.writer.u64(CUT, dropped.into());
        }
        for (at, KeyValue { key, value, .. }) in attributes.iter().enumerate() {
            let later = attributes.get(at + 1..).unwrap_or_default();
            if later.iter().any(|pair| pair.key == *key) {
                self.lacks.count(Lack::Replaced, 1);
            } else {
                self.attribute(key.as_str(), |key, record| record.value(key, value));
            }
        }
    }

    pub(crate) fn attribute(&mut self, name: &str, write: impl FnOnce(Key<'_>, &mut Self)) {
        let field = AttributeName::new(self.class, name);
        let has_prefix = field.as_str().len() != name.len() || name.starts_with(ATTRIBUTES);
        let room = LONGEST_NAME - if has_prefix { ATTRIBUTES.len() } else { 0 };
        self.lacks.count(Lack::LongNames, u64::from(name.len() > room));
        write(Key::Name(field.as_str()), self);
    }

    fn value(&mut self, key: Key<'_>, value: &Sdk) {
        match value {
            Sdk::Bool(value) => self.writer.bool(key, *value),
            Sdk::I64(value) => self.writer.i64(key, *value),
            Sdk::F64(value) => self.writer.f64(key, *value),
            Sdk::String(value) => self.writer.text(key, value.as_str()),
            Sdk::Array(Array::Bool(values)) => self.list(key, values, |it| Value::Bool(*it)),
            Sdk::Array(Array::I64(values)) => self.list(key, values, |it| Value::I64(*it)),
            Sdk::Array(Array::F64(values)) => self.writer.f64s(key, values),
            Sdk::Array(Array::String(values)) => {
                self.list(key, values, |it| Value::Str(it.as_str()));
            }
            other => {
                self.lacks.count(Lack::Retyped, 1);
                self.writer.display(key, other);
            }
        }
    }

    fn list<'v, T>(&mut self, key: Key<'_>, values: &'v [T], of: impl Fn(&'v T) -> Value<'v>) {
        let values: Vec<_> = values.iter().map(of).collect();
        let is_single = match values[..] {
            [Value::F64(_)] => false,
            [Value::I64(value)] => value < 0,
            [_] => true,
            _ => false,
        };
        self.lacks.count(Lack::Retyped, u64::from(is_single));
        Value::List(&values).write(key, self.writer);
    }

    /// Writes a value of a log record.
    pub(crate) fn any(&mut self, key: Key<'_>, value: &AnyValue) {
        if let AnyValue::ListAny(values) = value
            && values.iter().all(|value| plain(value).is_some())
        {
            return self.list(key, values, |value| plain(value).unwrap_or_default());
        }
        match plain(value) {
            Some(plain) => plain.write(key, self.writer),
            None => {
                self.lacks.count(Lack::Retyped, 1);
                self.writer.display(key, json(value));
            }
        }
    }
}

/// Returns a value that is neither a list nor a map.
fn plain(value: &AnyValue) -> Option<Value<'_>> {
    match value {
        AnyValue::Int(value) => Some(Value::I64(*value)),
        AnyValue::Double(value) => Some(Value::F64(*value)),
        AnyValue::String(value) => Some(Value::Str(value.as_str())),
        AnyValue::Boolean(value) => Some(Value::Bool(*value)),
        AnyValue::Bytes(value) => Some(Value::Bytes(value)),
        _ => None,
    }
}

/// Returns a value as JSON: maps in the order of their names, bytes in hexadecimal digits.
fn json(value: &AnyValue) -> serde_json::Value {
    match value {
        AnyValue::Int(value) => (*value).into(),
        AnyValue::Double(value) if value.is_finite() => (*value).into(),
        AnyValue::Double(value) => value.to_string().into(),
        AnyValue::String(value) => value.as_str().into(),
        AnyValue::Boolean(value) => (*value).into(),
        AnyValue::Bytes(value) => {
            value.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
        AnyValue::ListAny(values) => values.iter().map(json).collect(),
        AnyValue::Map(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(key, value)| (key.as_str().to_owned(), json(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            serde_json::Value::Object(fields.into_iter().collect())
        }
        _ => serde_json::Value::Null,
    }
}
