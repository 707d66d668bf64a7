//! Records with a shape, as the command line shows them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod command;

use command::{Done, Live, Place, close_and_wait, json_lines, perfring, run};
use perfring_abi::FIELDS;
use perfring_consumer::{Observer, Start};
use perfring_producer::{Producer, RecordType};
use perfring_types::tagged::TaggedWriter;
use perfring_types::{Class, Constant, Encoding, Field, Kind, Label, Schema, Shape};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const U32: Shape<'static> = Shape::plain(Kind::U32, 4);
const LEG: Shape<'static> = Shape::structure(
    16,
    &[
        Field { unit: "{piece}", ..Field::new("qty", 0, U32) },
        Field { help: "Of one", unit: "EUR", ..Field::new("price", 8, Shape::plain(Kind::F64, 8)) },
    ],
);
const SIDE: Shape<'static> = Shape {
    of: Some(&Shape::plain(Kind::U8, 1)),
    labels: &[Label { value: 1, name: "buy" }, Label { value: 2, name: "sell at market" }],
    ..Shape::plain(Kind::Enum, 1)
};

/// Nested, with arrays, units and an enumeration.
const ORDER: Schema<'static> = Schema {
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
const LINE: Schema<'static> =
    Schema { id: RecordType::new(5001).unwrap(), ..Schema::new("demo.Line", Encoding::Utf8) };
const EVENT: Schema<'static> =
    Schema { id: RecordType::new(5002).unwrap(), ..Schema::new("demo.Event", Encoding::Json) };
const BLOB: Schema<'static> =
    Schema { id: RecordType::new(5003).unwrap(), ..Schema::new("demo.Blob", Encoding::Bytes) };
const LOG: Schema<'static> = Schema {
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
const START: Schema<'static> = Schema {
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

const MORE: Schema<'static> = Schema {
    class: Class::SpanStart,
    ..Schema::new("demo.more", Encoding::Tagged)
        .with_fields(0, &[Field::new("name", 0, Shape::ANY), Field::new("span_id", 0, Shape::ANY)])
}
.with_hashed_id();
const END: Schema<'static> = Schema {
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
const BARE: Schema<'static> = Schema {
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
fn span(before: &[(u16, u64)], number: u16, after: impl FnOnce(&mut TaggedWriter<'_>)) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    before.iter().for_each(|(number, value)| writer.u64(*number, *value));
    writer.bytes(number, &[0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
    after(&mut writer);
    payload
}

fn bare() -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.u64(0u16, 10);
    writer.text(1u16, "fell back");
    writer.u64("tries", 3);
    payload
}

const ALL: [Schema<'static>; 9] = [ORDER, LINE, EVENT, BLOB, LOG, START, MORE, END, BARE];

fn order(id: u64, age: f32, side: u8, venue: &str) -> Vec<u8> {
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

fn log(body: &str, elapsed: f64, user: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.text(3u16, body);
    writer.f64(4u16, elapsed);
    writer.bytes(5u16, &[0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0, 0, 0, 0, 0, 0, 0, 1]);
    writer.bytes(6u16, &[0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
    writer.text("user", user);
    payload
}

fn span_start() -> Vec<u8> {
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.bytes(1u16, &[0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
    writer.bytes(2u16, &[0; 8]);
    writer.text("http.request.method", "GET");
    payload
}

/// A ring with a record or two of every kind.
fn all_kinds(place: &Place) -> String {
    let ring = place.ring(&[]);
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
        producer.publish(kind, &payload).unwrap();
    }
    ring
}

const GOLDEN: &str = r#"demo.Order id=1 age=0.1 s side=buy venue=XETRA legs=[{qty=7 {piece} price=12.5 EUR} {qty=0 {piece} price=-0.0 EUR}]
demo.Order id=18446744073709551615 age=NaN s side=9 venue="a\u{1b}[31m b" legs=[{qty=7 {piece} price=12.5 EUR} {qty=0 {piece} price=-0.0 EUR}]
demo.Line plain text	with a tab
demo.Event b=[1 2.5 null] a={c="d e"}
demo.Event 17
demo.Blob \xff\x00
of no type
WARN  shop::checkout: card was\x0arefused  elapsed=12.5 ms user="Ann \u{7} B"  trace=4bf92f35 span=00f067aa
start GET /cart  http.request.method=GET  span=00f067aa
more   paid=true  span=00f067aa
end   shop: GET /cart took 1.5ms  span=00f067aa pid=77
INFO  fell back  tries=3  at src/main.rs:9
demo.Order too short\x1b [the record is no "demo.Order": it has 10 bytes instead of 56]
demo.Event { [the record is no "demo.Event": it is not JSON: EOF while parsing an object at line 1 column 1]
"#;

#[test]
fn records_are_shown_by_their_types_from_every_reader() {
    let place = Place::new();
    let ring = all_kinds(&place);
    for reader in ["dump", "tail", "consume"] {
        let done = run(&[reader, &ring], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        assert_eq!(done.out(), GOLDEN, "{reader}");
        let bad = "perfring: 2 records are not as the type table says, and shown as bytes\n";
        assert!(done.err().starts_with(bad), "{reader}: {}", done.err());
    }
}

#[test]
fn json_has_typed_values_and_the_payload_of_what_has_none() {
    let place = Place::new();
    let ring = all_kinds(&place);
    for reader in ["dump", "tail", "consume"] {
        let done = run(&[reader, "--format", "json", &ring], b"");
        let lines = json_lines(&done.out());
        assert_eq!(lines.len(), 14);
        let keys = |at: usize| -> Vec<&str> {
            lines[at].as_object().unwrap().keys().map(String::as_str).collect()
        };
        let typed = ["fields", "len", "pos", "type", "type_name"];
        assert_eq!(keys(0), typed);
        assert_eq!(
            (&lines[0]["type"], &lines[0]["type_name"]),
            (&json!(5000), &json!("demo.Order"))
        );
        let legs = json!([{"qty": 7, "price": 12.5}, {"qty": 0, "price": -0.0}]);
        assert_eq!(
            lines[0]["fields"],
            json!({"id": 1, "age": 0.1, "side": "buy", "venue": "XETRA", "legs": legs})
        );
        assert_eq!(lines[1]["fields"]["id"], u64::MAX);
        assert_eq!(lines[1]["fields"]["age"], "NaN");
        assert_eq!(lines[1]["fields"]["side"], 9);
        assert_eq!(lines[1]["fields"]["venue"], "a\u{1b}[31m b");
        assert_eq!(keys(2), ["len", "pos", "text", "type", "type_name"]);
        assert_eq!(lines[2]["text"], "plain text\twith a tab");
        assert_eq!(lines[3]["fields"], json!({"b": [1, 2.5, null], "a": {"c": "d e"}}));
        assert_eq!(keys(4), ["len", "pos", "type", "type_name", "value"]);
        assert_eq!(lines[4]["value"], 17);
        assert_eq!((keys(5)[0], &lines[5]["type_name"]), ("base64", &json!("demo.Blob")));
        assert_eq!(keys(6), ["len", "pos", "text", "type"]);
        let fields = json!({
            "severity_number": 13, "severity_text": "WARN", "target": "shop::checkout",
            "body": "card was\nrefused", "elapsed": 12.5, "user": "Ann \u{7} B",
            "trace_id": "4bf92f3577b34da60000000000000001", "span_id": "00f067aa0ba902b7",
        });
        assert_eq!(lines[7]["fields"], fields);
        assert_eq!(keys(12), ["bad", "len", "pos", "text", "type", "type_name"]);
        assert_eq!(lines[12]["text"], "too short\u{1b}");
        assert_eq!(
            lines[12]["bad"],
            r#"the record is no "demo.Order": it has 10 bytes instead of 56"#
        );
        assert!(!done.out().contains('\x1b'));
    }
}

#[test]
fn payloads_can_be_had_as_they_are() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let out = run(&["dump", "--untyped", "--where", "id=1", &ring], b"").out();
    assert!(out.starts_with("\\x01\\x00\\x00") && out.lines().count() == 1, "{out}");
    let line = &json_lines(&run(&["dump", "--untyped", "--format", "json", &ring], b"").out())[3];
    assert_eq!(line["text"], r#"{"b":[1,2.5,null],"a":{"c":"d e"}}"#);
    assert!(line.get("type_name").is_none());
    let raw = run(&["dump", "--format", "raw", "--type", "demo.Line", &ring], b"");
    assert_eq!(raw.out(), "plain text\twith a tab");
    assert!(!raw.err().contains("type table"), "{}", raw.err());
    run(&["dump", "--untyped", "--format", "raw", &ring], b"").refuses(2, "raw has no types");
}

#[test]
fn types_and_values_choose_records_and_nothing_counts_as_lost() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let hashed = LOG.id.get().to_string();
    for (args, shown) in [
        (&["--type", "demo.Order"][..], 3),
        (&["--type", "5000"], 3),
        (&["--type", "0x1388", "--type", "demo.Line"], 4),
        (&["--type", &hashed], 1),
        (&["--type", "4096"], 1),
        (&["--where", "severity_number>=13"], 1),
        (&["--where", "severity_number>=9"], 2),
        (&["--where", "severity_number>13"], 0),
        (&["--where", "severity_text=WARN", "--where", "user~Ann"], 1),
        (&["--where", "severity_text=WARN", "--where", "user=Ann"], 0),
        (&["--where", "legs.0.price=12.5"], 2),
        (&["--where", "legs.1.qty!=0"], 0),
        (&["--where", "side=buy"], 1),
        (&["--where", "side!=buy"], 1),
        (&["--where", "id<2", "--type", "demo.Order"], 1),
        (&["--where", "id<=1", "--type", "demo.Line"], 0),
        (&["--where", "a.c=d e"], 1),
        (&["--where", "no.such~x"], 0),
        (&["--where", "no.such!=x"], 0),
        (&["--where", "trace_id~4bf9"], 1),
    ] {
        for reader in ["dump", "tail"] {
            let done = run(&[&[reader, &ring], args].concat(), b"");
            assert_eq!((done.code(), done.out().lines().count()), (0, shown), "{args:?}");
            assert!(!done.err().contains("LOST"), "{}", done.err());
            if reader == "dump" {
                let sum = format!("perfring: {shown} of 14 records shown; since the ring was made");
                assert!(done.err().contains(&sum), "{}", done.err());
            }
        }
    }
    for (args, says) in [
        (["--where", "severity"], "\"severity\" is no condition: write FIELD=VALUE"),
        (["--where", "=3"], "is no condition"),
        (["--where", ""], "is no condition"),
        (["--type", ""], "name or number"),
    ] {
        for reader in ["dump", "tail", "consume"] {
            run(&[&[reader, &ring[..]], &args[..]].concat(), b"").refuses(2, says);
        }
    }
    let done = run(&["dump", "--type", "demo.order", "--type", "77", &ring], b"");
    let says = "no type is called \"demo.order\"; `perfring types";
    assert!(done.code() == 0 && done.err().contains(says), "{}", done.err());
    // Records that were shown are counted, and the others are consumed as well.
    let done = run(&["tail", "-n", "1", "--type", "demo.Blob", &ring], b"");
    assert_eq!(done.out(), "demo.Blob \\xff\\x00\n");
    let done = run(&["consume", "-n", "1", "--fail-on-loss", "--type", "demo.Blob", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, "demo.Blob \\xff\\x00\n"));
    assert_eq!(run(&["consume", "-n", "1", &ring], b"").out(), "of no type\n");
}

#[test]
fn losses_are_shown_whatever_is_chosen() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.register(&LINE).unwrap();
    while producer.publish(LINE.id, b"fill").is_ok() {}
    assert_eq!(run(&["consume", "-n", "9", &ring], b"").code(), 0);
    producer.publish(LINE.id, b"after").unwrap();
    for format in ["text", "json"] {
        let args = ["tail", "--type", "nothing", "--fail-on-loss", "--format", format, &ring];
        let done = run(&args, b"");
        assert_eq!(done.code(), 5);
        let told = if format == "json" { done.out() } else { done.err() };
        assert!(told.contains("full"), "{told}");
    }
}

#[test]
fn a_follower_learns_types_that_come_later() {
    for (reader, policy) in [("tail", "drop"), ("consume", "drop"), ("consume", "overwrite")] {
        let place = Place::new();
        let ring = place.ring(&["--policy", policy]);
        let mut producer = Producer::attach(Path::new(&ring)).unwrap();
        producer.publish(LINE.id, b"unknown").unwrap();
        let mut live = Live::start(&[reader, "-f", &ring]);
        assert_eq!(live.line(), "unknown");
        for (nth, schema) in [LINE, EVENT, BLOB].iter().enumerate() {
            producer.register(schema).unwrap();
            producer.publish(schema.id, b"1").unwrap();
            assert_eq!(live.line(), format!("{} 1", schema.name), "{reader} {policy} {nth}");
        }
    }
}

const LISTED: &str = "\
demo.Order
  type       5000 (0x1388)
  version    3
  encoding   pod, 56 bytes
  help       An order on the book
   0  id       u64          Counts from 1
   8  age      f32          [s]
  12  side     enum of u8   1=buy 2=\"sell at market\"
  13  venue    text[11]
  24  legs     [struct; 2]
   0    qty    u32          [{piece}]
   8    price  f64          [EUR] Of one

demo.Line
  type       5001 (0x1389)
  version    1
  encoding   utf-8

";

#[test]
fn records_with_stamps_are_shown_with_their_times_and_chosen_by_them() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.register(&LINE).unwrap();
    let began = SystemTime::now();
    // No two of these are of one millisecond, so that stamps need not be exact.
    let later = |than: SystemTime| loop {
        let now = SystemTime::now();
        if now.duration_since(than).is_ok_and(|time| time > Duration::from_millis(2)) {
            return now;
        }
    };
    later(began);
    producer.publish(LINE.id, b"one").unwrap();
    let between = later(SystemTime::now());
    later(between);
    producer.publish(RecordType::BYTES, b"two").unwrap();
    let after = later(SystemTime::now());
    drop(producer);
    let ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    for reader in ["dump", "tail"] {
        let text = run(&[reader, "-p", &ring, "--since", "1h"], b"");
        let lines: Vec<String> = text.out().lines().map(str::to_owned).collect();
        let words: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!((words.len(), words[1], words[3], words[4]), (5, "5001", "demo.Line", "one"));
        let shown = humantime::parse_rfc3339(words[2]).unwrap();
        assert!(words[2].len() == 27 && began < shown && shown < between, "{}", lines[0]);
        assert!(lines[1].ends_with("Z two"), "{}", lines[1]);
    }
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.publish(RecordType::BYTES, b"three").unwrap();
    drop(producer);
    let between = humantime::format_rfc3339_nanos(between).to_string();
    let after_three = humantime::format_rfc3339_nanos(later(SystemTime::now())).to_string();
    for (reader, since, expected) in [
        ("dump", "1h", &["one", "two", "three"][..]),
        ("dump", "0s", &["three"]),
        ("dump", &between, &["two", "three"]),
        ("dump", &after_three, &[]),
        ("tail", "1h", &["one", "two", "three"]),
        ("tail", "0s", &[]),
        ("tail", &between, &["two", "three"]),
        ("consume", "0s", &[]),
    ] {
        if reader == "consume" {
            let mut producer = Producer::attach(Path::new(&ring)).unwrap();
            producer.publish(RecordType::BYTES, b"four").unwrap();
        }
        let done = run(&[reader, "--format", "json", "--since", since, &ring], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        let lines = json_lines(&done.out());
        let texts: Vec<&str> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
        assert_eq!(texts, expected, "{reader} {since}");
        for line in &lines {
            let wall = line["time_unix_ns"].as_u64().unwrap();
            let time = humantime::parse_rfc3339(line["time"].as_str().unwrap()).unwrap();
            assert_eq!(ns(time), wall);
            assert!(line["time_ns"].is_u64() && line["time"].as_str().unwrap().len() == 30);
            assert!((ns(began)..ns(after) + 60_000_000_000).contains(&wall));
        }
    }
    run(&["dump", "--since", "5", &ring], b"").refuses(2, "like 5s or 2h 30m");
    assert_eq!(json_lines(&run(&["stat", "--json", &ring], b"").out())[0]["time"], true);
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&[]);
    for reader in ["dump", "tail", "consume"] {
        run(&[reader, "--since", "5s", &ring], b"").refuses(2, "perfring create --time");
    }
}

#[test]
fn types_are_listed_with_all_that_is_known_of_them() {
    let place = Place::new();
    let ring = all_kinds(&place);
    fs::set_permissions(&ring, fs::Permissions::from_mode(0o400)).unwrap();
    let before = fs::read(&ring).unwrap();
    let copy = place.path("copy");
    fs::copy(&ring, &copy).unwrap();
    for file in [&*ring, copy.to_str().unwrap()] {
        let done = run(&["types", file], b"");
        assert_eq!((done.code(), done.err().as_str()), (0, ""));
        let out = done.out();
        assert!(out.starts_with(LISTED), "{out}");
        assert!(out.contains("  class      log\n"), "{out}");
        assert!(out.contains("  severity_text    = \"WARN\"\n"), "{out}");
        assert!(out.contains("  #3  body             any\n"), "{out}");
        let hashed = LOG.id.get();
        assert!(out.contains(&format!("  type       {hashed:#x} ({hashed})\n")), "{out}");
    }
    let lines = json_lines(&run(&["types", "--json", &ring], b"").out());
    assert_eq!(lines.len(), ALL.len());
    for (line, schema) in lines.iter().zip(ALL) {
        let mut as_registered: Value = serde_json::from_str(&schema.to_json()).unwrap();
        as_registered["type"] = schema.id.get().into();
        assert_eq!(*line, as_registered);
    }
    assert!(fs::read(&ring).unwrap() == before, "it wrote to the ring");
}

#[test]
fn a_narrow_terminal_gets_what_is_known_of_a_field_below_it() {
    let place = Place::new();
    let ring = all_kinds(&place);
    for width in ["24", "40", "72"] {
        let done = Done(perfring(&["types", &ring]).env("COLUMNS", width).output().unwrap());
        let columns = width.parse().unwrap();
        for line in done.out().lines().filter(|line| line.trim().contains(' ')) {
            // One word, or what cannot be broken: a field's name and kind.
            let short = line.chars().count() <= columns || line.split_whitespace().count() <= 4;
            assert!(short, "{width}: {line:?}");
        }
    }
    let done = Done(perfring(&["types", &ring]).env("COLUMNS", "40").output().unwrap());
    let below = "  12  side  enum of u8\n          1=buy 2=\"sell at market\"\n";
    assert!(done.out().contains(below), "{}", done.out());
}

#[test]
fn rings_without_types_say_so() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let done = run(&["types", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, ""));
    assert!(done.err().contains("no type was registered"), "{}", done.err());
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&["--types-size", "0"]);
    let done = run(&["types", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, ""));
    assert!(done.err().contains("perfring create --types-size"), "{}", done.err());
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    assert!(producer.register(&LINE).is_err());
    drop(producer);
    fs::remove_file(&ring).unwrap();
    let path = place.path("ring");
    let ring = path.to_str().unwrap();
    run(&["create", ring, "--types-size", "17M"], b"").refuses(2, "up to 16 MiB");
    run(&["types", ring], b"").refuses(3, "perfring create");
    fs::write(&path, b"hello").unwrap();
    run(&["types", ring], b"").refuses(4, "not a perfring file");
}

/// Writes into the type table of a ring, counted from the table's start.
fn scribble(ring: &str, at: u64, bytes: &[u8]) {
    let layout = *Observer::open(Path::new(ring), Start::Oldest).unwrap().layout();
    let file = File::options().write(true).open(ring).unwrap();
    file.write_all_at(bytes, layout.types_offset() + at).unwrap();
}

#[test]
fn of_a_damaged_table_the_good_part_is_used_and_all_records_are_shown() {
    let place = Place::new();
    let ring = all_kinds(&place);
    // Another length of the third entry's text.
    let size = |schema: &Schema<'_>| 8 * schema.to_entry().len() as u64;
    let third = size(&ORDER) + size(&LINE);
    scribble(&ring, 64 + third + 8, &[0xff]);
    let says = format!("damaged {third} bytes after its first entry");
    let done = run(&["types", &ring], b"");
    assert_eq!(done.code(), 4);
    assert!(done.out().starts_with(LISTED.trim_end()), "{}", done.out());
    assert!(done.err().contains(&says) && done.err().lines().count() == 1, "{}", done.err());
    for reader in ["dump", "tail", "consume"] {
        let done = run(&[reader, &ring], b"");
        assert_eq!(done.code(), 4);
        assert!(done.out().starts_with("demo.Order id=1 "), "{}", done.out());
        assert!(done.out().contains("\n{\"b\":[1,2.5,null],\"a\":{\"c\":\"d e\"}}\n17\n"));
        assert_eq!(done.out().lines().count(), 14, "{reader}");
        assert!(done.err().contains(&says), "{}", done.err());
        assert!(!done.out().contains(['\x1b', '\x07']));
    }
}

#[test]
fn a_table_of_noise_is_an_error_and_the_records_are_bytes() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise.to_ne_bytes()
    })
    .take(8192)
    .flatten()
    .collect();
    scribble(&ring, 0, &bytes);
    let plain = run(&["dump", "--untyped", &ring], b"");
    assert_eq!((plain.code(), plain.out().lines().count()), (4, 14));
    let done = run(&["dump", &ring], b"");
    assert_eq!((done.code(), done.out()), (4, plain.out()));
    assert!(done.err().contains("type table is damaged 0 bytes after"), "{}", done.err());
    run(&["types", &ring], b"").refuses(4, "type table is damaged 0 bytes after");
    // One type's text may be at fault, and not the table.
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&[]);
    let text = r#"{"name":"x","encoding":"pod","size":4,"fields":[{"name":"a","kind":"u64"}]}"#;
    let entry = perfring_types::Entry { id: ORDER.id, layout: 1, text }.to_words();
    let bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_ne_bytes()).collect();
    scribble(&ring, 64, &bytes);
    scribble(&ring, 0, &(64 + bytes.len() as u64).to_ne_bytes());
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.register(&LINE).unwrap();
    producer.publish(ORDER.id, b"1234").unwrap();
    producer.publish(LINE.id, b"5678").unwrap();
    let done = run(&["dump", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (4, "1234\ndemo.Line 5678\n"));
    assert!(done.err().contains("text of type 0x1388 cannot be used"), "{}", done.err());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    let ring = place.ring(&["--types-size", "1M"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let help = "words ".repeat(50);
    for id in 5000..6000 {
        let schema = Schema { id: RecordType::new(id).unwrap(), help: &help, ..LINE };
        producer.register(&schema).unwrap();
    }
    for args in [&["types", &ring][..], &["types", "--json", &ring]] {
        assert_eq!(close_and_wait(Live::start(args)), (String::new(), 0));
    }
}

#[test]
fn stat_and_doctor_tell_how_full_the_table_is() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let used: usize = ALL.map(|s| 8 * s.to_entry().len()).iter().sum();
    let used = used + 64;
    let stat = |ring: &str| json_lines(&run(&["stat", "--json", ring], b"").out()).remove(0);
    let figures = stat(&ring);
    assert_eq!((&figures["type_count"], &figures["types_used"]), (&json!(ALL.len()), &json!(used)));
    assert_eq!((&figures["types_size"], &figures["types_damaged"]), (&json!(65536), &json!(false)));
    assert!(FIELDS.iter().any(|field| field.name == "types_size"));
    let text = run(&["stat", &ring], b"").out();
    assert!(text.contains(&format!("\n  types        9 types, {used} of 64 KiB used\n")), "{text}");
    let doctor = |ring: &str| {
        let done = run(&["doctor", "--json", ring], b"");
        (command::check(&done, ring, "types"), done.code())
    };
    assert_eq!(doctor(&ring), (("ok".to_owned(), format!("9 types, {used} of 64 KiB used")), 0));
    scribble(&ring, 64 + 8, &[0xff]);
    assert_eq!(stat(&ring)["types_damaged"], true);
    let ((level, says), code) = doctor(&ring);
    assert!(
        code == 4 && level == "fail" && says.contains("type table is damaged 0 bytes"),
        "{says}"
    );
    let text = run(&["stat", &ring], b"");
    assert!(text.out().contains("  types        damaged, "), "{}", text.out());
    assert_eq!(text.code(), 0, "its books are well");
    fs::remove_file(&ring).unwrap();
    // Nearly full, full, none.
    let ring = place.ring(&["--types-size", "4K"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let mut id = 5000;
    while producer.register(&Schema { id: RecordType::new(id).unwrap(), ..LINE }).is_ok() {
        id += 1;
    }
    drop(producer);
    let ((level, says), code) = doctor(&ring);
    assert!(code == 1 && level == "warn" && says.contains("--types-size"), "{says}");
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&["--types-size", "0"]);
    assert_eq!(stat(&ring)["types_size"], 0);
    assert!(run(&["stat", &ring], b"").out().contains("\n  types        no table\n"));
    assert_eq!(doctor(&ring).0.0, "ok");
}
