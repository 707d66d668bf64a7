//! Records of every encoding, and rings that hold and lose them.

use super::Followed;
use bytemuck::{Pod, Zeroable};
use perfring_consumer::Consumer;
use perfring_export::Birth;
use perfring_producer::{Options, Producer, RecordType, ReserveError};
use perfring_telemetry::{Gauge, Log, Resource, Sink, options};
use perfring_types::tagged::TaggedWriter;
use perfring_types::{Class, Encoding, Enum, Field, Record, Schema, Shape};
use rkyv::{Archive, Serialize};
use std::path::Path;

/// What a worker does.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Record)]
pub enum State {
    Idle,
    Busy,
}

/// A position.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, Record)]
pub struct Point {
    pub x: f32,
    pub y: i32,
}

/// A plain struct with most kinds of fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, Record)]
pub struct Plain {
    /// Counts from 0.
    pub number: u64,
    /// What it cost.
    #[record(unit = "EUR")]
    pub price: f64,
    pub delta: i64,
    pub at: Point,
    /// How long it took.
    #[record(unit = "ns")]
    pub took: u32,
    pub small: i16,
    pub tiny: u8,
    pub state: Enum<State>,
    #[record(text)]
    pub market: [u8; 8],
    pub last: [i32; 4],
    #[record(hex)]
    pub raw: [u8; 8],
}

impl Plain {
    /// Creates a value whose fields are derived from its number.
    pub fn of(number: u64) -> Self {
        let mut market = [0; 8];
        let name = format!("M\u{e9}{}", number % 1000);
        market[..name.len()].copy_from_slice(name.as_bytes());
        let low = number as i32;
        Plain {
            number,
            price: number as f64 / 8.0 - 1.0,
            delta: -(number as i64) * 1_000_000_007,
            at: Point { x: low as f32 / 4.0, y: -low },
            took: low as u32 ^ 0x5a5a,
            small: -(low as i16),
            tiny: low as u8,
            state: if number.is_multiple_of(2) { State::Idle.into() } else { State::Busy.into() },
            market,
            last: [0, 1, 2, 3].map(|back| low - back),
            raw: number.to_be_bytes(),
        }
    }
}

/// A record of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, Record)]
pub struct Fault {
    pub pid: u32,
    pub tid: u32,
    pub addr: u64,
}

/// A ring of a process that has this test's pid in a pid namespace `id`: a log record, a sample, and a log record of its
/// thread 77.
pub fn two_of_one_pid(dir: &Path, id: u32, name: &str) -> Followed {
    let path = dir.join(name);
    let sink = Sink::create(&path, &options(), Resource::default()).unwrap();
    sink.emit(&Log { body: "plain".into(), ..Log::default() }).unwrap();
    sink.emit(&Gauge::new("free", 1u64)).unwrap();
    let thread = &[("thread.id", 77u64.into())];
    sink.emit(&Log { body: "thread".into(), attributes: thread, ..Log::default() }).unwrap();
    let mut followed = Followed::open(&path, id);
    followed.read();
    // All this test's sinks say when the test began; without that, births tell processes apart.
    followed.items.remove(0);
    followed.origin.producer.name = name.to_owned();
    followed.origin.birth = Some(Birth { namespace: id.into(), started_ns: 1 });
    followed
}

/// Creates a ring that resembles a metrics area: its samples name their process, this test's, and it has neither a policy nor a producer.
pub fn metrics_area(path: &Path, id: u32) -> Followed {
    let sink = Sink::create(path, &options(), Resource::default()).unwrap();
    sink.emit(&Gauge::new("free", 1u64)).unwrap();
    let mut followed = Followed::open(path, id);
    followed.read();
    followed.items.remove(0);
    followed.origin.policy = None;
    followed.origin.producer = Default::default();
    followed
}

/// Creates a ring that resembles the kernel's, with records of two threads.
pub fn kernel_ring(path: &Path, id: u32) -> Followed {
    let mut producer =
        Producer::create(path, &Options { time: true, ..Options::default() }).unwrap();
    for tid in [11, 12, 11] {
        producer.publish_pod(&Fault { pid: 10, tid, addr: 4096 }).unwrap();
    }
    let mut followed = Followed::open(path, id);
    followed.read();
    followed.origin.policy = None;
    followed
}

/// An archive with strings, an option and lists.
#[derive(Clone, Debug, Archive, Serialize, Record)]
#[record(rkyv)]
pub struct Line {
    pub number: u64,
    pub message: String,
    /// How long it took.
    #[record(unit = "ms")]
    pub took: f64,
    pub code: Option<i32>,
    pub tags: Vec<String>,
    pub sizes: Vec<u32>,
}

impl Line {
    /// Creates a value whose fields are derived from its number.
    pub fn of(number: u64) -> Self {
        Line {
            number,
            message: format!("line {number}: \"quoted\"\\ and\n\u{1f600}"),
            took: number as f64 / 16.0,
            code: (number.is_multiple_of(3)).then_some(-(number as i32)),
            tags: (0..number % 3).map(|at| format!("tag {at}")).collect(),
            sizes: (0..number as u32 % 4).collect(),
        }
    }
}

pub const TAGGED: Schema<'static> = Schema::new("demo.Tagged event", Encoding::Tagged)
    .with_fields(0, &[Field::new("http.status", 0, Shape::ANY), Field::new("path", 0, Shape::ANY)])
    .with_hashed_id();
pub const TEXT: Schema<'static> = Schema::new("demo.Text", Encoding::Utf8).with_hashed_id();
pub const JSON: Schema<'static> = Schema::new("demo.Json", Encoding::Json).with_hashed_id();
pub const BYTES: Schema<'static> = Schema::new("demo.Bytes", Encoding::Bytes).with_hashed_id();
/// A class without its required fields.
pub const ODD: Schema<'static> =
    Schema { class: Class::Gauge, ..Schema::new("demo.Odd", Encoding::Utf8) }.with_hashed_id();
/// A type number that is in no table.
pub const UNKNOWN: u32 = 4999;

/// Returns a payload of [`TAGGED`].
pub fn tagged(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = TaggedWriter::new(&mut bytes);
    writer.u64(0u16, 200 + number);
    writer.text(1u16, &format!("/index/{number}"));
    writer.i64("left", -(number as i64));
    writer.f64("share", number as f64 / 4.0);
    writer.bool("ok", number.is_multiple_of(2));
    writer.bytes("id", &number.to_be_bytes());
    writer.u64s("sizes", &[number, u64::MAX]);
    writer.f64s("shares", &[0.5, number as f64]);
    writer.u128("large", u128::from(number) << 70);
    if number % 2 == 1 {
        writer.text("only.odd", "yes");
        writer.none("nothing");
    }
    bytes
}

/// Publishes the record with this number: all encodings take turns.
pub fn publish(producer: &mut Producer, number: u64) -> Result<(), ReserveError> {
    match number % 8 {
        0 => producer.publish_pod(&Plain::of(number)),
        1 => producer.publish_rkyv(&Line::of(number)),
        2 => {
            producer.register(&TAGGED)?;
            producer.publish_as(TAGGED.id, &tagged(number))
        }
        3 => {
            producer.register(&TEXT)?;
            producer.publish_as(TEXT.id, format!("text \u{e9} {number}").as_bytes())
        }
        4 => {
            producer.register(&JSON)?;
            let json = format!(r#"{{"n":{number},"list":[1,"a",null],"in":{{"x":-1.5}}}}"#);
            producer.publish_as(JSON.id, json.as_bytes())
        }
        5 => {
            producer.register(&BYTES)?;
            producer.publish_as(BYTES.id, &number.to_le_bytes()[..number as usize % 9])
        }
        6 => {
            producer.register(&JSON)?;
            producer.publish_as(JSON.id, b"not JSON") // damage
        }
        _ => producer.publish_as(RecordType::new(UNKNOWN).unwrap(), &number.to_be_bytes()),
    }
}

/// Creates a drop ring with timestamps that has wrapped, and has lost records: full and too large.
pub fn full_ring(path: &Path, id: u32) -> Followed {
    let options = Options { size: 16 << 10, time: true, ..Options::default() };
    let mut producer = Producer::create(path, &options).unwrap();
    let mut followed = Followed::open(path, id);
    let mut number = 0;
    for round in 0..4 {
        let mut refused = 0;
        while refused < 2 + round {
            match publish(&mut producer, number) {
                Ok(()) => {}
                Err(ReserveError::Full) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            number += 1;
        }
        if round == 2 {
            let large = producer.publish_as(TEXT.id, &[b'x'; 60_000]).unwrap_err();
            assert!(matches!(large, ReserveError::TooLarge { .. }), "{large}");
        }
        followed.read();
        let mut consumer = Consumer::attach(path).unwrap();
        while consumer.read().unwrap().is_some() {}
    }
    publish(&mut producer, number).unwrap();
    followed.read();
    followed
}

/// Creates an overwrite ring with timestamps, whose observer is lapped.
pub fn lapped_ring(path: &Path, id: u32) -> Followed {
    let policy = perfring_consumer::Policy::Overwrite;
    let options = Options { size: 16 << 10, time: true, policy, ..Options::default() };
    let mut producer = Producer::create(path, &options).unwrap();
    let mut followed = Followed::open(path, id);
    for number in 0..2000 {
        publish(&mut producer, number).unwrap();
        if number % 400 == 0 {
            followed.read();
        }
    }
    followed.read();
    followed
}
