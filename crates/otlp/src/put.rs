//! Log records in their encoded form, written without messages between.

use super::wire::{Term, count, raw, term, whole};
use perfring_events::{
    Key, Rec,
    signal::{Direct, DirectReader, Log, Plain, PlainBody},
};
use perfring_types::Class;
use perfring_types::read::Value;
use prost::encoding::{WireType, encode_varint, encoded_len_varint};

/// The attribute that names the type of a record without a class.
const KIND: &str = "perfring.type";
/// The bytes of the two times that a log record begins with.
const TIMES: usize = 18;
/// The digits of an id of a ring in hexadecimal, and those of the longest position.
const ID: usize = 32;
const POSITION: usize = 20;

/// What a log record has besides its times, its attributes and its key.
#[derive(Default)]
struct Rest<'a> {
    truncated: u64,
    severity_number: u64,
    severity_text: &'a str,
    body: Option<Term<'a>>,
    trace_id: Option<[u8; 16]>,
    span_id: Option<[u8; 8]>,
    event_name: &'a str,
}

/// Encodes a log record.
pub(super) fn log(log: &Log<'_>, now: u64, key: Option<Key>, to: &mut Vec<u8>) {
    begin(to);
    for (name, value) in &log.common.attributes {
        attribute(name, term(value), to);
    }
    let rest = Rest {
        truncated: log.common.truncated,
        severity_number: log.severity_number.unwrap_or_default().into(),
        severity_text: log.severity_text,
        body: log.body.map(term),
        trace_id: log.trace_id,
        span_id: log.span_id,
        event_name: log.event_name,
    };
    end(rest, to);
    keyed(key, to);
    times(log.common.time, log.observed.unwrap_or(now), to);
}

/// Encodes a record without a class as a log record.
pub(super) fn plain(plain: &Plain<'_>, now: u64, key: Option<Key>, to: &mut Vec<u8>) {
    begin(to);
    for (name, value) in &plain.common.attributes {
        attribute(name, term(value), to);
    }
    let body = match plain.body {
        PlainBody::None => None,
        PlainBody::Text(body) => Some(Term::Text(body.into())),
        PlainBody::Bytes(bytes) => Some(Term::Bytes(bytes)),
        PlainBody::Value(value) => Some(term(value)),
    };
    let rest = Rest {
        truncated: plain.common.truncated,
        body,
        trace_id: plain.trace_id,
        span_id: plain.span_id,
        event_name: plain.name,
        ..Rest::default()
    };
    end(rest, to);
    attribute(KIND, Term::Int(plain.kind.into()), to);
    if let Some(fault) = &plain.fault {
        attribute("perfring.fault", Term::Text(fault.sentence.as_str().into()), to);
    }
    keyed(key, to);
    times(plain.common.time, now, to);
}

/// Encodes a record as a log record straight from its bytes, if that can be done, and if it has a class or `plain` says so.
/// Returns what is read of it.
pub(super) fn direct<'a>(
    reader: &'a mut DirectReader,
    (ring, record): (u32, &'a Rec<'_>),
    plain: bool,
    now: u64,
    key: Option<Key>,
    to: &mut Vec<u8>,
) -> Option<Direct<'a>> {
    begin(to);
    let log = reader.read(ring, record, |name, value| attribute(name, raw(value), to))?;
    if log.class == Class::Plain && !plain {
        return None;
    }
    let rest = Rest {
        truncated: log.truncated,
        severity_number: log.severity_number.into(),
        severity_text: log.severity_text,
        body: log.body.map(raw),
        trace_id: log.trace_id,
        span_id: log.span_id,
        event_name: log.event_name,
    };
    end(rest, to);
    if log.class == Class::Plain {
        attribute(KIND, Term::Int(record.kind.into()), to);
    }
    keyed(key, to);
    times(log.time, log.observed.unwrap_or(now), to);
    Some(log)
}

/// Begins a log record: its attributes follow.
fn begin(to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(&[0; TIMES]);
}

/// Writes what follows the attributes.
fn end(rest: Rest<'_>, to: &mut Vec<u8>) {
    number(7, count(rest.truncated).into(), to);
    number(2, rest.severity_number, to);
    some(3, rest.severity_text.as_bytes(), to);
    if let Some(body) = rest.body {
        nested(5, to, |to| put(body, to));
    }
    some(9, rest.trace_id.as_ref().map_or(&[], |id| id), to);
    some(10, rest.span_id.as_ref().map_or(&[], |id| id), to);
    some(12, rest.event_name.as_bytes(), to);
}

/// Writes when it happened, 0 if that is unknown, and when it was observed, before all others.
fn times(time: Option<u64>, observed: u64, to: &mut Vec<u8>) {
    let mut at = 0;
    for (field, time) in [(1, time.unwrap_or_default()), (11, observed)] {
        if time == 0 {
            to.drain(at..at + TIMES / 2);
            continue;
        }
        to[at] = key(field, WireType::SixtyFourBit);
        to[at + 1..at + TIMES / 2].copy_from_slice(&time.to_le_bytes());
        at += TIMES / 2;
    }
}

/// Writes the key of a record as its text, see [`Key`].
fn keyed(of: Option<Key>, to: &mut Vec<u8>) {
    let Some(of) = of else { return };
    if of.lost.is_some() || of.sum.is_some() {
        return attribute("perfring.key", Term::Text(of.to_string().into()), to);
    }
    let mut text = [b'-'; ID + 1 + POSITION];
    let digit = |four: u8| four + if four < 10 { b'0' } else { b'a' - 10 };
    for (pair, byte) in text.chunks_exact_mut(2).zip(of.uuid) {
        pair[0] = digit(byte >> 4);
        pair[1] = digit(byte & 15);
    }
    text[ID] = b'-';
    let (mut digits, mut at, mut left) = ([0; POSITION], POSITION, of.pos);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    let digits = &digits[at..];
    let text = &mut text[..ID + 1 + digits.len()];
    text[ID + 1..].copy_from_slice(digits);
    // Each of these lengths has one byte.
    const NAME: &[u8] = b"\x0a\x0cperfring.key\x12";
    let len = text.len() as u8;
    const TEXT: u8 = key(1, WireType::LengthDelimited);
    const ATTRIBUTE: u8 = key(6, WireType::LengthDelimited);
    to.extend_from_slice(&[ATTRIBUTE, NAME.len() as u8 + 3 + len]);
    to.extend_from_slice(NAME);
    to.extend_from_slice(&[2 + len, TEXT, len]);
    to.extend_from_slice(text);
}

/// Writes an attribute.
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
            to.push(key(4, WireType::SixtyFourBit));
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
        Term::Doubles(list) => nested(5, to, |to| {
            list.iter().for_each(|value| nested(1, to, |to| put(Term::Double(value), to)));
        }),
        Term::Wholes(list) => nested(5, to, |to| {
            list.iter().for_each(|value| nested(1, to, |to| put(whole(value), to)));
        }),
    }
}

/// Writes a message whose length is known after it.
#[inline]
fn nested(field: u8, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    to.extend_from_slice(&[key(field, WireType::LengthDelimited), 0]);
    let at = to.len();
    write(to);
    let (len, end) = (to.len() - at, to.len());
    if len < 0x80 {
        to[at - 1] = len as u8;
        return;
    }
    // What follows moves on.
    let more = encoded_len_varint(len as u64) - 1;
    to.resize(end + more, 0);
    to.copy_within(at..end, at + more);
    encode_varint(len as u64, &mut &mut to[at - 1..at + more]);
}

/// Returns the key of a field: one byte, as no field here has a number above 15.
const fn key(field: u8, kind: WireType) -> u8 {
    field << 3 | kind as u8
}

#[inline]
fn bytes(field: u8, bytes: &[u8], to: &mut Vec<u8>) {
    varint_as(key(field, WireType::LengthDelimited), bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// Writes bytes, unless there are none.
#[inline]
fn some(field: u8, value: &[u8], to: &mut Vec<u8>) {
    if !value.is_empty() {
        bytes(field, value, to);
    }
}

#[inline]
fn varint(field: u8, number: u64, to: &mut Vec<u8>) {
    varint_as(key(field, WireType::Varint), number, to);
}

/// Writes a number after its key.
#[inline]
fn varint_as(key: u8, number: u64, to: &mut Vec<u8>) {
    if number < 0x80 {
        return to.extend_from_slice(&[key, number as u8]);
    }
    to.push(key);
    encode_varint(number, to);
}

/// Writes a number, unless it is 0.
#[inline]
fn number(field: u8, number: u64, to: &mut Vec<u8>) {
    if number != 0 {
        varint(field, number, to);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::super::wire;
    use super::*;
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::logs::v1::LogRecord;
    use perfring_events::signal::{Common, Fault};
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
        let mut got = Vec::new();
        super::log(&log, 7, Some(key), &mut got);
        assert!(LogRecord::decode(&*got).unwrap() == wanted, "it is another one");
        assert_eq!(got.len(), wanted.encoded_len());
        // A log record of nothing is its time.
        super::log(&Log::default(), 7, None, &mut got);
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
            let mut got = Vec::new();
            super::plain(&plain, 7, None, &mut got);
            let got = LogRecord::decode(&*got).unwrap();
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
