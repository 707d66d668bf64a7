//! Traces as babeltrace2 reads them.

use crate::common::pretty::{self, Pretty};
use crate::common::shapes::{full_ring, lapped_ring, publish};
use crate::common::{Followed, Kept, close, run, skip};
use perfring_consumer::{Cause, RecordType};
use perfring_export::{Ctf, CtfOptions, CtfVersion, LossCause, Output, What};
use perfring_producer::{Options, Producer};
use perfring_types::read::Value;
use perfring_types::tagged::TaggedWriter;
use perfring_types::{Encoding, Schema};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::path::Path;

fn options_of(path: &Path) -> CtfOptions {
    CtfOptions::new(path)
}

/// An event as babeltrace2 prints it.
#[derive(Debug)]
struct Shown {
    /// ns since 1970.
    time: u64,
    name: String,
    ring: String,
    pos: u64,
    fields: Pretty,
}

/// Returns all events in the order of time, and the discarded counts, by stream.
fn read(path: &Path) -> Option<(Vec<Shown>, Vec<u64>)> {
    let args = ["--clock-seconds", "--no-delta", path.to_str().unwrap()];
    let reader = std::env::var("PERFRING_BABELTRACE2").unwrap_or("babeltrace2".to_owned());
    let Some(version) = run(&reader, &["--version"]) else {
        skip("there is no babeltrace2 (Debian: babeltrace2)");
        return None;
    };
    let version = String::from_utf8(version.stdout).unwrap();
    let is_2 = std::fs::read(path.join("metadata")).unwrap().starts_with(b"\x1e");
    if is_2 && version.starts_with("Babeltrace 2.0") {
        println!(
            "SKIPPED: babeltrace2 reads CTF 2 from version 2.1 on: PERFRING_BABELTRACE2 names another one"
        );
        return None;
    }
    let ran = run(&reader, &args).unwrap();
    let (out, err) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8_lossy(&ran.stderr));
    assert!(
        ran.status.success(),
        "{err}\n{}",
        std::fs::read_to_string(path.join("metadata")).unwrap()
    );
    let discarded = err.lines().filter_map(|line| {
        let (count, _) = line.split_once("Tracer discarded ")?.1.split_once(' ')?;
        Some(count.parse().unwrap())
    });
    let discarded = discarded.collect();
    assert!(!err.contains("rror"), "{err}");
    Some((out.lines().map(shown).collect(), discarded))
}

fn shown(line: &str) -> Shown {
    let (time, rest) = line.strip_prefix('[').unwrap().split_once("] ").unwrap();
    let (name, rest) = rest.split_once(": {").unwrap();
    let (context, rest) = pretty::parse(&line[line.len() - rest.len() - 1..]);
    let (fields, rest) = pretty::parse(rest.trim_start_matches(','));
    assert_eq!(rest, "");
    let (seconds, nanos) = time.split_once('.').unwrap();
    Shown {
        time: format!("{seconds}{nanos}").parse().unwrap(),
        name: name.into(),
        ring: context.get("ring").json().as_str().unwrap().into(),
        pos: context.get("pos").json().as_u64().unwrap(),
        fields,
    }
}

/// Returns whether a printed field equals the value. Floats are printed with six digits.
fn is_same(shown: &Pretty, value: &Value) -> bool {
    let near = |value: f64| {
        let shown = match shown.json() {
            Json::String(text) => text.parse().unwrap(),
            other => other.as_f64().unwrap(),
        };
        let error = (shown - value).abs();
        shown == value || error <= 1e-5 * value.abs() || shown.is_nan() && value.is_nan()
    };
    match (shown, value) {
        (Pretty::List(none), Value::Null) => none.is_empty(),
        (Pretty::Struct(none), Value::Null) => none.is_empty(),
        (Pretty::List(values), Value::Bytes(bytes)) => {
            values.iter().map(Pretty::json).eq(bytes.iter().map(|byte| json!(byte)))
        }
        (Pretty::Bare(text), Value::Bytes(bytes)) => {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text.to_lowercase() == hex.join(" ")
        }
        (Pretty::Bare(text), value) => is_same(&pretty::parse(text).0, value),
        // An empty blob of CTF 2.
        (Pretty::Struct(none), Value::Bytes(bytes)) => none.is_empty() && bytes.is_empty(),
        (Pretty::List(shown), Value::List(values)) => {
            shown.len() == values.len() && shown.iter().zip(values).all(|(a, b)| is_same(a, b))
        }
        (Pretty::Struct(shown), Value::Struct(fields)) => {
            let own: Vec<_> = shown.iter().filter(|(name, _)| !is_len(shown, name)).collect();
            own.len() == fields.len()
                && own.iter().zip(fields).all(|((_, shown), (_, value))| is_same(shown, value))
        }
        // An option.
        (Pretty::List(one), value) => one.len() == 1 && is_same(&one[0], value),
        (_, Value::Bool(value)) => shown.json() == json!(u8::from(*value)),
        (_, Value::F32(value)) => near(f64::from(*value)),
        (_, Value::F64(value)) => near(*value),
        (_, Value::I128(value)) => shown.json() == json!(value.to_string()),
        (_, Value::U128(value)) => shown.json() == json!(value.to_string()),
        (_, Value::Str(value)) => shown.json() == json!(value.replace('\0', "␀")),
        (shown, value) => shown.json() == serde_json::to_value(value).unwrap(),
    }
}

/// Returns whether a field is the length of the next one.
fn is_len(fields: &[(String, Pretty)], name: &str) -> bool {
    let get = |name: &str| fields.iter().find(|(own, _)| own == name).map(|(_, value)| value);
    match name.strip_suffix("_len").and_then(get) {
        Some(Pretty::List(values)) => get(name).unwrap().json() == json!(values.len()),
        Some(Pretty::Struct(none)) if none.is_empty() => get(name).unwrap().json() == json!(0),
        Some(Pretty::Bare(_)) => true,
        _ => false,
    }
}

/// Checks that all of the ring's records and losses are present, in their order.
fn check(shown: &[Shown], ring: &Followed) -> usize {
    let mut shown = shown.iter().filter(|shown| shown.ring == ring.origin.name);
    let mut count = 0;
    ring.events(0, |reported| match &reported.what {
        What::Record(record) => {
            let shown = shown.next().unwrap();
            count += 1;
            assert_eq!(shown.pos, record.pos);
            let wall = record.wall.unwrap();
            assert!(shown.time.abs_diff(wall) < 20_000, "{} {wall}", shown.time);
            let fields = &shown.fields;
            let payload = Value::Bytes(record.bytes.to_vec());
            match (record.kind_of(), record.value()) {
                (None, _) => {
                    assert_eq!(shown.name, format!("type {}", record.kind));
                    assert!(is_same(fields.get("payload"), &payload), "{fields:?}");
                }
                (Some(kind), Some(Err(bad))) => {
                    assert_eq!(shown.name, kind.name);
                    assert_eq!(fields.get("damage").json(), json!(bad.to_string()));
                    assert!(is_same(fields.get("payload"), &payload), "{fields:?}");
                }
                (Some(kind), Some(Ok(value))) => {
                    assert_eq!(shown.name, kind.name);
                    let ok = match (kind.encoding.known().unwrap(), value) {
                        (Encoding::Json, value) => {
                            let json = serde_json::from_str::<Json>(
                                fields.get("json").json().as_str().unwrap(),
                            );
                            json.unwrap() == serde_json::to_value(value).unwrap()
                        }
                        (_, Value::Str(_)) => is_same(fields.get("text"), value),
                        (_, Value::Bytes(_)) => is_same(fields.get("payload"), value),
                        (_, value) => is_same(fields, value),
                    };
                    assert!(ok, "{fields:?}\n{value:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        What::Lost(lost) => {
            let shown = shown.next().unwrap();
            let (records, bytes, cause) = (lost.records, lost.bytes, lost.cause.name());
            assert_eq!((shown.name.as_str(), shown.pos), ("perfring.lost", lost.pos));
            assert_eq!(
                shown.fields.json(),
                json!({"records": records, "bytes": bytes, "cause": cause})
            );
        }
        _ => {}
    });
    assert!(shown.next().is_none());
    count
}

fn losses(ring: &Followed) -> Vec<u64> {
    ring.losses().iter().map(|lost| lost.records).collect()
}

#[test]
fn babeltrace_reads_every_record_and_every_loss() {
    every_record_and_every_loss_is_there(CtfVersion::V1_8);
}

#[test]
fn babeltrace_reads_every_record_and_every_loss_in_ctf_2() {
    every_record_and_every_loss_is_there(CtfVersion::V2);
}

fn every_record_and_every_loss_is_there(version: CtfVersion) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let rings =
        [full_ring(&dir.path().join("full"), 1), lapped_ring(&dir.path().join("lapped"), 2)];
    let mut out = Ctf::open("ctf", &CtfOptions { version, ..options_of(&path) }).unwrap();
    rings.iter().for_each(|ring| ring.export(&mut out));
    close(out);
    let Some((shown, discarded)) = read(&path) else { return };
    let counts = rings.each_ref().map(|ring| check(&shown, ring));
    println!("{counts:?} records, {discarded:?} discarded");
    assert!(counts.iter().all(|count| *count > 800));
    assert_eq!(discarded, [losses(&rings[0]), losses(&rings[1])].concat());
    let plain = shown.iter().find(|shown| shown.name.ends_with("Plain")).unwrap();
    let names = plain.fields.names();
    let expected =
        ["number", "price_EUR", "delta", "at", "took_ns", "small", "tiny", "state", "market"];
    assert_eq!(names[..9], expected);
}

/// Only the metadata of the two versions differ.
#[test]
fn a_trace_of_ctf_2_has_the_same_streams_and_a_sequence_of_json_texts() {
    let dir = tempfile::tempdir().unwrap();
    let rings =
        [full_ring(&dir.path().join("full"), 1), lapped_ring(&dir.path().join("lapped"), 2)];
    let [old, new] = [CtfVersion::V1_8, CtfVersion::V2].map(|version| {
        let path = dir.path().join(format!("{version:?}"));
        let mut out = Ctf::open("ctf", &CtfOptions { version, ..options_of(&path) }).unwrap();
        rings.iter().for_each(|ring| ring.export(&mut out));
        close(out);
        path
    });
    let metadata = std::fs::read_to_string(new.join("metadata")).unwrap();
    let fragments: Vec<Json> = metadata
        .split_terminator('\n')
        .map(|line| serde_json::from_str(line.strip_prefix('\u{1e}').unwrap()).unwrap())
        .collect();
    let classes: Vec<&Json> =
        fragments.iter().filter(|fragment| fragment["type"] == "event-record-class").collect();
    let first = ["preamble", "trace-class", "clock-class", "data-stream-class"];
    assert!(first.iter().zip(&fragments).all(|(kind, fragment)| fragment["type"] == *kind));
    assert_eq!(fragments.len(), 4 + classes.len());
    let ids = classes.iter().map(|class| class["id"].as_u64().unwrap());
    assert!(ids.eq(0..classes.len() as u64));
    let plain =
        classes.iter().find(|class| class["name"].as_str().unwrap().ends_with("Plain")).unwrap();
    let members = plain["payload-field-class"]["member-classes"].as_array().unwrap();
    let names = members.iter().map(|member| member["name"].as_str().unwrap());
    assert!(names.take(3).eq(["number", "price_EUR", "delta"]));
    let id = fragments[0]["uuid"].as_array().unwrap();
    let id: Vec<u8> = id.iter().map(|byte| byte.as_u64().unwrap() as u8).collect();
    let mut streams = 0;
    for entry in std::fs::read_dir(&new).unwrap() {
        let name = entry.unwrap().file_name();
        if name == "metadata" {
            continue;
        }
        let [mut other, mut own] = [&old, &new].map(|dir| std::fs::read(dir.join(&name)).unwrap());
        assert_eq!(own[4..20], id[..], "the id of the trace is in each packet");
        // Each packet has its trace's id and its length, in bits.
        let mut at = 0;
        while at < own.len() {
            own[at + 4..at + 20].fill(0);
            other[at + 4..at + 20].fill(0);
            at += u64::from_le_bytes(own[at + 48..at + 56].try_into().unwrap()) as usize / 8;
        }
        assert!(own == other, "{name:?}");
        streams += 1;
    }
    assert_eq!(streams, 2);
}

/// A ring that begins and ends with a loss, with all causes.
#[test]
fn losses_count_wherever_they_are_and_whatever_their_cause() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("trace"), dir.path().join("ring"));
    let mut producer =
        Producer::create(&ring, &Options { time: true, ..Options::default() }).unwrap();
    publish(&mut producer, 0).unwrap();
    let mut followed = Followed::open(&ring, 1);
    followed.read();
    let causes: Vec<LossCause> = [
        Cause::Full,
        Cause::TooLarge,
        Cause::Lapped,
        Cause::Contended,
        Cause::Pending,
        Cause::Foreign,
    ]
    .into_iter()
    .map(LossCause::Ring)
    .chain([LossCause::Busy])
    .collect();
    let mut out = Ctf::open("ctf", &options_of(&path)).unwrap();
    followed.events(0, |event| {
        let lost = |cause, records| {
            let loss = perfring_export::Loss::new(0, records, 1, cause);
            perfring_export::Event { seq: event.seq, origin: event.origin, what: What::Lost(loss) }
        };
        if let What::Record(_) = event.what {
            for (at, cause) in causes.iter().enumerate() {
                out.take(&lost(*cause, 10 + at as u64)).unwrap();
            }
            out.take(event).unwrap();
            out.take(&lost(LossCause::Busy, 99)).unwrap();
        } else {
            out.take(event).unwrap();
        }
    });
    close(out);
    let Some((shown, discarded)) = read(&path) else { return };
    assert_eq!(discarded, [10, 11, 12, 13, 14, 15, 16, 99]);
    let reported = shown.iter().filter(|shown| shown.name == "perfring.lost");
    let reported: Vec<_> = reported.map(|shown| shown.fields.get("cause").json()).collect();
    let names: Vec<_> = causes.iter().map(|cause| cause.name()).chain(["output busy"]).collect();
    assert_eq!(reported, names);
}

#[test]
fn flushed_data_can_be_read_while_more_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("trace"), dir.path().join("ring"));
    let mut producer =
        Producer::create(&ring, &Options { time: true, ..Options::default() }).unwrap();
    let mut out = Ctf::open("ctf", &options_of(&path)).unwrap();
    let mut followed = Followed::open(&ring, 1);
    for number in 0..16 {
        publish(&mut producer, number).unwrap();
        followed.read();
        let mut taken = 0;
        followed.events(0, |event| {
            // Only the last record is new; the ring does not end.
            if event.seq == number + 1 || number == 0 && event.seq == 0 {
                out.take(event).unwrap();
                taken += 1;
            }
        });
        assert!(taken > 0 && out.unsettled().is_some());
        out.flush().unwrap();
        assert_eq!(out.unsettled(), None);
        let Some((shown, _)) = read(&path) else { return };
        assert_eq!(shown.len() as u64, number + 1);
    }
    drop(out); // as in a crash
    check(&read(&path).unwrap().0, &followed);
}

#[test]
fn a_crash_leaves_complete_packets_and_their_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let ring = lapped_ring(&dir.path().join("ring"), 1);
    let mut out = Ctf::open("ctf", &options_of(&path)).unwrap();
    ring.events(0, |event| {
        if !matches!(event.what, What::Ended) {
            out.take(event).unwrap();
        }
    });
    drop(out);
    let Some((shown, _)) = read(&path) else { return };
    println!("{} of {} events", shown.len(), ring.items.len());
    assert!(shown.len() > 100 && shown.len() < ring.items.len());
}

#[test]
fn another_directory_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    std::fs::create_dir(&path).unwrap();
    close_empty(&options_of(&path)).unwrap();
    let refused = close_empty(&options_of(&path)).unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    let overwrite = CtfOptions { overwrite: true, ..options_of(&path) };
    close_empty(&overwrite).unwrap();
    std::fs::write(path.join("thesis.tex"), "mine").unwrap();
    close_empty(&overwrite).unwrap_err();
    assert!(path.join("thesis.tex").exists() && path.join("metadata").exists());
}

fn close_empty(options: &CtfOptions) -> Result<(), perfring_export::OutputError> {
    Ctf::open("ctf", options)?.close(std::time::Instant::now())
}

#[derive(Clone, Debug)]
enum Any {
    None,
    Bool(bool),
    I64(i64),
    U64(u64),
    F64(f64),
    Text(String),
    Bytes(Vec<u8>),
    I128(i128),
    U64s(Vec<u64>),
    F64s(Vec<f64>),
}

fn any_value() -> impl Strategy<Value = Any> {
    prop_oneof![
        Just(Any::None),
        any::<bool>().prop_map(Any::Bool),
        any::<i64>().prop_map(Any::I64),
        any::<u64>().prop_map(Any::U64),
        any::<f64>().prop_map(Any::F64),
        "\\PC{0,20}|[a\"\\\\\n\t\u{0}]{0,9}".prop_map(Any::Text),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Any::Bytes),
        any::<i128>().prop_map(Any::I128),
        proptest::collection::vec(any::<u64>(), 0..5).prop_map(Any::U64s),
        proptest::collection::vec(any::<f64>(), 0..5).prop_map(Any::F64s),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any values of a tagged record, under any names.
    #[test]
    fn any_values_under_any_names_are_read(
        type_name in "[^\\pC:]{1,12}|[\"\\\\a]{1,3}",
        records in proptest::collection::vec(
            proptest::collection::vec(("\\PC{0,12}|integer|string|event|a|a_len|_", any_value()), 0..8),
            1..12,
        ),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (path, ring) = (dir.path().join("trace"), dir.path().join("ring"));
        let schema = Schema::new(type_name.as_str(), Encoding::Tagged);
        let schema = Schema { id: RecordType::new(5000).unwrap(), ..schema };
        let mut producer = Producer::create(&ring, &Options { time: true, ..Options::default() }).unwrap();
        producer.register(&schema).unwrap();
        for record in &records {
            let mut bytes = Vec::new();
            let mut writer = TaggedWriter::new(&mut bytes);
            for (name, value) in record {
                let name = name.as_str();
                match value {
                    Any::None => writer.none(name),
                    Any::Bool(value) => writer.bool(name, *value),
                    Any::I64(value) => writer.i64(name, *value),
                    Any::U64(value) => writer.u64(name, *value),
                    Any::F64(value) => writer.f64(name, *value),
                    Any::Text(value) => writer.text(name, value),
                    Any::Bytes(value) => writer.bytes(name, value),
                    Any::I128(value) => writer.i128(name, *value),
                    Any::U64s(value) => writer.u64s(name, value),
                    Any::F64s(value) => writer.f64s(name, value),
                }
            }
            producer.publish_as(schema.id, &bytes).unwrap();
        }
        let mut followed = Followed::open(&ring, 1);
        followed.read();
        let mut out = Ctf::open("ctf", &options_of(&path)).unwrap();
        followed.export(&mut out);
        close(out);
        if let Some((shown, _)) = read(&path) {
            prop_assert_eq!(shown.len(), records.len());
            for (shown, record) in shown.iter().zip(followed.records()) {
                let value = record.value.unwrap();
                // A list of other values than numbers is text: JSON.
                let Value::Struct(fields) = &value else { panic!("{value:?}") };
                let is_odd = |value: &Value| matches!(value, Value::List(all) if {
                    let is = |one: &Value| matches!((one, &all[0]), (Value::U64(_), Value::U64(_)) | (Value::F64(_), Value::F64(_)));
                    !all.iter().all(is)
                });
                if !fields.iter().any(|(_, value)| is_odd(value)) {
                    prop_assert!(is_same(&shown.fields, &value), "{:?}\n{:?}", shown.fields, value);
                }
            }
        }
    }
}

#[test]
fn a_text_after_a_list_of_the_same_name_is_a_text_and_the_list_is_json() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("trace"), dir.path().join("ring"));
    let schema = Schema::new("mixed", Encoding::Tagged);
    let schema = Schema { id: RecordType::new(5000).unwrap(), ..schema };
    let options = Options { time: true, ..Options::default() };
    let mut producer = Producer::create(&ring, &options).unwrap();
    producer.register(&schema).unwrap();
    let mut publish = |fill: &dyn Fn(&mut TaggedWriter<'_>)| {
        let mut bytes = Vec::new();
        fill(&mut TaggedWriter::new(&mut bytes));
        producer.publish_as(schema.id, &bytes).unwrap();
    };
    publish(&|writer| {
        writer.i64("a", -1);
        writer.bool("a", true);
    });
    publish(&|writer| writer.text("a", "plain"));
    let mut followed = Followed::open(&ring, 1);
    followed.read();
    let mut out = Ctf::open("ctf", &options_of(&path)).unwrap();
    followed.export(&mut out);
    close(out);
    let Some((shown, _)) = read(&path) else { return };
    let shown: Vec<_> = shown.iter().map(|shown| shown.fields.json()).collect();
    assert_eq!(shown, [json!({ "a": "[-1,true]" }), json!({ "a": "plain" })]);
}

#[test]
fn a_timestamp_in_the_future_shifts_no_other_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let mut ring = full_ring(&dir.path().join("full"), 1);
    let real: Vec<Option<u64>> = ring.records().iter().map(|record| record.time).collect();
    let hour = 3_600_000_000_000;
    let bad = [u64::MAX, i64::MAX as u64, real[0].unwrap() + hour];
    let mut nth = 0;
    for item in &mut ring.items {
        if let Kept::Record { time, .. } = item {
            // The first, and every second one: bad ones keep arriving.
            if nth % 2 == 0 {
                *time = Some(bad[nth / 2 % bad.len()]);
            }
            nth += 1;
        }
    }
    assert!(nth > 6);
    let mut out = Ctf::open("ctf", &options_of(&path)).unwrap();
    ring.export(&mut out);
    close(out);
    let Some((shown, _)) = read(&path) else { return };
    let shown: Vec<_> = shown.iter().filter(|shown| shown.name != "perfring.lost").collect();
    assert_eq!(shown.len(), nth);
    for record in ring.records().iter().skip(1).step_by(2) {
        let shown = shown.iter().find(|shown| shown.pos == record.pos).unwrap();
        assert!(shown.time.abs_diff(record.wall.unwrap()) < 20_000, "{} {record:?}", shown.time);
    }
}
