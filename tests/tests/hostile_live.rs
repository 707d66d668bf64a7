//! A malicious process rewrites a ring's file while other processes read it. For any change, at any time,
//! each reader gets records or an error. No reader crashes, hangs, or takes unbounded memory, and
//! copies held by a guarded consumer do not change.
//!
//! `PERFRING_STORM_SECONDS` sets a longer duration, `PERFRING_STORM_SEED` another sequence.

use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Item, Observer, Policy, Producers, ReadError, Snapshot,
    Start, Trust, files::recover, install_sigbus_handler, stat::Stat,
};
use perfring_producer::{Options, Producer, SharedProducer};
use perfring_testkit::alone::run_alone;
use perfring_testkit::size::{cases, from_env};
use perfring_testkit::spoiler::Spoiler;
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::{NUMBERED, NUMBERED_TYPE, numbered, ring_dir};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of an AUX area.
const AUX: u64 = 256 << 10;
/// Items that a reader takes before it attaches again.
const ITEMS: u64 = 20_000;
/// More than all readers of all rings need.
const MEMORY: u64 = 400 << 20;

fn kinds() -> [(&'static str, Options); 8] {
    let plain = Options { size: 64 << 10, types_size: 4096, slots: 4, ..Options::default() };
    let (overwrite, many) = (Policy::Overwrite, Producers::Many);
    [
        ("drop", plain),
        ("timed", Options { time: true, ..plain }),
        ("overwrite", Options { policy: overwrite, ..plain }),
        ("shared", Options { producers: many, time: true, ..plain }),
        ("shared overwrite", Options { producers: many, policy: overwrite, ..plain }),
        ("AUX, drop", Options { aux_size: AUX, ..plain }),
        ("AUX, overwrite", Options { aux_size: AUX, policy: overwrite, time: true, ..plain }),
        ("AUX, shared", Options { aux_size: AUX, producers: many, ..plain }),
    ]
}

fn make(path: &Path, options: &Options) {
    let fill = |publish: &mut dyn FnMut(u64) -> bool| (0..300).all(&mut *publish);
    // Some of them in the AUX area.
    let len = |n: u64| if options.aux_size > 0 && n < 2 { 70_000 } else { 100 };
    let filled = if options.producers == Producers::One {
        let mut producer = Producer::create(path, options).unwrap();
        producer.register(&NUMBERED_TYPE).unwrap();
        fill(&mut |n| producer.publish_as(NUMBERED, &numbered(n, len(n))).is_ok())
    } else {
        let producer = SharedProducer::create(path, options).unwrap();
        producer.register(&NUMBERED_TYPE).unwrap();
        fill(&mut |n| producer.publish_as(NUMBERED, &numbered(n, len(n))).is_ok())
    };
    assert!(filled);
}

/// The counts of one kind of reader.
#[derive(Default)]
struct Figures {
    turns: AtomicU64,
    items: AtomicU64,
    corrupt: AtomicU64,
    cut: AtomicU64,
    refused: AtomicU64,
    /// When the present turn began, ms since the start, plus one; 0 before the first turn.
    since: AtomicU64,
}

impl Figures {
    fn refuse(&self, error: &AttachError) {
        sentence(error);
        let cut = matches!(error, AttachError::Truncated { .. });
        if cut { &self.cut } else { &self.refused }.fetch_add(1, Ordering::Relaxed);
    }

    fn corrupt(&self, error: ReadError) {
        sentence(&error);
        let cut = error == ReadError::Truncated;
        if cut { &self.cut } else { &self.corrupt }.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads until there is an error, nothing, or enough.
    fn read(&self, mut next: impl FnMut() -> Result<bool, ReadError>) {
        for _ in 0..ITEMS {
            match next() {
                Ok(true) => self.items.fetch_add(1, Ordering::Relaxed),
                Ok(false) => return,
                Err(error) => return self.corrupt(error),
            };
        }
    }
}

fn sentence(error: &impl Display) {
    let text = error.to_string();
    assert!(text.len() > 10 && !text.ends_with('.'), "{text:?}");
}

/// Reads all bytes: they are mapped.
fn touch(item: Item<'_>) {
    if let Item::Record(record) = item {
        std::hint::black_box(record.bytes.iter().fold(0u8, |sum, byte| sum ^ byte));
    }
}

/// Checks that a copy does not change.
fn keep(item: Item<'_>) {
    if let Item::Record(record) = item {
        let before = record.bytes.to_vec();
        for _ in 0..50 {
            std::hint::spin_loop();
        }
        assert!(std::hint::black_box(record.bytes) == before, "a copy changed");
    }
}

type Turn = fn(&Path, &Figures);

fn consumer(path: &Path, figures: &Figures, guard: Trust, see: fn(Item<'_>)) {
    let mut consumer = match Consumer::attach_with(
        path,
        &ConsumerOptions { trust: guard, ..ConsumerOptions::named("storm") },
    ) {
        Ok(consumer) => consumer,
        Err(error) => return figures.refuse(&error),
    };
    match figures.turns.load(Ordering::Relaxed) % 4 {
        0 => figures.read(|| {
            consumer.drain(see)?;
            Ok(consumer.read()?.map(see).is_some())
        }),
        1 => {
            consumer.advanced().hold();
            figures.read(|| {
                consumer.advanced().peek()?;
                let some = consumer.advanced().take()?.map(|(item, _)| see(item)).is_some();
                consumer.acknowledge();
                Ok(some)
            });
        }
        2 => figures.read(|| {
            while let Some(run) = consumer.read_run(10) {
                run.records().for_each(|record| see(Item::Record(record)));
            }
            if let Some(pinned) = consumer.pinned()? {
                while let Some(item) = pinned.read()? {
                    see(item);
                }
            }
            Ok(consumer.read()?.map(see).is_some())
        }),
        _ => figures.read(|| {
            consumer.wait(Duration::from_micros(50));
            Ok(consumer.read()?.map(see).is_some())
        }),
    }
    let types = consumer.types();
    let _ = std::hint::black_box(types.entries().filter(Result::is_ok).count());
    let _ =
        (consumer.fill(), consumer.advanced().tend(), consumer.has_producer(), consumer.anchors());
    consumer.release();
}

const READERS: [(&str, Turn); 7] = [
    ("a guarded consumer", |path, figures| consumer(path, figures, Trust::Nobody, keep)),
    ("a consumer", |path, figures| consumer(path, figures, Trust::Auto, touch)),
    ("an observer", |path, figures| {
        let start = if figures.turns.load(Ordering::Relaxed) % 2 == 0 {
            Start::Oldest
        } else {
            Start::Latest
        };
        match Observer::attach(path, start) {
            Ok(mut observer) => {
                figures.read(|| Ok(observer.read()?.map(keep).is_some()));
                observer.wait(Duration::from_micros(50));
                let types = observer.types();
                let _ = std::hint::black_box(types.entries().filter(Result::is_ok).count());
            }
            Err(error) => figures.refuse(&error),
        }
    }),
    ("a snapshot", |path, figures| match Snapshot::take(path) {
        Ok(snapshot) => {
            let mut items = snapshot.iter();
            figures.read(|| items.next().transpose().map(|item| item.map(keep).is_some()));
        }
        Err(error) => figures.refuse(&error),
    }),
    ("a reader of the figures", |path, figures| {
        if let Err(error) = Stat::read(path) {
            figures.refuse(&error);
        }
    }),
    ("a producer", |path, figures| {
        let stopped = |result: Result<(), _>| match result {
            Ok(()) => Ok(true),
            Err(perfring_producer::ReserveError::Corrupt { tail }) => {
                Err(ReadError::Corrupt { pos: tail })
            }
            Err(error) => {
                sentence(&error);
                Ok(false)
            }
        };
        match Producer::attach(path) {
            Ok(mut producer) => {
                let mut number = 0;
                figures.read(|| {
                    number += 1;
                    stopped(producer.publish_as(
                        NUMBERED,
                        &numbered(number, len_of(number, producer.max_len())),
                    ))
                });
            }
            Err(AttachError::Kind { .. }) => match SharedProducer::attach(path) {
                Ok(producer) => {
                    let mut number = 0;
                    figures.read(|| {
                        number += 1;
                        stopped(producer.publish_as(
                            NUMBERED,
                            &numbered(number, len_of(number, producer.max_len())),
                        ))
                    });
                }
                Err(error) => figures.refuse(&error),
            },
            Err(error) => figures.refuse(&error),
        }
    }),
    ("a recovery", |path, figures| {
        if let Err(error) = recover(path) {
            figures.refuse(&error);
        }
        std::thread::sleep(Duration::from_micros(200)); // it holds locks that others need
    }),
];

/// Returns mostly short lengths, and now and then one for an AUX area.
fn len_of(number: u64, max: usize) -> usize {
    let len = if number.is_multiple_of(100) { 66_000 } else { number as usize % 200 + 8 };
    len.min(max)
}

/// Returns the peak memory of this process.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// In a separate process: the peak of its memory is the peak of these readers, and a hang ends nothing else.
#[test]
fn whatever_a_live_peer_does_readers_get_records_or_errors() {
    const CHILD: &str = "PERFRING_LIVE_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let test = "hostile_live::whatever_a_live_peer_does_readers_get_records_or_errors";
        return run_alone(test, CHILD, "1");
    }
    let seconds = from_env("PERFRING_STORM_SECONDS", cases(4, 60));
    let seed = from_env("PERFRING_STORM_SEED", 1);
    install_sigbus_handler().unwrap();
    let dir = ring_dir();
    let figures: BTreeMap<&str, Figures> =
        READERS.iter().map(|(name, _)| (*name, Figures::default())).collect();
    let all: Mutex<Vec<String>> = Mutex::default();
    let each = Duration::from_millis(seconds * 1000 / kinds().len() as u64);
    for (at, (kind, options)) in kinds().into_iter().enumerate() {
        let path = dir.path().join("ring");
        let _ = std::fs::remove_file(&path);
        make(&path, &options);
        let mut spoiler = Spoiler::new(&path, seed + at as u64).unwrap();
        let (begun, stop) = (Instant::now(), AtomicBool::new(false));
        let turns = || figures.values().map(|one| one.turns.load(Ordering::Relaxed));
        let before: Vec<u64> = turns().collect();
        std::thread::scope(|scope| {
            for (name, turn) in READERS {
                let (figures, path, stop) = (&figures[name], &path, &stop);
                scope.spawn(move || {
                    // A panic of one stops them all, so that it is reported.
                    let _stop = Stop(stop, Some(&figures.since));
                    while !stop.load(Ordering::Relaxed) {
                        let now = begun.elapsed().as_millis() as u64;
                        figures.since.store(now + 1, Ordering::Relaxed);
                        turn(path, figures);
                        figures.turns.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                let _stop = Stop(&stop, None);
                // Until each of them has had a turn.
                let had = || turns().zip(&before).all(|(now, before)| now > *before);
                let hangs = || begun.elapsed() > each + WATCHDOG;
                while (begun.elapsed() < each || !had())
                    && !hangs()
                    && !stop.load(Ordering::Relaxed)
                {
                    spoiler.step().unwrap();
                }
                stop.store(true, Ordering::Relaxed);
                // A hang cannot be caught where it happens.
                while figures.values().any(|one| one.since.load(Ordering::Relaxed) != 0) {
                    std::thread::sleep(Duration::from_millis(1));
                    if hangs() {
                        let hangs = figures
                            .iter()
                            .filter(|(_, one)| one.since.load(Ordering::Relaxed) != 0);
                        eprintln!("hang: {:?}", hangs.map(|(name, _)| name).collect::<Vec<_>>());
                        std::process::abort();
                    }
                }
            });
        });
        all.lock().unwrap().push(format!(
            "{kind}: {} changes of {} rings, {} truncations",
            spoiler.steps, spoiler.rings, spoiler.cuts
        ));
    }
    all.lock().unwrap().iter().for_each(|line| println!("{line}"));
    for (name, of) in &figures {
        let [turns, items, corrupt, cut, refused] =
            [&of.turns, &of.items, &of.corrupt, &of.cut, &of.refused]
                .map(|count| count.load(Ordering::Relaxed));
        println!(
            "{name}: {turns} turns, {items} items, {corrupt} corrupt, {cut} truncated, {refused} refused"
        );
        assert!(turns > 0, "{name} never finished a turn");
    }
    let most = most_memory();
    println!("{} MiB at most", most >> 20);
    assert!(most < MEMORY, "{most} bytes");
}

/// Stops the others, also when this one fails.
struct Stop<'a>(&'a AtomicBool, Option<&'a AtomicU64>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
        if let Some(since) = self.1 {
            since.store(0, Ordering::Relaxed);
        }
    }
}
