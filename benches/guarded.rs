//! The cost to a consumer of not trusting the processes that may write the ring: `Trust::Nobody`,
//! which copies each record before it is examined, beside `Trust::Auto`, which borrows it in
//! place.
//!
//! Both compare every byte of every record. `alone` reads records that are already published, on
//! the core that wrote them: only reading is measured. `beside` reads what a producer on the other
//! core publishes meanwhile, as fast as both can. All take turns within a repetition.
//!
//! `cargo bench -p perfring-bench --bench guarded`; `cargo test` runs it with few records.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use perfring_bench::cores::{Pinned, two_cores};
use perfring_bench::program::{Args, Spread};
use perfring_consumer::{Consumer, ConsumerOptions, Item, Trust};
use perfring_producer::{Options, Producer, RecordType};
use std::path::Path;
use std::time::{Duration, Instant};

const KIND: RecordType = RecordType::new(6000).unwrap();
const LENS: [usize; 5] = [8, 64, 256, 1024, 4096];
const RING: u64 = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

struct Mode {
    name: &'static str,
    producer: Producer,
    consumer: Consumer,
    drains: bool,
    alone: Vec<f64>,
    beside: Vec<f64>,
}

impl Mode {
    fn new(dir: &Path, name: &'static str, guard: Trust, drains: bool) -> Self {
        let path = dir.join(name);
        let options = Options { size: RING, ..Options::default() };
        let producer = Producer::create(&path, &options).unwrap();
        let consumer = Consumer::attach_with(
            &path,
            &ConsumerOptions { trust: guard, ..ConsumerOptions::default() },
        )
        .unwrap();
        Mode { name, producer, consumer, drains, alone: Vec::new(), beside: Vec::new() }
    }
}

/// Reads until there is nothing left, and counts; every record must equal `expected`.
#[inline(never)]
fn read(consumer: &mut Consumer, drains: bool, expected: &[u8]) -> u64 {
    let check = |item: Item<'_>| match item {
        Item::Record(record) => {
            assert!(record.bytes == expected, "a record that was never written")
        }
        Item::Lost(lost) => panic!("{lost:?}"),
    };
    let mut count = 0;
    if drains {
        consumer.drain(check).unwrap()
    } else {
        while let Some(item) = consumer.read().unwrap() {
            check(item);
            count += 1;
        }
        count
    }
}

/// Returns ns per record, for records that are already published.
fn alone(mode: &mut Mode, payload: &[u8], rounds: u64) -> f64 {
    let (mut count, mut time) = (0, Duration::ZERO);
    for _ in 0..rounds {
        // As many as fit for certain, with their headers.
        let sent = RING / (payload.len() as u64 + 24);
        for _ in 0..sent {
            mode.producer.publish_as(KIND, payload).unwrap();
        }
        let start = Instant::now();
        let seen = read(&mut mode.consumer, mode.drains, payload);
        time += start.elapsed();
        assert_eq!(seen, sent);
        count += seen;
        mode.consumer.release();
    }
    time.as_secs_f64() * 1e9 / count as f64
}

/// Returns ns per record, beside a producer that never pauses.
fn beside(mode: &mut Mode, payload: &[u8], count: u64, core: Option<usize>) -> f64 {
    let (producer, consumer) = (&mut mode.producer, &mut mode.consumer);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = core.map(|core| Pinned::to(core).unwrap());
            for _ in 0..count {
                producer.publish_timeout(KIND, payload, PATIENCE).unwrap();
            }
        });
        assert!(consumer.wait(PATIENCE), "nothing arrives");
        let start = Instant::now();
        let mut seen = 0;
        while seen < count {
            match read(consumer, mode.drains, payload) {
                0 => assert!(consumer.spin(PATIENCE), "nothing arrives"),
                some => seen += some,
            }
        }
        consumer.release();
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    })
}

fn main() {
    let (repetitions, bytes) = if Args::here().real { (5, 512 << 20) } else { (1, 1 << 18) };
    let cores = two_cores().unwrap();
    let _pinned = cores.map(|[first, _]| Pinned::to(first).unwrap());
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    println!("payload mode      alone, ns a record   of plain   beside, ns a record   of plain");
    for len in LENS {
        let mut modes = [
            Mode::new(dir.path(), "read", Trust::Auto, false),
            Mode::new(dir.path(), "read copied", Trust::Nobody, false),
            Mode::new(dir.path(), "drain", Trust::Auto, true),
            Mode::new(dir.path(), "drain copied", Trust::Nobody, true),
        ];
        let payload: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5a).collect();
        let count = (bytes / (len + 8)).clamp(100, 4_000_000) as u64;
        for _ in 0..repetitions {
            for mode in &mut modes {
                let rounds = (count * len as u64 / RING).clamp(2, 200);
                let ns = alone(mode, &payload, rounds);
                mode.alone.push(ns);
                let ns = beside(mode, &payload, count, cores.map(|[_, second]| second));
                mode.beside.push(ns);
            }
        }
        for pair in modes.chunks(2) {
            let of = |values: &Vec<f64>| Spread::of(values.clone());
            let plain = [of(&pair[0].alone).median, of(&pair[0].beside).median];
            for mode in pair {
                let [alone, beside] = [of(&mode.alone), of(&mode.beside)];
                println!(
                    "{len:>7} {:<13} {:>22} {:>6.2} {:>22} {:>6.2}",
                    mode.name,
                    alone.text(1),
                    alone.median / plain[0],
                    beside.text(1),
                    beside.median / plain[1]
                );
            }
        }
        for mode in &modes {
            std::fs::remove_file(dir.path().join(mode.name)).unwrap();
        }
    }
}
