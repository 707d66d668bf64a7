//! Typed records are read from the file alone, through real processes: any schema and any values,
//! and the file of a killed process.

use crate::command::{Place, json_lines, run};
use bytemuck::{Pod, Zeroable};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perfring_producer::Producer;
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Constant, Encoding, Enum, Field, Record, Schema, Shape};
use perfring_testkit::rng::Rng;
use perfring_testrig::any::{self, Layout, Member, fields, leak};
use proptest::prelude::*;
use rkyv::{Archive, Serialize};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// A type, and a generator of its values.
#[derive(Clone, Debug)]
enum Made {
    Pod(Vec<Member>),
    Archive(Vec<Member>),
    /// Names of fields; those with a value are constants.
    Tagged(Vec<(String, Option<Constant<'static>>)>),
    Json,
    Text,
}

fn made() -> impl Strategy<Value = Made> {
    let tagged = prop::collection::vec(
        (any::schemas::text(), prop::option::of(any::schemas::any_constant())),
        0..8,
    );
    prop_oneof![
        4 => any::schemas::members(any::schemas::model(false), 0..6).prop_map(Made::Pod),
        4 => any::schemas::members(any::schemas::model(true), 0..6).prop_map(Made::Archive),
        3 => tagged.prop_map(Made::Tagged),
        1 => Just(Made::Json),
        1 => Just(Made::Text),
    ]
}

impl Made {
    fn schema(&self, nth: usize) -> Schema<'static> {
        let new = |encoding| Schema::new(leak(&format!("any \"Type\" {nth}")), encoding);
        let shaped = |encoding, format, members: &[Member]| {
            let size = any::Model::Struct(members.to_vec()).size(Layout::NATIVE) as u32;
            Schema { format, ..new(encoding) }.with_fields(size, fields(members, Layout::NATIVE))
        };
        let order = if cfg!(target_endian = "big") { "big" } else { "little" };
        let schema = match self {
            Made::Pod(members) => shaped(Encoding::Pod, "", members),
            Made::Archive(members) => {
                shaped(Encoding::Rkyv, leak(&format!("rkyv 0.8 {order} aligned 32")), members)
            }
            Made::Tagged(members) => {
                let fields = members.iter().enumerate().map(|(nth, (name, constant))| {
                    let name = leak(&format!("{name}{nth}"));
                    match constant {
                        Some(value) => Field::constant(name, *value),
                        None => Field::new(name, 0, Shape::ANY),
                    }
                });
                new(Encoding::Tagged).with_fields(0, fields.collect::<Vec<_>>().leak())
            }
            Made::Json => new(Encoding::Json),
            Made::Text => new(Encoding::Utf8),
        };
        schema.with_hashed_id()
    }

    /// Returns any value: its payload, the key under which it is shown, and the shown value.
    fn value(&self, rng: &mut Rng) -> (Vec<u8>, &'static str, Value) {
        let mut payload = Vec::new();
        match self {
            Made::Pod(members) | Made::Archive(members) => {
                let (root, json) = any::write(members, rng, Layout::NATIVE, &mut payload);
                root.place(Layout::NATIVE, &mut payload);
                (payload, "fields", json)
            }
            Made::Tagged(members) => {
                let mut writer = TaggedWriter::new(&mut payload);
                let mut object = serde_json::Map::new();
                for (nth, (name, constant)) in members.iter().enumerate() {
                    let key = nth as u16;
                    let json = match constant {
                        Some(value) => any::constant(*value),
                        None => match rng.below(6) {
                            0 => continue, // a field may be missing
                            1 => {
                                let value = rng.float();
                                writer.f64(key, value);
                                any::float(value)
                            }
                            2 => {
                                let value = rng.wide();
                                writer.u128(key, value);
                                any::unsigned(value)
                            }
                            3 => {
                                let value = rng.wide() as i64;
                                writer.i64(key, value);
                                json!(value)
                            }
                            4 => {
                                let text = rng.text(300);
                                writer.text(key, &text);
                                json!(text)
                            }
                            _ => {
                                let values = [rng.float(), rng.float()];
                                writer.f64s(key, &values);
                                json!(values.map(any::float))
                            }
                        },
                    };
                    object.insert(format!("{name}{nth}"), json);
                }
                let text = rng.text(50);
                writer.text("…named", &text);
                object.insert("…named".to_owned(), json!(text));
                (payload, "fields", object.into())
            }
            Made::Json if rng.below(2) == 0 => {
                let value = json!([rng.text(90), {"x": rng.any()}, null, -1, true]);
                (value.to_string().into_bytes(), "value", value)
            }
            Made::Json => {
                let value = json!({ rng.text(9): rng.text(90), "": [[], {}] });
                (value.to_string().into_bytes(), "fields", value)
            }
            Made::Text => {
                let text = rng.text(300);
                (text.clone().into_bytes(), "text", json!(text))
            }
        }
    }
}

proptest! {
    // Each case is a ring with many types, and a process that dumps it.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn any_schema_and_any_values_come_back_from_the_file(
        types in prop::collection::vec((made(), any::<u64>()), 1..30)
    ) {
        check(&types);
    }
}

fn check(types: &[(Made, u64)]) {
    let place = Place::new();
    let ring = place.ring(&["--types-size", "4M", "--size", "4M"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let mut expected = Vec::new();
    for (nth, (made, seed)) in types.iter().enumerate() {
        let schema = made.schema(nth);
        producer.register(&schema).unwrap();
        let mut rng = Rng::new(*seed);
        for _ in 0..3 {
            let (payload, key, value) = made.value(&mut rng);
            // What no record can hold must not be shown either.
            if producer.publish_as(schema.id, &payload).is_ok() {
                expected.push((schema.id.get(), schema.name, key, value));
            }
        }
    }
    drop(producer);
    let done = run(&["dump", "--format", "json", &ring], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let lines = json_lines(&done.out());
    assert_eq!(lines.len(), expected.len());
    for (line, (id, name, key, value)) in lines.iter().zip(&expected) {
        assert_eq!((&line["type"], &line["type_name"]), (&json!(id), &json!(name)));
        assert_eq!(line.get(*key), Some(value), "{line}");
    }
    // As text every record is one line, whatever is in it.
    let text = run(&["dump", &ring], b"");
    assert_eq!((text.code(), text.out().lines().count()), (0, expected.len()));
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    assert!(!text.out().contains(odd));
    let listed = run(&["types", &ring], b"");
    assert!(!listed.out().contains(|c| odd(c) || c == '\t'), "{}", listed.out());
    assert_eq!(json_lines(&run(&["types", "--json", &ring], b"").out()).len(), types.len());
}

/// A record of the killed program.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[record(name = "flight.State", version = 2)]
struct State {
    /// Since take-off.
    #[record(unit = "ms")]
    time: u64,
    position: Position,
    #[record(text)]
    callsign: [u8; 8],
    #[record(unit = "Cel")]
    engines: [f32; 2],
    gear: Enum<Gear>,
    _pad: [u8; 3],
    #[record(hex)]
    raw: [u8; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Position {
    latitude: f64,
    longitude: f64,
}

#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Record)]
enum Gear {
    Up,
    #[record(name = "down and locked")]
    Down,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv, name = "flight.Call")]
struct Call {
    message: String,
    code: Option<u32>,
    waypoints: Vec<Waypoint>,
    urgency: Urgency,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Waypoint {
    name: String,
    altitude: i32,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
enum Urgency {
    Pan,
    Mayday,
}

const LOG: Schema<'static> = Schema {
    class: Class::Log,
    ..Schema::new("flight.Log", Encoding::Tagged).with_fields(
        0,
        &[
            Field::constant("severity_text", Constant::Str("FATAL")),
            Field::new("body", 0, Shape::ANY),
        ],
    )
}
.with_hashed_id();
const NOTE: Schema<'static> = Schema::new("flight.Note", Encoding::Utf8).with_hashed_id();
const PLAN: Schema<'static> = Schema::new("flight.Plan", Encoding::Json).with_hashed_id();

/// Not a test but a process of one: writes until it is killed.
#[test]
fn writer() {
    let Some(ring) = env::var_os("PERFRING_TEST_WRITES") else { return };
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let state = State {
        time: 5000,
        position: Position { latitude: 52.5, longitude: -13.25 },
        callsign: *b"D-ABCD\0\0",
        engines: [612.5, f32::INFINITY],
        gear: Gear::Down.into(),
        _pad: [0; 3],
        raw: [0xde, 0xad, 0, 1],
    };
    producer.publish_pod(&state).unwrap();
    let waypoint = |name: &str, altitude| Waypoint { name: name.to_owned(), altitude };
    let call = Call {
        message: "engine two is on fire".to_owned(),
        code: Some(7700),
        waypoints: vec![waypoint("TEGEL", 121), waypoint("a name of some length", -5)],
        urgency: Urgency::Mayday,
    };
    producer.publish_rkyv(&call).unwrap();
    let calm =
        Call { message: String::new(), code: None, waypoints: vec![], urgency: Urgency::Pan };
    producer.publish_rkyv(&calm).unwrap();
    for schema in [LOG, NOTE, PLAN] {
        producer.register(&schema).unwrap();
    }
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.text(1u16, "last words");
    writer.i64("left", -1);
    producer.publish_as(LOG.id, &payload).unwrap();
    producer.publish_as(NOTE.id, "grüße".as_bytes()).unwrap();
    producer.publish_as(PLAN.id, br#"{"to":["TXL",null]}"#).unwrap();
    println!("\nwritten");
    let _ = io::stdin().read(&mut [0]);
}

#[test]
fn the_copied_file_of_a_killed_process_gives_every_field_by_name() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "typed_files::writer", "--nocapture"])
        .env("PERFRING_TEST_WRITES", &ring)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "written"), "the writer failed");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let elsewhere = Place::new();
    let copy = elsewhere.path("copy");
    fs::copy(&ring, &copy).unwrap();
    drop(place);
    assert!(!Path::new(&ring).exists());
    let copy = copy.to_str().unwrap();

    let done = run(&["dump", "--format", "json", copy], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let shown: Vec<Value> = json_lines(&done.out())
        .into_iter()
        .map(|mut line| {
            let name = line["type_name"].take();
            let what = ["fields", "text"].into_iter().find_map(|key| line.get(key).cloned());
            json!([name, what])
        })
        .collect();
    let state = json!({
        "time": 5000, "position": {"latitude": 52.5, "longitude": -13.25}, "callsign": "D-ABCD",
        "engines": [612.5, "Infinity"], "gear": "down and locked", "raw": "dead0001",
    });
    let waypoints = json!([
        {"name": "TEGEL", "altitude": 121}, {"name": "a name of some length", "altitude": -5},
    ]);
    let call = json!({
        "message": "engine two is on fire", "code": 7700, "waypoints": waypoints, "urgency": "Mayday",
    });
    let calm = json!({"message": "", "code": null, "waypoints": [], "urgency": "Pan"});
    let expected = [
        json!(["flight.State", state]),
        json!(["flight.Call", call]),
        json!(["flight.Call", calm]),
        json!(["flight.Log", {"severity_text": "FATAL", "body": "last words", "left": -1}]),
        json!(["flight.Note", "grüße"]),
        json!(["flight.Plan", {"to": ["TXL", null]}]),
    ];
    assert_eq!(shown, expected);
    let text = run(&["dump", copy], b"").out();
    let first = "flight.State time=5000 ms position={latitude=52.5 longitude=-13.25} \
                 callsign=D-ABCD engines=[612.5 Infinity] Cel gear=\"down and locked\" raw=dead0001\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("\nFATAL last words  left=-1\n"), "{text}");
    let types = run(&["types", copy], b"").out();
    for says in
        ["\nflight.Call\n", "rkyv (rkyv 0.8 ", "vec of struct", "option of u32", "Since take-off."]
    {
        assert!(types.contains(says), "{types}");
    }
}
