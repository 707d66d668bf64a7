//! Log records in their encoded form, written without messages between.

use super::wire::{Term, count, term};
use perfring_events::{
    Key,
    signal::{Common, Log, Plain, PlainBody},
};
use perfring_types::read::Value;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use std::fmt::Write as _;

/// What most log records are shorter than.
const ROOM: usize = 256;

/// Encodes a log record.
pub(super) fn log(log: &Log<'_>, now: u64, key: Option<Key>) -> Vec<u8> {
    let mut to = Vec::with_capacity(ROOM);
    common(&log.common, log.observed.unwrap_or(now), &mut to);
    number(2, log.severity_number.unwrap_or_default().into(), &mut to);
    some(3, log.severity_text.as_bytes(), &mut to);
    if let Some(body) = log.body {
        nested(5, &mut to, |to| any(body, to));
    }
    ids((log.trace_id, log.span_id), &mut to);
    some(12, log.event_name.as_bytes(), &mut to);
    keyed(key, &mut to);
    to
}

/// Encodes a record without a class as a log record.
pub(super) fn plain(plain: &Plain<'_>, now: u64, key: Option<Key>) -> Vec<u8> {
    let mut to = Vec::with_capacity(ROOM);
    common(&plain.common, now, &mut to);
    match plain.body {
        PlainBody::None => {}
        PlainBody::Text(body) => nested(5, &mut to, |to| put(Term::Text(body.into()), to)),
        PlainBody::Bytes(bytes) => nested(5, &mut to, |to| put(Term::Bytes(bytes), to)),
        PlainBody::Value(value) => nested(5, &mut to, |to| any(value, to)),
    }
    ids((plain.trace_id, plain.span_id), &mut to);
    some(12, plain.name.as_bytes(), &mut to);
    attribute("perfring.type", Term::Int(plain.kind.into()), &mut to);
    if let Some(fault) = &plain.fault {
        attribute("perfring.fault", Term::Text(fault.sentence.as_str().into()), &mut to);
    }
    keyed(key, &mut to);
    to
}

/// Writes what all log records have.
fn common(common: &Common<'_>, observed: u64, to: &mut Vec<u8>) {
    fixed(1, common.time.unwrap_or_default(), to); // 0: unknown
    fixed(11, observed, to);
    for (name, value) in &common.attributes {
        attribute(name, term(value), to);
    }
    number(7, count(common.truncated).into(), to);
}

/// Writes the trace and the span that a record belongs to.
fn ids((trace, span): (Option<[u8; 16]>, Option<[u8; 8]>), to: &mut Vec<u8>) {
    some(9, trace.as_ref().map_or(&[], |id| id), to);
    some(10, span.as_ref().map_or(&[], |id| id), to);
}

fn keyed(key: Option<Key>, to: &mut Vec<u8>) {
    let Some(key) = key else { return };
    let mut text = String::with_capacity(64);
    let _ = write!(text, "{key}"); // a String takes anything
    attribute("perfring.key", Term::Text(text.into()), to);
}

fn attribute(name: &str, value: Term<'_>, to: &mut Vec<u8>) {
    nested(6, to, |to| pair(name, value, to));
}

fn pair(name: &str, value: Term<'_>, to: &mut Vec<u8>) {
    some(1, name.as_bytes(), to);
    nested(2, to, |to| put(value, to));
}

fn any(value: &Value, to: &mut Vec<u8>) {
    put(term(value), to);
}

/// Writes the content of an `AnyValue`.
fn put(what: Term<'_>, to: &mut Vec<u8>) {
    match what {
        Term::None => {}
        Term::Text(text) => bytes(1, text.as_bytes(), to),
        Term::Bool(value) => varint(2, value.into(), to),
        Term::Int(value) => varint(3, value as u64, to),
        Term::Double(value) => {
            encode_key(4, WireType::SixtyFourBit, to);
            to.extend_from_slice(&value.to_le_bytes());
        }
        Term::List(values) => nested(5, to, |to| {
            values.iter().for_each(|value| nested(1, to, |to| any(value, to)));
        }),
        Term::Struct(fields) => nested(6, to, |to| {
            for (name, value) in fields {
                nested(1, to, |to| pair(name, term(value), to));
            }
        }),
        Term::Bytes(value) => bytes(7, value, to),
    }
}

/// Writes a message whose length is known after it.
fn nested(field: u32, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(field, WireType::LengthDelimited, to);
    let at = to.len();
    to.push(0);
    write(to);
    let len = to.len() - at - 1;
    // Mostly that is one byte; otherwise what follows moves on.
    let (more, end) = (encoded_len_varint(len as u64) - 1, to.len());
    if more > 0 {
        to.resize(end + more, 0);
        to.copy_within(at + 1..end, at + 1 + more);
    }
    encode_varint(len as u64, &mut &mut to[at..at + 1 + more]);
}

fn bytes(field: u32, bytes: &[u8], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// Writes bytes, unless there are none.
fn some(field: u32, value: &[u8], to: &mut Vec<u8>) {
    if !value.is_empty() {
        bytes(field, value, to);
    }
}

fn varint(field: u32, number: u64, to: &mut Vec<u8>) {
    encode_key(field, WireType::Varint, to);
    encode_varint(number, to);
}

/// Writes a number, unless it is 0.
fn number(field: u32, number: u64, to: &mut Vec<u8>) {
    if number != 0 {
        varint(field, number, to);
    }
}

/// Writes a number of eight bytes, unless it is 0.
fn fixed(field: u32, number: u64, to: &mut Vec<u8>) {
    if number != 0 {
        encode_key(field, WireType::SixtyFourBit, to);
        to.extend_from_slice(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::super::wire;
    use super::*;
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::logs::v1::LogRecord;
    use perfring_events::signal::Fault;
    use perfring_types::Class;
    use prost::Message as _;

    /// Values of all kinds, some of them long, as lengths have one byte or more.
    fn values() -> Vec<Value> {
        let text = |len: usize| Value::Str("x".repeat(len));
        let mut all = vec![
            Value::Null,
            Value::Bool(false),
            Value::I64(-1),
            Value::U64(u64::MAX),
            Value::I128(i128::MIN),
            Value::U128(7),
            Value::F32(0.5),
            Value::F64(0.0),
            Value::Char('ä'),
            Value::Bytes(vec![0; 3]),
            Value::Label { value: 0, name: Some("zero".into()) },
            Value::Label { value: 3, name: None },
        ];
        all.extend([0, 1, 119, 120, 121, 126, 127, 128, 16_380, 16_384, 1 << 21].map(text));
        let fields = all.iter().map(|value| ("name".into(), value.clone())).collect();
        all.push(Value::List(all.clone()));
        all.push(Value::Struct(fields));
        all.push(Value::List(vec![Value::Struct(Vec::new()), Value::List(Vec::new())]));
        all
    }

    #[test]
    fn what_is_written_is_what_the_messages_of_otlp_say() {
        let values = values();
        for value in &values {
            let mut to = Vec::new();
            any(value, &mut to);
            let is_same = to == wire::any(value).encode_to_vec();
            assert!(is_same, "{}", value.to_string().chars().take(80).collect::<String>());
        }
        let attributes: Vec<(&str, &Value)> = values.iter().map(|value| ("key", value)).collect();
        let common = Common { time: Some(1), truncated: 1 << 40, attributes, ..Common::default() };
        let key = Key { uuid: [0xab; 16], pos: 4096, lost: None, sum: None };
        let mut wanted = LogRecord {
            time_unix_nano: 1,
            observed_time_unix_nano: 2,
            severity_number: 9,
            severity_text: "INFO".into(),
            body: Some(wire::any(&values[0])),
            attributes: wire::attributes(&common.attributes),
            dropped_attributes_count: u32::MAX,
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            event_name: "event".into(),
            ..LogRecord::default()
        };
        wanted.attributes.push(wire::pair("perfring.key", wire::text(key.to_string())));
        let log = Log {
            common: common.clone(),
            severity_number: Some(9),
            severity_text: "INFO",
            body: Some(&values[0]),
            trace_id: Some([1; 16]),
            span_id: Some([2; 8]),
            event_name: "event",
            observed: Some(2),
        };
        let got = super::log(&log, 7, Some(key));
        assert!(LogRecord::decode(&*got).unwrap() == wanted, "it is another one");
        assert_eq!(got.len(), wanted.encoded_len());
        // A log record of nothing is its time.
        let got = super::log(&Log::default(), 7, None);
        let wanted = LogRecord { observed_time_unix_nano: 7, ..LogRecord::default() };
        assert_eq!(got, wanted.encode_to_vec());
    }

    #[test]
    fn a_record_without_a_class_keeps_what_is_known_of_it() {
        let value = Value::I64(5);
        for (body, wanted) in [
            (PlainBody::None, None),
            (PlainBody::Text("a line"), Some(wire::text("a line"))),
            (PlainBody::Bytes(&[1]), Some(wire::any(&Value::Bytes(vec![1])))),
            (PlainBody::Value(&value), Some(wire::int(5))),
        ] {
            let fault =
                Fault { class: Class::Log, cause: "undecodable", sentence: "it is short".into() };
            let fault = Some(fault);
            let (trace_id, span_id) = (Some([1; 16]), Some([2; 8]));
            let common = Common::default();
            let (name, kind) = ("a.Type", 5000);
            let plain = Plain { common, name, kind, body, trace_id, span_id, fault };
            let got = LogRecord::decode(&*super::plain(&plain, 7, None)).unwrap();
            let pair = |name, value: AnyValue| wire::pair(name, value);
            let wanted = LogRecord {
                observed_time_unix_nano: 7,
                body: wanted,
                attributes: vec![
                    pair("perfring.type", wire::int(5000)),
                    pair("perfring.fault", wire::text("it is short")),
                ],
                event_name: "a.Type".into(),
                trace_id: vec![1; 16],
                span_id: vec![2; 8],
                ..LogRecord::default()
            };
            assert_eq!(got, wanted);
        }
    }
}
