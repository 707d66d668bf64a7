//! The cost of many rings to one reader: merging eight by time, filled in turns and by live
//! producers; draining the fullest first; and a thousand idle ones.
//!
//! Every record is checked: its number in its ring, and that times do not decrease. `cargo bench -p
//! perfring-bench --bench sets`; `--only NAME` for one, `--json` for one line each. `cargo test`
//! runs it with few records, to see that it works.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use nix::time::{ClockId, clock_gettime};
use perfring_bench::conductor::memory_dir;
use perfring_bench::program::Args;
use perfring_consumer::{Consumer, Item};
use perfring_producer::{Options, Producer, RecordType, ReserveError};
use perfring_set::{Merge, SourceId};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const RINGS: usize = 8;
/// 64 bytes in all: a header, a timestamp, six words.
const WORDS: usize = 6;
const DELAY: Duration = Duration::from_millis(100);
/// The user and system time of this thread, and of the process.
const THREAD: ClockId = ClockId::CLOCK_THREAD_CPUTIME_ID;
const PROCESS: ClockId = ClockId::CLOCK_PROCESS_CPUTIME_ID;

struct Rings {
    dir: tempfile::TempDir,
    options: Options,
}

impl Rings {
    fn new(size: u64) -> Self {
        Rings {
            dir: memory_dir().unwrap(),
            options: Options { size, time: true, ..Options::default() },
        }
    }

    fn path(&self, at: usize) -> PathBuf {
        self.dir.path().join(at.to_string())
    }

    fn produce(&self, at: usize) -> Producer {
        Producer::create(self.path(at), &self.options).unwrap()
    }

    fn merge(&self, rings: usize, delay: Duration) -> (Merge, Vec<SourceId>) {
        let mut merge = Merge::new(delay).unwrap();
        let add = |at| merge.add(Box::new(Consumer::attach(self.path(at)).unwrap()));
        let ids = (0..rings).map(add).collect();
        (merge, ids)
    }
}

/// What was read of each ring, and the time of the last record.
#[derive(Default)]
struct Check {
    next: [u64; RINGS],
    last: u64,
    late: u64,
    records: u64,
}

impl Check {
    #[inline(always)]
    fn take(&mut self, item: &Item<'_>, time: u64, late: u64) {
        let Item::Record(record) = item else { panic!("records were lost") };
        let words: &[u64] = bytemuck::cast_slice(record.bytes);
        let (ring, number) = (words[0] as usize % RINGS, words[1]);
        assert!(number == self.next[ring] && words[WORDS - 1] == number, "{number} of {ring}");
        assert!(time >= self.last || late > 0, "{time} after {}", self.last);
        self.next[ring] += 1;
        self.records += 1;
        self.late += u64::from(late > 0);
        self.last = self.last.max(time);
    }
}

#[inline]
fn record(ring: usize, number: u64) -> [u64; WORDS] {
    [ring as u64, number, 0, 0, 0, number]
}

/// Returns the time of a clock.
fn clock(id: ClockId) -> Duration {
    Duration::from(clock_gettime(id).unwrap())
}

/// Fills all rings, a record each in turns of `run`, then merges and releases. Only the latter is
/// timed, in processor time, so a machine with other work gives about the same result.
fn merge_filled(rounds: u64, run: u64) -> (u64, Duration) {
    let rings = Rings::new(1 << 20);
    let mut producers: Vec<_> = (0..RINGS).map(|at| rings.produce(at)).collect();
    let (mut merge, ids) = rings.merge(RINGS, Duration::from_millis(1));
    let (mut check, mut number, mut took) = (Check::default(), [0; RINGS], Duration::ZERO);
    for _ in 0..rounds {
        for _ in 0..12_000 / run {
            for (ring, producer) in producers.iter_mut().enumerate() {
                for _ in 0..run {
                    let words = record(ring, number[ring]);
                    producer.publish(bytemuck::bytes_of(&words)).unwrap();
                    number[ring] += 1;
                }
            }
        }
        let start = clock(THREAD);
        // Until none is left: the last ones wait for the delay, which is not counted.
        while let Some(merged) = merge.next().unwrap() {
            check.take(&merged.item, merged.time, merged.late);
        }
        took += clock(THREAD) - start;
        while check.next != number {
            merge.wait(Duration::from_secs(1));
            let start = clock(THREAD);
            while let Some(merged) = merge.next().unwrap() {
                check.take(&merged.item, merged.time, merged.late);
            }
            took += clock(THREAD) - start;
        }
        let start = clock(THREAD);
        for id in &ids {
            let resume_point = merge.resume_point(*id).unwrap();
            merge.release(*id, &resume_point);
        }
        took += clock(THREAD) - start;
    }
    assert_eq!(check.late, 0);
    (check.records, took)
}

/// Runs producers in threads, as fast as they can and waiting for space; all of it is timed.
fn merge_live(records: u64) -> (u64, Duration) {
    let rings = Rings::new(1 << 20);
    let producers: Vec<_> = (0..RINGS).map(|at| rings.produce(at)).collect();
    let (mut merge, ids) = rings.merge(RINGS, DELAY);
    let stop = Arc::new(AtomicBool::new(false));
    let mut check = Check::default();
    let mut took = Duration::ZERO;
    std::thread::scope(|scope| {
        for (ring, mut producer) in producers.into_iter().enumerate() {
            let stop = stop.clone();
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let words = record(ring, number);
                    let wait = Duration::from_millis(100);
                    let published = producer.publish_timeout(
                        RecordType::BYTES,
                        bytemuck::bytes_of(&words),
                        wait,
                    );
                    match published {
                        Ok(()) => number += 1,
                        Err(ReserveError::Full) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
        let start = Instant::now();
        let mut unreleased = 0;
        while check.records < records {
            match merge.next().unwrap() {
                Some(merged) => {
                    // A loss is reported where a wait timed out; it is no record.
                    if let Item::Record(_) = merged.item {
                        check.take(&merged.item, merged.time, merged.late);
                    }
                    unreleased += 1;
                    if unreleased < 1024 {
                        continue;
                    }
                }
                None => {
                    merge.wait(Duration::from_millis(100));
                }
            }
            unreleased = 0;
            for id in &ids {
                let resume_point = merge.resume_point(*id).unwrap();
                merge.release(*id, &resume_point);
            }
        }
        took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
    });
    (check.records, took)
}

/// A thousand rings, of which ten get a record each hundredth of a second. Returns the share of a
/// core that the merge took: the publishing is timed and subtracted.
fn idle(rings_count: usize, busy: usize, lasts: Duration) -> (u64, f64, Duration) {
    let rings = Rings::new(64 << 10);
    let mut producers: Vec<_> = (0..rings_count).map(|at| rings.produce(at)).collect();
    let attach = Instant::now();
    let (mut merge, ids) = rings.merge(rings_count, DELAY);
    let attach = attach.elapsed();
    merge.wait(DELAY * 3);
    let (start, before) = (Instant::now(), clock(PROCESS));
    let (mut published, mut read, mut publishing) = (0u64, 0u64, Duration::ZERO);
    while start.elapsed() < lasts {
        let (at, spent) = (Instant::now(), clock(PROCESS));
        for producer in &mut producers[..busy] {
            producer.publish(bytemuck::bytes_of(&record(0, published))).unwrap();
            published += 1;
        }
        publishing += clock(PROCESS) - spent;
        let until = at.checked_add(Duration::from_millis(10)).unwrap_or(at);
        loop {
            while let Some(merged) = merge.next().unwrap() {
                read += 1;
                let id = merged.source;
                let resume_point = merge.resume_point(id).unwrap();
                merge.release(id, &resume_point);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            merge.wait(left);
        }
    }
    let share =
        (clock(PROCESS) - before - publishing).as_secs_f64() / start.elapsed().as_secs_f64();
    assert!(read > 0 && ids.len() == rings_count);
    (read, share, attach)
}

fn main() {
    let args = Args::here();
    let (repetitions, rounds, live, lasts) = match args.real {
        true => (5, 50, 40_000_000, Duration::from_secs(10)),
        false => (1, 2, 100_000, Duration::from_millis(300)),
    };
    let say = |name: &str, what: &str, value: f64| match args.json {
        true => println!("{{\"name\":\"{name}\",\"{what}\":{value:.3}}}"),
        false => println!("{name:36} {value:>10.2} {what}"),
    };
    for _ in 0..repetitions {
        for (name, run) in [("merge 8, each in turn", 1), ("merge 8, runs of 16", 16)] {
            if args.wants(name) {
                let (records, took) = merge_filled(rounds, run);
                say(name, "million/s", records as f64 / took.as_secs_f64() / 1e6);
            }
        }
        if args.wants("merge 8, live producers") {
            let (records, took) = merge_live(live);
            say("merge 8, live producers", "million/s", records as f64 / took.as_secs_f64() / 1e6);
        }
    }
    let count = if args.real { 1000 } else { 50 };
    if args.wants("idle") {
        let (_, share, attach) = idle(count, 10, lasts);
        say("idle: 1,000 rings, 10 busy", "percent of a core", share * 100.0);
        say("idle: attach", "us a ring", attach.as_secs_f64() * 1e6 / count as f64);
    }
}
