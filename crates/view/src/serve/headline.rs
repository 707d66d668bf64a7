//! What a record of telemetry says first: a log's severity, message and attributes; the name of a span or a metric.

use perfring_events::Rec;
use perfring_figures::escape::one_line;
use perfring_telemetry::{Severity, names};
use perfring_types::Class;
use perfring_types::read::{Type, Value};
use serde::Serialize;
use std::sync::Arc;

/// A log's severity: its number, 1 to 24, if the record has it, and its name.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Level {
    number: Option<u64>,
    name: String,
}

/// A record of telemetry in one line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Headline {
    pub(super) level: Option<Level>,
    pub(super) message: Option<String>,
    /// All other values: attributes, and then what is reserved.
    pub(super) text: String,
}

type Fields<'a> = Vec<(&'a Arc<str>, &'a Value)>;

/// Returns which fields of a class come first, in their order.
fn first(class: Class) -> &'static [&'static str] {
    match class {
        Class::Log => &[names::SEVERITY_TEXT, names::SEVERITY_NUMBER, names::BODY],
        Class::SpanStart => &[names::NAME],
        Class::SpanEnd => {
            &[names::NAME, names::DURATION, names::STATUS_CODE, names::STATUS_MESSAGE]
        }
        Class::Gauge | Class::Sum | Class::Histogram => &[names::NAME, names::VALUE],
        _ => &[],
    }
}

/// Returns the fields of a record: what its class has first, attributes, and then what else is reserved.
pub(super) fn ordered<'a>(kind: &Type, fields: &'a [(Arc<str>, Value)]) -> Fields<'a> {
    let class = kind.class.known().unwrap_or_default();
    let first = first(class);
    let mut all: Fields<'a> = fields.iter().map(|(name, value)| (name, value)).collect();
    all.sort_by_key(|(name, _)| {
        let is_reserved = names::attribute(class, name).is_none();
        let place = first.iter().position(|of| **of == ***name);
        (place.unwrap_or(first.len()), place.is_none() && is_reserved)
    });
    all
}

impl Headline {
    /// Returns the headline of a record of telemetry; `None` of any other record.
    pub(super) fn of(record: &Rec<'_>) -> Option<Self> {
        let kind = record.kind_of()?;
        let class = kind.class.known().unwrap_or_default();
        let Some(Ok(Value::Struct(fields))) = record.value() else { return None };
        if first(class).is_empty() {
            return None;
        }
        let mut fields = ordered(kind, fields);
        let mut take = |name: &str| {
            let at = fields.iter().position(|(its, _)| ***its == *name)?;
            Some(fields.remove(at).1)
        };
        let (mut level, mut subject) = (None, names::NAME);
        if class == Class::Log {
            (level, subject) = (self::level(&mut take), names::BODY);
        }
        let message = take(subject).map(|value| match value {
            Value::Str(text) => one_line(text),
            other => other.to_string(),
        });
        let rest = fields.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Some(Headline { level, message, text: kind.render_text(&Value::Struct(rest)) })
    }
}

/// Takes the severity from a log's fields.
fn level<'a>(take: &mut impl FnMut(&str) -> Option<&'a Value>) -> Option<Level> {
    let number = match take(names::SEVERITY_NUMBER) {
        Some(Value::U64(number)) => Some(*number),
        Some(Value::I64(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    let known = || number.and_then(Severity::from_number).map(|of| of.name().to_owned());
    let name = match take(names::SEVERITY_TEXT) {
        Some(Value::Str(name)) if !name.is_empty() => Some(one_line(name)),
        Some(Value::Label { name: Some(name), .. }) => Some(one_line(name)),
        _ => known(),
    };
    let name = name.or_else(|| number.map(|number| number.to_string()))?;
    Some(Level { number, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(class: &str) -> Type {
        let id = perfring_consumer::RecordType::new(0x10000).expect("a type's number");
        let text = format!(r#"{{"name":"t","encoding":"json","class":"{class}"}}"#);
        Type::parse(id, &text).expect("a type")
    }

    #[test]
    fn severity_message_and_attributes_of_a_log_come_first() {
        let fields = [
            "process.pid",
            "peer",
            "body",
            "severity_number",
            "attributes.body",
            "severity_text",
            "trace_id",
        ];
        let fields = fields.map(|name| (Arc::from(name), Value::Null));
        let names = |class: &str| -> Vec<String> {
            ordered(&kind(class), &fields).iter().map(|(name, _)| name.to_string()).collect()
        };
        let of_a_log = [
            "severity_text",
            "severity_number",
            "body",
            "peer",
            "attributes.body",
            "process.pid",
            "trace_id",
        ];
        assert_eq!(names("log"), of_a_log);
        assert_eq!(names("plain")[..3], ["process.pid", "peer", "body"], "the order of the record");
    }
}
