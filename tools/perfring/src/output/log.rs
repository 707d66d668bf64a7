//! Log records and spans, as people read them.

use super::text::{escaped, word};
use perfring_types::Class;
use perfring_types::read::{Type, Value};
use std::io::{self, Write};

/// Digits of an id that are shown: enough to tell those of a few minutes apart.
const ID_DIGITS: usize = 8;
/// Columns of the level, so that the messages stand below each other.
const LEVEL: usize = 5;

/// Where OpenTelemetry's names for one thing differ, the first that is there counts.
const LEVELS: &[&str] = &["severity_text"];
const TARGETS: &[&str] = &["target", "scope.name", "scope_name"];
const BODIES: &[&str] = &["body", "event_name", "name", "message"];
const NAMES: &[&str] = &["name"];
const IDS: &[(&str, &str)] = &[
    ("trace", "trace_id"),
    ("span", "span_id"),
    ("parent", "parent_span_id"),
];

/// Writes the record if it is one of these: level or what became of the span, target, message,
/// other fields, ids. Tells whether it has.
pub(super) fn record(out: &mut impl Write, kind: &Type, value: &Value) -> io::Result<bool> {
    let Value::Struct(fields) = value else { return Ok(false) };
    let class = kind.class.known();
    let mut rest = Rest { kind, fields: fields.clone() };
    let title = match class {
        Some(Class::Log) => rest.level(),
        Some(Class::SpanStart) => "start".to_owned(),
        Some(Class::SpanEnd) => "end".to_owned(),
        _ => return Ok(false),
    };
    let log = class == Some(Class::Log);
    let target = rest.text(TARGETS);
    let body = rest.text(if log { BODIES } else { NAMES });
    let ids: Vec<String> = IDS.iter().filter_map(|(short, name)| rest.id(short, name)).collect();
    write!(out, "{title:>LEVEL$}")?;
    if let Some(target) = target {
        write!(out, " {}:", word(&target))?;
    }
    let body = body.unwrap_or_else(|| kind.name.clone());
    write!(out, " {}", escaped(body.as_bytes()))?;
    if !rest.fields.is_empty() {
        write!(out, "  {}", kind.text(&Value::Struct(rest.fields)))?;
    }
    if !ids.is_empty() {
        write!(out, "  {}", ids.join(" "))?;
    }
    Ok(true)
}

/// What of a record has not been shown yet.
struct Rest<'a> {
    kind: &'a Type,
    fields: Vec<(std::sync::Arc<str>, Value)>,
}

impl Rest<'_> {
    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.fields.iter().position(|(field, _)| &**field == name)?;
        Some(self.fields.remove(at).1).filter(|value| *value != Value::Null)
    }

    /// The first of these that is there.
    fn text(&mut self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.take(name)).map(|value| match value {
            Value::Str(text) => text,
            other => other.to_string(),
        })
    }

    /// The severity in letters: what the record says, or the range of its number.
    fn level(&mut self) -> String {
        let said = self.text(LEVELS).map(|text| word(&text));
        let number = match self.take("severity_number") {
            Some(Value::Label { value, .. } | Value::I64(value)) => Some(value),
            Some(Value::U64(value)) => i64::try_from(value).ok(),
            _ => None,
        };
        let of = |number| match number {
            1..=4 => "TRACE",
            5..=8 => "DEBUG",
            9..=12 => "INFO",
            13..=16 => "WARN",
            17..=20 => "ERROR",
            21..=24 => "FATAL",
            _ => "?",
        };
        said.unwrap_or_else(|| number.map_or("log", of).to_owned())
    }

    /// An id, its first digits. One of zeros is none.
    fn id(&mut self, short: &str, name: &str) -> Option<String> {
        // Only what the table calls so: a name that came with the value is somebody's own.
        self.kind.field(name)?;
        let text = match self.take(name)? {
            Value::U64(value) => format!("{value:016x}"),
            Value::I64(value) => format!("{value:016x}"),
            Value::U128(value) => format!("{value:032x}"),
            Value::Str(text) => text,
            other => other.to_string(),
        };
        let some = text.chars().any(|c| c != '0');
        let digits: String = text.chars().take(ID_DIGITS).collect();
        some.then(|| format!("{short}={}", word(&digits)))
    }
}
