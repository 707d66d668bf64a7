//! The trace's metadata in CTF 2: a sequence of JSON texts (RFC 7464), by <https://diamon.org/ctf/files/CTF2-SPECRC-9.0rA.html>.
//! The bytes of the streams are the same as in CTF 1.8.

use super::field::{Field, Member};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Returns the whole text, of a trace with this id whose clock is `offset` ns behind the wall clock: with the members of
/// the events' context, and the events by their numbers, with their names and members.
pub(super) fn text<'a>(
    trace: &Uuid,
    offset: u64,
    context: &[Member],
    events: impl Iterator<Item = (&'a str, &'a [Member])>,
) -> String {
    let header = structure([
        ("magic", role(unsigned(32), "packet-magic-number")),
        (
            "uuid",
            json!({
                "type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"],
            }),
        ),
        ("stream_id", role(unsigned(32), "data-stream-class-id")),
        ("stream_instance_id", role(unsigned(64), "data-stream-id")),
    ]);
    let packet = structure([
        ("timestamp_begin", role(unsigned(64), "default-clock-timestamp")),
        ("timestamp_end", role(unsigned(64), "packet-end-default-clock-timestamp")),
        ("content_size", role(unsigned(64), "packet-content-length")),
        ("packet_size", role(unsigned(64), "packet-total-length")),
        ("events_discarded", role(unsigned(64), "discarded-event-record-counter-snapshot")),
        ("packet_seq_num", role(unsigned(64), "packet-sequence-number")),
    ]);
    let event = structure([
        ("id", role(unsigned(32), "event-record-class-id")),
        ("timestamp", role(unsigned(64), "default-clock-timestamp")),
    ]);
    let fragments = [
        json!({ "type": "preamble", "version": 2, "uuid": trace.as_bytes() }),
        json!({
            "type": "trace-class",
            "environment": { "tracer_name": "perfring", "tracer_version": env!("CARGO_PKG_VERSION") },
            "packet-header-field-class": header,
        }),
        json!({
            "type": "clock-class", "id": "boottime", "name": "boottime",
            "description": "CLOCK_BOOTTIME", "frequency": 1_000_000_000, "origin": "unix-epoch",
            "offset-from-origin": {
                "seconds": offset / 1_000_000_000, "cycles": offset % 1_000_000_000,
            },
        }),
        json!({
            "type": "data-stream-class", "id": 0, "default-clock-class-id": "boottime",
            "packet-context-field-class": packet,
            "event-record-header-field-class": event,
            "event-record-common-context-field-class": members(context),
        }),
    ];
    let events = events.enumerate().map(|(id, (name, payload))| {
        json!({
            "type": "event-record-class", "data-stream-class-id": 0, "id": id, "name": name,
            "payload-field-class": members(payload),
        })
    });
    fragments.into_iter().chain(events).map(|one| format!("\u{1e}{one}\n")).collect()
}

fn structure<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let members = fields.map(|(name, class)| json!({ "name": name, "field-class": class }));
    json!({ "type": "structure", "member-classes": members.to_vec() })
}

fn role(mut class: Value, role: &str) -> Value {
    class["roles"] = json!([role]);
    class
}

fn number(kind: &str, bits: u8) -> Value {
    json!({
        "type": format!("fixed-length-{kind}"), "length": bits, "alignment": 8,
        "byte-order": "little-endian",
    })
}

fn unsigned(bits: u8) -> Value {
    number("unsigned-integer", bits)
}

fn members(all: &[Member]) -> Value {
    let mut fields = Vec::new();
    for member in all {
        let name = member.bare();
        let length = format!("{name}_len");
        let class = of(&member.field, &length);
        if has_length(&member.field) {
            fields.push(json!({ "name": length, "field-class": unsigned(32) }));
        }
        fields.push(json!({ "name": name, "field-class": class }));
    }
    json!({ "type": "structure", "member-classes": fields })
}

/// Returns whether a field comes after a number of its elements.
fn has_length(field: &Field) -> bool {
    matches!(field, Field::Bytes | Field::Sequence(_) | Field::Optional(_))
}

/// Returns the class of a field, whose number of elements is in the member `length` of the same structure.
fn of(field: &Field, length: &str) -> Value {
    let location = json!({ "path": [length] });
    match field {
        Field::Unsigned(bits) => unsigned(*bits),
        Field::Signed(bits) => number("signed-integer", *bits),
        Field::Float => number("floating-point-number", 32),
        Field::Double => number("floating-point-number", 64),
        Field::Text | Field::Json | Field::Whole => json!({ "type": "null-terminated-string" }),
        Field::Bytes => json!({ "type": "dynamic-length-blob", "length-field-location": location }),
        Field::Labelled(bits, signed, labels) => labelled(*bits, *signed, labels),
        Field::Array(of, count) => json!({
            "type": "static-length-array", "length": count, "element-field-class": element(of),
        }),
        Field::Sequence(of) => json!({
            "type": "dynamic-length-array", "length-field-location": location,
            "element-field-class": element(of),
        }),
        Field::Optional(of) => json!({
            "type": "optional", "selector-field-location": location,
            "selector-field-ranges": [[1, 1]], "field-class": element(of),
        }),
        Field::Struct(all) => members(all),
        Field::Nothing => members(&[]),
    }
}

/// Returns the class of an element. One with a length is put into a structure.
fn element(field: &Field) -> Value {
    match has_length(field) {
        true => members(&[Member::element(field.clone())]),
        false => of(field, ""),
    }
}

fn labelled(bits: u8, signed: bool, labels: &[(i64, String)]) -> Value {
    let mut class = if signed { number("signed-integer", bits) } else { unsigned(bits) };
    let mut mappings = Map::new();
    for (value, label) in labels {
        let value = match signed {
            true => json!(value),
            false => json!(*value as u64 & (u64::MAX >> (64 - bits))), // its low bytes are written
        };
        let ranges = mappings.entry(label.clone()).or_insert_with(|| json!([]));
        if let Value::Array(ranges) = ranges {
            ranges.push(json!([value, value]));
        }
    }
    class["mappings"] = Value::Object(mappings);
    class
}
