//! A ring with records of all kinds.
#![allow(dead_code, reason = "each file of tests uses what it needs")]

use crate::command::Place;
use perfring_producer::{Producer, RecordType};
use perfring_types::tagged::TaggedWriter;
use perfring_types::{Class, Constant, Encoding, Field, Kind, Label, Schema, Shape};
use std::path::Path;

pub(crate) const U32: Shape<'static> = Shape::plain(Kind::U32, 4);
pub(crate) const LEG: Shape<'static> = Shape::structure(
    16,
    &[
        Field { unit: "{piece}", ..Field::new("qty", 0, U32) },
        Field { help: "Of one", unit: "EUR", ..Field::new("price", 8, Shape::plain(Kind::F64, 8)) },
    ],
);
pub(crate) const SIDE: Shape<'static> = Shape {
    of: Some(&Shape::plain(Kind::U8, 1)),
    labels: &[Label { value: 1, name: "buy" }, Label { value: 2, name: "sell at market" }],
    ..Shape::plain(Kind::Enum, 1)
};

/// Nested, with arrays, units and an enumeration.
pub(crate) const ORDER: Schema<'static> = Schema {
    id: RecordType::new(5000).unwrap(),
    version: 3,
    help: "An order on the book",
    ..Schema::new("demo.Order", Encoding::Pod).with_fields(
        56,
        &[
            Field { help: "Counts from 1", ..Field::new("id", 0, Shape::plain(Kind::U64, 8)) },
            Field { unit: "s", ..Field::new("age", 8, Shape::plain(Kind::F32, 4)) },
            Field::new("side", 12, SIDE),
            Field::new("venue", 13, Shape::plain(Kind::Text, 11)),
            Field::new("legs", 24, Shape::array(&LEG, 2)),
        ],
    )
};
pub(crate) const LINE: Schema<'static> =
    Schema { id: RecordType::new(5001).unwrap(), ..Schema::new("demo.Line", Encoding::Utf8) };
pub(crate) const EVENT: Schema<'static> =
    Schema { id: RecordType::new(5002).unwrap(), ..Schema::new("demo.Event", Encoding::Json) };
pub(crate) const BLOB: Schema<'static> =
    Schema { id: RecordType::new(5003).unwrap(), ..Schema::new("demo.Blob", Encoding::Bytes) };
pub(crate) const LOG: Schema<'static> = Schema {
    class: Class::Log,
    ..Schema::new("demo.checkout", Encoding::Tagged).with_fields(
        0,
        &[
            Field::constant("severity_number", Constant::U64(13)),
            Field::constant("severity_text", Constant::Str("WARN")),
            Field::constant("target", Constant::Str("shop::checkout")),
            Field::new("body", 0, Shape::ANY),
            Field { unit: "ms", ..Field::new("elapsed", 0, Shape::ANY) },
            Field::new("trace_id", 0, Shape::ANY),
            Field::new("span_id", 0, Shape::ANY),
        ],
    )
}
.with_hashed_id();
pub(crate) const START: Schema<'static> = Schema {
    class: Class::SpanStart,
    ..Schema::new("demo.request", Encoding::Tagged).with_fields(
        0,
        &[
            Field::constant("name", Constant::Str("GET /cart")),
            Field::new("span_id", 0, Shape::ANY),
            Field::new("parent_span_id", 0, Shape::ANY),
        ],
    )
}
.with_hashed_id();

pub(crate) const MORE: Schema<'static> = Schema {
    class: Class::SpanStart,
    ..Schema::new("demo.more", Encoding::Tagged)
        .with_fields(0, &[Field::new("name", 0, Shape::ANY), Field::new("span_id", 0, Shape::ANY)])
}
.with_hashed_id();
pub(crate) const END: Schema<'static> = Schema {
    class: Class::SpanEnd,
    ..Schema::new("demo.end", Encoding::Tagged).with_fields(
        0,
        &[
            Field::new("process.pid", 0, Shape::ANY),
            Field::new("span_id", 0, Shape::ANY),
            Field::new("name", 0, Shape::ANY),
            Field { unit: "ns", ..Field::new("duration_nano", 0, Shape::ANY) },
            Field::constant("otel.scope.name", Constant::Str("shop")),
        ],
    )
}
.with_hashed_id();
pub(crate) const BARE: Schema<'static> = Schema {
    class: Class::Log,
    ..Schema::new("demo.bare", Encoding::Tagged).with_fields(
        0,
        &[
            Field::new("severity_number", 0, Shape::ANY),
            Field::new("body", 0, Shape::ANY),
            Field::constant("code.file.path", Constant::Str("src/main.rs")),
            Field::constant("code.line.number", Constant::U64(9)),
        ],
    )
}
.with_hashed_id();

/// Of this span, with these values before it and after it.
pub(crate) fn span(
    before: &[(u16, u64)],
    number: u16,
    after: impl FnOnce(&mut TaggedWriter<'_>),
) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    before.iter().for_each(|(number, value)| writer.u64(*number, *value));
    writer.bytes(number, &[0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
    after(&mut writer);
    payload
}

pub(crate) fn bare() -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.u64(0u16, 10);
    writer.text(1u16, "fell back");
    writer.u64("tries", 3);
    payload
}

pub(crate) const ALL: [Schema<'static>; 9] =
    [ORDER, LINE, EVENT, BLOB, LOG, START, MORE, END, BARE];

pub(crate) fn order(id: u64, age: f32, side: u8, venue: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(id.to_ne_bytes());
    bytes.extend(age.to_ne_bytes());
    bytes.push(side);
    bytes.extend(venue.as_bytes());
    bytes.resize(24, 0);
    for (qty, price) in [(7u32, 12.5f64), (0, -0.0)] {
        bytes.extend(qty.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(price.to_ne_bytes());
    }
    bytes
}

pub(crate) fn log(body: &str, elapsed: f64, user: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.text(3u16, body);
    writer.f64(4u16, elapsed);
    writer.bytes(5u16, &[0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0, 0, 0, 0, 0, 0, 0, 1]);
    writer.bytes(6u16, &[0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
    writer.text("user", user);
    payload
}

pub(crate) fn span_start() -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.bytes(1u16, &[0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
    writer.bytes(2u16, &[0; 8]);
    writer.text("http.request.method", "GET");
    payload
}

/// A ring with a record or two of every kind.
pub(crate) fn all_kinds(place: &Place) -> String {
    all_kinds_in(place.ring(&[]))
}

/// The same in this ring.
pub(crate) fn all_kinds_in(ring: String) -> String {
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    for schema in ALL {
        producer.register(&schema).unwrap();
    }
    for (kind, payload) in [
        (ORDER.id, order(1, 0.1, 1, "XETRA")),
        (ORDER.id, order(u64::MAX, f32::NAN, 9, "a\x1b[31m b")),
        (LINE.id, b"plain text\twith a tab".to_vec()),
        (EVENT.id, br#"{"b":[1,2.5,null],"a":{"c":"d e"}}"#.to_vec()),
        (EVENT.id, b"17".to_vec()),
        (BLOB.id, b"\xff\x00".to_vec()),
        (RecordType::BYTES, b"of no type".to_vec()),
        (LOG.id, log("card was\nrefused", 12.5, "Ann \x07 B")),
        (START.id, span_start()),
        (MORE.id, span(&[], 1, |writer| writer.bool("paid", true))),
        (
            END.id,
            span(&[(0, 77)], 1, |writer| {
                writer.text(2u16, "GET /cart");
                writer.u64(3u16, 1_500_000);
            }),
        ),
        (BARE.id, bare()),
        (ORDER.id, b"too short\x1b".to_vec()),
        (EVENT.id, b"{".to_vec()),
    ] {
        producer.publish_as(kind, &payload).unwrap();
    }
    ring
}
