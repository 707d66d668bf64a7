//! What an event costs the thread that logs it, beside what else a program would log with.
//!
//! `cargo run --release --example events`, in this directory. One thread logs an event of three fields and a message, in turns of
//! some calls for each contestant, after a warm-up; the figures are medians of five rounds with their range. The rivals give the event to a
//! thread, which is waited for after each turn. What came out is counted and compared: what a contestant lost is shown. LTTng's
//! tracepoint has an array of 64 bytes instead, and is left out with the reason where LTTng is not installed.

use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, SdkLoggerProvider,
};
use perfring_bench::contestant::{Contestant, Receiver, Sender, Setup};
use perfring_bench::payload::{fill, verify};
use perfring_bench::waits::WaitStrategy;
use perfring_compare::contest::lttng::Lttng;
use perfring_consumer::{Item, Snapshot};
use perfring_producer::{CpuProducer, Options, Policy};
use perfring_tracing::{PerfringLayer, options};
use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::{Dispatch, info};
use tracing_appender::non_blocking::NonBlockingBuilder;
use tracing_subscriber::prelude::*;

type Failure = Box<dyn Error>;

const ROUNDS: usize = 5;
/// In each round.
const TURNS: usize = 20;
/// Calls in a turn before those that are timed, and those.
const WARM: u64 = 8_000;
const CALLS: u64 = 2_000;
const EACH: u64 = WARM + CALLS;
const SIZE: u64 = 2 << 20;
/// What the rivals' queues hold: more than a turn, so that they lose nothing by their size.
const QUEUE: usize = 1 << 16;

fn event(n: u64) {
    info!(user = n, ratio = n as f64 / 2.0, ok = n.is_multiple_of(2), "something happened");
}

/// A time of some calls.
fn time(from: u64, mut call: impl FnMut(u64)) -> Duration {
    (from..from + WARM).for_each(&mut call);
    let since = Instant::now();
    (from + WARM..from + EACH).for_each(call);
    since.elapsed()
}

/// Counts what comes out of a rival: the records, and the sum of their numbers.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<(AtomicU64, AtomicU64)>);

impl Seen {
    fn add(&self, number: u64) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        self.0.1.fetch_add(number, Ordering::Relaxed);
    }
}

/// `fmt`'s lines.
impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for line in String::from_utf8_lossy(bytes).lines() {
            let number = line.split_once("user=").and_then(|(_, rest)| rest.split(' ').next());
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                self.add(number);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl LogExporter for Seen {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        for (record, _) in batch.iter() {
            let user = record.attributes_iter().find(|(key, _)| key.as_str() == "user");
            match user.map(|(_, value)| value) {
                Some(opentelemetry::logs::AnyValue::Int(number)) => self.add(*number as u64),
                _ => continue,
            }
        }
        Ok(())
    }
}

/// What a contestant has passed on of the numbers that it was given.
enum Out {
    /// Rings: a file or a directory of some.
    Rings(PathBuf),
    Seen(Seen, Box<dyn Fn()>),
}

struct Entrant {
    name: &'static str,
    dispatch: Dispatch,
    out: Out,
    times: [Duration; ROUNDS],
    lost: u64,
}

/// Returns how many of the numbers of a turn are in the rings.
fn present(place: &Path, from: u64) -> Result<u64, Failure> {
    let rings = match std::fs::read_dir(place) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<Result<_, Failure>>()?,
        Err(_) => vec![place.to_owned()],
    };
    let mut present = 0;
    for ring in rings {
        for item in &Snapshot::take(&ring)? {
            let Item::Record(record) = item? else { continue };
            // The fourth value: the process, the message and the ids are before it.
            let words = record.bytes.as_chunks::<8>().0;
            let is_of_turn = |word: &&[u8; 8]| {
                let number = u64::from_ne_bytes(**word);
                (from..from + EACH).contains(&number)
            };
            present += u64::from(words.iter().any(|word| is_of_turn(&word)));
        }
    }
    Ok(present)
}

impl Entrant {
    fn new(name: &'static str, dispatch: Dispatch, out: Out) -> Self {
        Entrant { name, dispatch, out, times: [Duration::ZERO; ROUNDS], lost: 0 }
    }

    fn turn(&mut self, round: usize, from: u64) -> Result<(), Failure> {
        let before = match &self.out {
            Out::Seen(seen, _) => seen.0.0.load(Ordering::Relaxed),
            Out::Rings(_) => 0,
        };
        self.times[round] +=
            tracing::dispatcher::with_default(&self.dispatch, || time(from, event));
        let came = match &self.out {
            Out::Rings(place) => present(place, from)?,
            Out::Seen(seen, settle) => {
                settle();
                seen.0.0.load(Ordering::Relaxed) - before
            }
        };
        self.lost += EACH - came;
        Ok(())
    }
}

fn entrants(dir: &Path) -> Result<Vec<Entrant>, Failure> {
    let sized = Options { size: SIZE, ..options() };
    let (cpus, shared) = (dir.join("cpus"), dir.join("shared"));
    let registry = tracing_subscriber::registry;
    let fmt = || tracing_subscriber::fmt::layer().with_ansi(false);
    let to_cpus = Dispatch::new(registry().with(PerfringLayer::open(&cpus, &sized)?));
    let to_shared = Dispatch::new(registry().with(PerfringLayer::create(&shared, &sized)?));
    let lines = Seen::default();
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(QUEUE).finish(lines.clone());
    let dropped = writer.error_counter();
    let appended = Dispatch::new(registry().with(fmt().with_writer(writer)));
    // It says when its thread is idle only by its count: the sum of what came and what was dropped.
    let settled = lines.clone();
    let expected = AtomicU64::new(0);
    let settle = move || {
        let _held = &guard;
        let all = expected.fetch_add(EACH, Ordering::Relaxed) + EACH;
        while settled.0.0.load(Ordering::Relaxed) + (dropped.dropped_lines() as u64) < all {
            std::thread::yield_now();
        }
    };
    let exported = Seen::default();
    let config =
        BatchConfigBuilder::default().with_max_queue_size(QUEUE).with_max_export_batch_size(512);
    let batches =
        BatchLogProcessor::builder(exported.clone()).with_batch_config(config.build()).build();
    let provider = SdkLoggerProvider::builder().with_log_processor(batches).build();
    let bridged = Dispatch::new(registry().with(OpenTelemetryTracingBridge::new(&provider)));
    let flush = move || drop(provider.force_flush());
    let nowhere = Dispatch::new(registry().with(fmt().with_writer(std::io::sink)));
    let counts_nothing = Seen::default();
    let to_nowhere = counts_nothing.clone();
    let all = move || {
        to_nowhere.0.0.fetch_add(EACH, Ordering::Relaxed);
    };
    Ok(vec![
        Entrant::new("PerfringLayer, rings per CPU", to_cpus, Out::Rings(cpus)),
        Entrant::new("PerfringLayer, a shared ring", to_shared, Out::Rings(shared)),
        Entrant::new("fmt to nowhere", nowhere, Out::Seen(counts_nothing, Box::new(all))),
        Entrant::new("fmt, tracing-appender", appended, Out::Seen(lines, Box::new(settle))),
        Entrant::new("OpenTelemetry, batches", bridged, Out::Seen(exported, Box::new(flush))),
    ])
}

/// The median, the least and the greatest of the rounds' ratios to the unit.
fn ratio(times: &[Duration; ROUNDS], unit: &[Duration; ROUNDS]) -> String {
    let mut all: [f64; ROUNDS] = std::array::from_fn(|at| times[at].div_duration_f64(unit[at]));
    all.sort_by(f64::total_cmp);
    format!("{:6.2} ({:.2} to {:.2})", all[ROUNDS / 2], all[0], all[ROUNDS - 1])
}

fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let unit_dir = dir.path().join("unit");
    let timed = Options { time: true, size: SIZE, policy: Policy::Overwrite, ..Options::per_cpu() };
    let producer = CpuProducer::create(&unit_dir, &timed)?;
    let mut all = entrants(dir.path())?;
    let setup = Setup {
        data_size: SIZE,
        payload: 64,
        overwrite: true,
        senders: 1,
        receivers: 1,
        pace: WaitStrategy::default(),
        sleeping: false,
    };
    let path = dir.path().join("traced");
    let mut lttng = match Lttng::check() {
        Ok(()) => {
            let held = Lttng::create(&path, &setup)?;
            Some((Lttng::sender(&path, &setup, 0)?, Lttng::receiver(&path, &setup, 0)?, held))
        }
        Err(why) => {
            println!("LTTng is left out: {why}");
            None
        }
    };
    let (mut unit, mut traced) = ([Duration::ZERO; ROUNDS], [Duration::ZERO; ROUNDS]);
    let mut from = 1 << 40; // no other word of a record is like these
    for turn in 0..ROUNDS * TURNS {
        let round = turn / TURNS;
        let mut payload = [7u8; 64];
        unit[round] += time(from, |n| {
            payload[..8].copy_from_slice(&n.to_ne_bytes());
            let _ = black_box(producer.publish(black_box(&payload)));
        });
        assert_eq!(present(&unit_dir, from)?, EACH);
        for one in &mut all {
            one.turn(round, from)?;
        }
        if let Some((sender, ..)) = &mut lttng {
            sender.send::<64>(from..from + WARM, fill::<64>)?;
            let since = Instant::now();
            sender.send::<64>(from + WARM..from + EACH, fill::<64>)?;
            traced[round] += since.elapsed();
        }
        from += EACH;
    }
    let each = unit.iter().sum::<Duration>() / (ROUNDS * TURNS) as u32 / CALLS as u32;
    println!(
        "a timed publish of 64 bytes into a ring per CPU: {each:?}; of it, and of PerfringLayer's first row:"
    );
    let first = all[0].times;
    for one in &all {
        let given = (ROUNDS * TURNS) as u64 * EACH;
        let (of_unit, of_first) = (ratio(&one.times, &unit), ratio(&one.times, &first));
        println!("{:32} {of_unit:>24} {of_first:>24}   lost {} of {given}", one.name, one.lost);
    }
    if let Some((_, receiver, _)) = &mut lttng {
        let (mut came, mut damaged) = (0_u64, 0_u64);
        receiver.drain::<64>(|bytes| {
            came += 1;
            let number = bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
            damaged += u64::from(!verify(bytes, number));
        })?;
        let (of_unit, of_first) = (ratio(&traced, &unit), ratio(&traced, &first));
        println!(
            "{:32} {of_unit:>24} {of_first:>24}   its snapshot has {came}, {damaged} damaged",
            "LTTng-UST, 64 bytes"
        );
    }
    Ok(())
}
