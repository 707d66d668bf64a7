//! The cost of typed records and timestamps, in one process on one core: publish a few hundred
//! records, read them all, check each, repeat.
//!
//! Contestants take turns within each repetition; the report has the medians, and the ratio of each
//! to the one that it is compared with. `cargo bench -p perfring-bench --bench shapes`; with
//! `--json` one line each. `cargo test` runs it with few records, to see that it works.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use bytemuck::{Pod, Zeroable};
use perfring_bench::conductor::memory_dir;
use perfring_bench::program::{Args, Spread};
use perfring_consumer::{Consumer, Item};
use perfring_producer::{Options, Producer, SharedProducer};
use perfring_types::Record;
use rkyv::api::low::to_bytes_in_with_alloc;
use rkyv::rancor::Failure;
use rkyv::ser::allocator::SubAllocator;
use rkyv::ser::writer::Buffer;
use rkyv::{Archive, Serialize};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Records between two clock readings: well within the ring.
const ROUND: u64 = 512;

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Pod, Zeroable, Record)]
struct Sixty {
    number: u64,
    rest: [u64; 7],
}

impl Sixty {
    fn of(number: u64) -> Self {
        Sixty { number, rest: [number ^ 0x5555; 7] }
    }
}

/// A string and three fields.
#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Line {
    message: String,
    number: u64,
    took: f64,
    code: u32,
}

/// How long publishing and reading took.
#[derive(Clone, Copy, Default)]
struct Took {
    publish: Duration,
    read: Duration,
}

trait Contestant {
    /// Publishes the records of a round, or does what replaces it.
    fn publish(&mut self, from: u64);
    /// Reads and checks them: returns how many were right.
    fn read(&mut self, from: u64) -> u64;
}

struct Case {
    name: &'static str,
    /// The case that it is compared with, and whether reading counts.
    base: Option<&'static str>,
    both: bool,
    run: Box<dyn Contestant>,
    samples: Vec<Took>,
}

impl Case {
    fn new(
        name: &'static str,
        base: Option<&'static str>,
        both: bool,
        run: impl Contestant + 'static,
    ) -> Self {
        Case { name, base, both, run: Box::new(run), samples: Vec::new() }
    }
}

/// Publishes with one function and reads with another.
struct Through<P, R> {
    publish: P,
    consumer: Consumer,
    right: R,
}

impl<P: FnMut(u64), R: FnMut(&perfring_consumer::RecordRef<'_>, u64) -> bool> Contestant
    for Through<P, R>
{
    #[inline(never)]
    fn publish(&mut self, from: u64) {
        for number in from..from + ROUND {
            (self.publish)(number);
        }
    }

    #[inline(never)]
    fn read(&mut self, from: u64) -> u64 {
        let mut number = from;
        let mut right = 0;
        while let Some(Item::Record(record)) = self.consumer.read().unwrap() {
            right += u64::from((self.right)(&record, number));
            number += 1;
        }
        self.consumer.release();
        right
    }
}

/// Without a ring: what the same work costs elsewhere.
struct Plain<P>(P);

impl<P: FnMut(u64)> Contestant for Plain<P> {
    #[inline(never)]
    fn publish(&mut self, from: u64) {
        for number in from..from + ROUND {
            (self.0)(number);
        }
    }

    fn read(&mut self, _: u64) -> u64 {
        ROUND
    }
}

struct Rings {
    dir: tempfile::TempDir,
    made: u32,
}

impl Rings {
    fn path(&mut self) -> std::path::PathBuf {
        self.made += 1;
        self.dir.path().join(self.made.to_string())
    }

    fn one(&mut self, options: Options) -> (Producer, Consumer) {
        let path = self.path();
        (Producer::create(&path, &options).unwrap(), Consumer::attach(&path).unwrap())
    }

    fn many(&mut self, options: Options) -> (SharedProducer, Consumer) {
        let path = self.path();
        (SharedProducer::create(&path, &options).unwrap(), Consumer::attach(&path).unwrap())
    }
}

fn same_bytes(record: &perfring_consumer::RecordRef<'_>, number: u64) -> bool {
    record.bytes == bytemuck::bytes_of(&Sixty::of(number))
}

fn same_pod(record: &perfring_consumer::RecordRef<'_>, number: u64) -> bool {
    record
        .as_pod::<Sixty>()
        .is_ok_and(|pod| bytemuck::bytes_of(pod) == bytemuck::bytes_of(&Sixty::of(number)))
}

fn line() -> Line {
    Line { message: "GET /index.html from 10.0.0.1".to_owned(), number: 0, took: 1.5, code: 200 }
}

fn same_line(record: &perfring_consumer::RecordRef<'_>, number: u64) -> bool {
    record.archived::<Line>().is_ok_and(|line| line.number == number && line.message.len() == 29)
}

/// Sixty-four bytes, published in each possible manner.
fn shaped(rings: &mut Rings) -> Vec<Case> {
    let plain = Options::default();
    let mut cases = vec![Case::new("publish", None, true, bytes_through(rings.one(plain)))];
    let (mut producer, consumer) = rings.one(plain);
    let publish = move |n| producer.publish_pod(black_box(&Sixty::of(n))).unwrap();
    let run = Through { publish, consumer, right: same_pod };
    cases.push(Case::new("publish_pod", Some("publish"), true, run));
    let (mut producer, consumer) = rings.one(plain);
    let publish = move |n| {
        let mut record = producer.reserve_pod::<Sixty>().unwrap();
        *record = Sixty::of(n);
        record.commit();
    };
    let run = Through { publish, consumer, right: same_pod };
    cases.push(Case::new("reserve_pod", Some("publish"), true, run));
    let run = shared_bytes_through(rings.many(plain));
    cases.push(Case::new("shared publish", None, true, run));
    let (producer, consumer) = rings.many(plain);
    let publish = move |n| producer.publish_pod(black_box(&Sixty::of(n))).unwrap();
    let run = Through { publish, consumer, right: same_pod };
    cases.push(Case::new("shared publish_pod", Some("shared publish"), true, run));
    cases
}

/// The same with a timestamp, and the clock alone.
fn timed(rings: &mut Rings) -> Vec<Case> {
    let timed = Options { time: true, ..Options::default() };
    let exclusive = bytes_through(rings.one(timed));
    let shared = shared_bytes_through(rings.many(timed));
    let clock = Plain(|_| {
        black_box(nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)).unwrap();
    });
    vec![
        Case::new("timed publish", Some("publish"), false, exclusive),
        Case::new("timed shared publish", Some("shared publish"), false, shared),
        Case::new("clock_gettime", None, false, clock),
    ]
}

/// An rkyv archive, to a buffer and into a ring.
fn archived(rings: &mut Rings) -> Vec<Case> {
    let base = Some("rkyv to a buffer");
    let (mut value, mut buffer) = (line(), rkyv::util::Align([0u8; 256]));
    let alone = Plain(move |n| {
        value.number = n;
        let mut scratch = [MaybeUninit::<u8>::uninit(); 256];
        let to = Buffer::from(&mut *buffer);
        let done = to_bytes_in_with_alloc::<_, _, Failure>(
            black_box(&value),
            to,
            SubAllocator::new(&mut scratch),
        );
        black_box(done.unwrap().len());
    });
    let (mut producer, consumer) = rings.one(Options::default());
    let mut value = line();
    let publish = move |n| {
        value.number = n;
        producer.publish_rkyv(black_box(&value)).unwrap();
    };
    let exclusive = Through { publish, consumer, right: same_line };
    let (producer, consumer) = rings.many(Options::default());
    let mut value = line();
    let publish = move |n| {
        value.number = n;
        producer.publish_rkyv(black_box(&value)).unwrap();
    };
    let shared = Through { publish, consumer, right: same_line };
    vec![
        Case::new("rkyv to a buffer", None, false, alone),
        Case::new("publish_rkyv", base, false, exclusive),
        Case::new("shared publish_rkyv", base, false, shared),
    ]
}

fn bytes_through((mut producer, consumer): (Producer, Consumer)) -> impl Contestant + 'static {
    let publish = move |n| producer.publish(bytemuck::bytes_of(black_box(&Sixty::of(n)))).unwrap();
    Through { publish, consumer, right: same_bytes }
}

fn shared_bytes_through(
    (producer, consumer): (SharedProducer, Consumer),
) -> impl Contestant + 'static {
    let publish = move |n| producer.publish(bytemuck::bytes_of(black_box(&Sixty::of(n)))).unwrap();
    Through { publish, consumer, right: same_bytes }
}

fn main() {
    let args = Args::here();
    let (repetitions, rounds) = if args.real { (5, 8000) } else { (1, 4) };
    let mut rings = Rings { dir: memory_dir().unwrap(), made: 0 };
    let mut cases: Vec<Case> =
        [shaped, timed, archived].into_iter().flat_map(|of| of(&mut rings)).collect();
    cases.retain(|case| args.wants(case.name));
    let mut numbers = vec![0; cases.len()];
    for _ in 0..repetitions {
        // In short turns: a disturbance of the machine then affects all of them.
        let mut took = vec![Took::default(); cases.len()];
        for _ in 0..rounds {
            for (at, case) in cases.iter_mut().enumerate() {
                let start = Instant::now();
                case.run.publish(numbers[at]);
                let between = Instant::now();
                let right = case.run.read(numbers[at]);
                took[at].read += between.elapsed();
                took[at].publish += between.duration_since(start);
                assert_eq!(right, ROUND, "{}: records lost or damaged", case.name);
                numbers[at] += ROUND;
            }
        }
        for (case, took) in cases.iter_mut().zip(took) {
            case.samples.push(took);
        }
    }
    report(&cases, repetitions, rounds, args.json);
}

fn report(cases: &[Case], repetitions: u64, rounds: u64, json: bool) {
    let per = (rounds * ROUND) as f64;
    let ns = |took: &Took, both: bool| {
        let read = if both { took.read } else { Duration::ZERO };
        (took.publish + read).as_nanos() as f64 / per
    };
    if !json {
        println!(
            "{:20} {:>8} {:>8} {:>8}   ratio, lowest and highest",
            "", "publish", "read", "both"
        );
    }
    for case in cases {
        let of = |what: &dyn Fn(&Took) -> f64| Spread::of(case.samples.iter().map(what)).median;
        let [publish, both] = [false, true].map(|both| of(&|took: &Took| ns(took, both)));
        let base = case.base.and_then(|base| cases.iter().find(|other| other.name == base));
        let ratios = base.map(|base| {
            let pairs = case.samples.iter().zip(&base.samples);
            Spread::of(pairs.map(|(a, b)| ns(a, case.both) / ns(b, case.both)))
        });
        if json {
            let line = serde_json::json!({
                "bench": "shapes", "contestant": case.name, "publish_ns": publish,
                "read_ns": both - publish, "base": case.base, "counts_reading": case.both,
                "ratio": ratios.map(|r| r.median), "ratio_min": ratios.map(|r| r.range.0),
                "ratio_max": ratios.map(|r| r.range.1), "repetitions": repetitions,
                "records": rounds * ROUND * repetitions, "lost": 0,
            });
            println!("{line}");
        } else {
            let ratio = ratios.map_or_else(String::new, |ratio| {
                let what = if case.both { "" } else { " (publish alone)" };
                format!("{} of {}{what}", ratio.text(2), case.base.unwrap_or(""))
            });
            println!("{:20} {publish:8.1} {:8.1} {both:8.1}   {ratio}", case.name, both - publish);
        }
    }
}
