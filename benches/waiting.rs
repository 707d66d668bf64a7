//! What a reader's wait strategy costs: records one at a time, in bursts, and a flood, for each
//! strategy. Two processes, each on a core of its own; every byte of every record is checked, and
//! none may be missing.
//!
//! The strategies take turns within each repetition. Each sample has the time of a bare cache line
//! from one core to the other before and after it, and counts as near or far only if both say so:
//! the cores of a virtual machine change their distance. Figures are medians, with the lowest and
//! the highest, and the number of samples.
//!
//! `cargo bench -p perfring-bench --bench waiting`; a word after `--` runs only the rows whose name
//! has it. `cargo test` runs it briefly, to see that it works.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use perfring_bench::cores::{Distance, Pinned, two_cores};
use perfring_bench::drive::{answer_line, ask_line, tick_ns};
use perfring_bench::program::{Args, Other, Spread};
use perfring_bench::raw::{Mapping, ticks};
use perfring_consumer::{Consumer, ConsumerOptions, Item, WaitStrategy};
use perfring_producer::{CpuProducer, Options, Producer, Producers, RecordType, SharedProducer};
use perfring_set::Merge;
use std::hint::{black_box, spin_loop};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

const STRATEGIES: [(&str, WaitStrategy); 3] = [
    ("Latency", WaitStrategy::Latency),
    ("Adaptive", WaitStrategy::Adaptive),
    ("Throughput", WaitStrategy::Throughput),
];
const SIZE: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the largest record, in words.
const WORDS: usize = 512;
/// The word after the last record.
const END: u64 = u64::MAX;

/// What a row measures.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Half of a round trip of a record and its answer, over two rings.
    PingPong,
    /// From publish to read, of so many records every ten microseconds.
    Burst(u64),
    /// Records a second, of so many bytes, with so many nanoseconds of other work after each.
    Flood { kind: &'static str, len: usize, work: u64 },
}

/// How a reader asks for records.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Api {
    ReadWait,
    DrainSpin,
    Merge,
}

fn rows() -> Vec<(String, Work, Api)> {
    let mut rows = vec![("ping-pong".into(), Work::PingPong, Api::ReadWait)];
    for many in [1, 2, 10] {
        rows.push((format!("burst of {many}"), Work::Burst(many), Api::ReadWait));
    }
    rows.push(("burst of 10, drain".into(), Work::Burst(10), Api::DrainSpin));
    let mut flood = |name: &str, kind, len, work, api| {
        rows.push((format!("flood, {name}"), Work::Flood { kind, len, work }, api));
    };
    for len in [8, 64, 1024, 4096] {
        flood(&format!("exclusive {len}, drain"), "exclusive", len, 0, Api::DrainSpin);
        flood(&format!("exclusive {len}, read"), "exclusive", len, 0, Api::ReadWait);
    }
    for work in [50, 100, 200] {
        for len in [8, 64] {
            flood(
                &format!("exclusive {len}, and {work} ns"),
                "exclusive",
                len,
                work,
                Api::DrainSpin,
            );
        }
    }
    flood("shared 64, drain", "shared", 64, 0, Api::DrainSpin);
    flood("per CPU 64, in turn", "cpu", 64, 0, Api::DrainSpin);
    flood("per CPU 64, merged", "timed cpu", 64, 0, Api::Merge);
    rows
}

fn main() {
    let args = Args::here();
    if args.all.first().is_some_and(|arg| arg == "child") {
        return child(&args.all[1..]);
    }
    let Some([here, there]) = two_cores().unwrap() else {
        return println!("SKIPPED: one core");
    };
    let _pinned = Pinned::to(here).unwrap();
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let bench = Bench { dir: dir.path().into(), there, long: args.real, ns: tick_ns() };
    println!("{:32} {:10} {:5}", "", "", "hop");
    for (name, work, api) in rows() {
        if !args.wants(&name) {
            continue;
        }
        if matches!(work, Work::Flood { kind: "cpu" | "timed cpu", .. })
            && let Err(error) = CpuProducer::create(dir.path().join(&name), &options("cpu"))
        {
            println!("SKIPPED {name}: {error}");
            continue;
        }
        bench.row(&name, work, api);
    }
}

fn options(kind: &str) -> Options {
    let producers = match kind {
        "exclusive" => Producers::One,
        "shared" => Producers::Many,
        _ => Producers::Cpu,
    };
    Options { size: SIZE, producers, time: kind.starts_with("timed"), ..Options::default() }
}

struct Bench {
    dir: PathBuf,
    there: usize,
    long: bool,
    ns: f64,
}

impl Bench {
    /// Measures a row: all strategies in turns.
    fn row(&self, name: &str, work: Work, api: Api) {
        let mut samples: Vec<(usize, Distance, f64, Vec<f64>)> = Vec::new();
        for _ in 0..if self.long { 5 } else { 1 } {
            for (nth, (_, strategy)) in STRATEGIES.iter().enumerate() {
                let (before, figures, after) = self.sample(work, api, *strategy);
                let distance = Distance::of(before, after);
                samples.push((nth, distance, before.midpoint(after), figures));
            }
        }
        for distance in [Distance::Near, Distance::Far] {
            for (nth, (strategy, _)) in STRATEGIES.iter().enumerate() {
                let of = |sample: &&(usize, Distance, f64, Vec<f64>)| {
                    (sample.0, sample.1) == (nth, distance)
                };
                let found: Vec<_> = samples.iter().filter(of).collect();
                let Some(first) = found.first() else { continue };
                let hop = Spread::of(found.iter().map(|sample| sample.2)).text(0);
                print!("{name:32} {strategy:10} {:4} {hop:20}", distance.name());
                for at in 0..first.3.len() {
                    print!(" {:26}", Spread::of(found.iter().map(|sample| sample.3[at])).text(1));
                }
                println!(" {}", found.len());
            }
        }
    }

    /// Returns the hop before, the figures, and the hop after: p50 and p99 in ns, or million
    /// records a second.
    fn sample(&self, work: Work, api: Api, strategy: WaitStrategy) -> (f64, Vec<f64>, f64) {
        let dir = tempfile::tempdir_in(&self.dir).unwrap();
        let path = |name: &str| dir.path().join(name);
        let _ = Mapping::create(&path("line"), 4096);
        let kind = if let Work::Flood { kind, .. } = work { kind } else { "exclusive" };
        match kind {
            "cpu" | "timed cpu" => {
                drop(CpuProducer::create(path("there"), &options(kind)).unwrap());
            }
            _ => perfring_producer::files::create(path("there"), &options(kind)).unwrap(),
        }
        perfring_producer::files::create(path("back"), &options("exclusive")).unwrap();
        let ms = if self.long { 60 } else { 5 };
        let (work_name, many, len, other) = match work {
            Work::PingPong => ("ping", if self.long { 100_000 } else { 100 }, 8, 0),
            Work::Burst(many) => ("burst", many, 8, 10_000),
            Work::Flood { len, work, .. } => ("flood", 0, len, work),
        };
        let numbers = [many, len as u64, other, ms].map(|number| number.to_string());
        let [dir_name, there] = [dir.path().to_str().unwrap(), &self.there.to_string()];
        let [many_arg, len, other, ms] = &numbers;
        let args = ["child", dir_name, there, work_name, kind, name_of(strategy)];
        let mut peer = Other::start(&[&args[..], &[many_arg, len, other, ms]].concat()).unwrap();
        let line = Mapping::open(&path("line"), 4096).unwrap();
        let before = self.hop(&line, 0);
        let figures = match work {
            Work::PingPong => self.ping(dir.path(), strategy, many),
            Work::Burst(_) => self.percentiles(read_all(&[path("there")], api, strategy, true)),
            Work::Flood { .. } => {
                peer.line().unwrap(); // the rings are there
                let rings = rings_of(&path("there"), kind);
                read_all(&rings, api, strategy, false);
                let said = peer.line().unwrap();
                let (records, ns) = said.split_once(' ').unwrap();
                vec![records.parse::<f64>().unwrap() / ns.parse::<f64>().unwrap() * 1e3]
            }
        };
        let after = self.hop(&line, 1);
        assert!(peer.end().unwrap());
        (before, figures, after)
    }

    /// Asks over one ring, and gets the answer over another.
    fn ping(&self, dir: &Path, strategy: WaitStrategy, trips: u64) -> Vec<f64> {
        let mut ask = Producer::attach(dir.join("there")).unwrap();
        let mut answers = attach(&dir.join("back"), strategy);
        let mut took = Vec::with_capacity(trips as usize);
        for number in 0..trips {
            let since = ticks();
            ask.publish(&number.to_ne_bytes()).unwrap();
            assert_eq!(read_one(&mut answers), number);
            took.push(ticks().wrapping_sub(since) / 2);
        }
        self.percentiles(took)
    }

    fn percentiles(&self, mut took: Vec<u64>) -> Vec<f64> {
        took.sort_unstable();
        [50, 99].map(|part| took[took.len() * part / 100] as f64 * self.ns).to_vec()
    }

    /// Returns the time of a cache line from one core to the other, ns.
    fn hop(&self, line: &Mapping, nth: usize) -> f64 {
        let mut took = Vec::new();
        ask_line(word(line, nth), 2000, |ticks| took.push(ticks / 2));
        self.percentiles(took)[0]
    }
}

/// A word of the mapping on a line of its own.
fn word(line: &Mapping, nth: usize) -> &AtomicU64 {
    &line.words()[256 + 64 * nth]
}

fn name_of(strategy: WaitStrategy) -> &'static str {
    STRATEGIES.iter().find(|(_, other)| *other == strategy).unwrap().0
}

/// The files of a ring, or of a set's rings.
fn rings_of(path: &Path, kind: &str) -> Vec<PathBuf> {
    match kind {
        "cpu" | "timed cpu" => {
            std::fs::read_dir(path).unwrap().map(|ring| ring.unwrap().path()).collect()
        }
        _ => vec![path.into()],
    }
}

fn attach(path: &Path, wait: WaitStrategy) -> Consumer {
    Consumer::attach_with(path, &ConsumerOptions { wait, ..ConsumerOptions::default() }).unwrap()
}

/// Returns the number of a record, all of whose words are checked.
#[inline(always)]
fn number_of(item: &Item<'_>) -> u64 {
    let Item::Record(record) = item else { panic!("records were lost") };
    let words: &[u64] = bytemuck::cast_slice(record.bytes);
    assert!(words.iter().all(|word| *word == words[0]), "a torn record");
    words[0]
}

#[inline(always)]
fn read_one(consumer: &mut Consumer) -> u64 {
    loop {
        if let Some(item) = consumer.read().unwrap() {
            return number_of(&item);
        }
        assert!(consumer.wait(PATIENCE), "the other process has died");
    }
}

/// Reads numbered records of all rings up to the end of each. If records are `times`, they are of
/// one ring and hold when they were published: returns how long each took.
fn read_all(rings: &[PathBuf], api: Api, strategy: WaitStrategy, times: bool) -> Vec<u64> {
    let mut consumers: Vec<Consumer> = rings.iter().map(|path| attach(path, strategy)).collect();
    let (mut took, mut next, mut ended) = (Vec::with_capacity(1 << 20), 0, false);
    let mut see = |item: &Item<'_>| {
        let number = number_of(item);
        if number == END {
            ended = true;
        } else if times {
            took.push(ticks().saturating_sub(number));
        } else {
            assert_eq!(number, next, "a record is missing");
            next += 1;
        }
        ended
    };
    match api {
        Api::Merge => {
            let mut merge = Merge::new(Duration::ZERO).unwrap();
            let add = |consumer| merge.add(Box::new(consumer));
            let ids: Vec<_> = consumers.into_iter().map(add).collect();
            let (mut all, mut end) = (0, false);
            while !end {
                match merge.next().unwrap() {
                    Some(merged) => end = see(&merged.item),
                    None => drop(merge.wait(Duration::from_millis(1))),
                }
                all += 1;
                if all % 1024 == 0 || end {
                    for id in &ids {
                        let here = merge.resume_point(*id).unwrap();
                        merge.release(*id, &here);
                    }
                }
            }
        }
        Api::ReadWait => {
            let consumer = &mut consumers[0];
            loop {
                match consumer.read().unwrap() {
                    Some(item) if see(&item) => break,
                    Some(_) => {}
                    None => assert!(consumer.wait(PATIENCE), "the other process has died"),
                }
            }
        }
        Api::DrainSpin => {
            let (mut all, mut end) = (0, false);
            while !end {
                for consumer in &mut consumers {
                    let found = consumer.drain(|item| end |= see(&item)).unwrap();
                    all += found;
                    if found == 0 && rings.len() == 1 {
                        consumer.spin(Duration::from_micros(50));
                    }
                }
            }
            black_box(all);
        }
    }
    took
}

/// The other side of [`Bench::sample`].
fn child(args: &[String]) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [dir, core, work, kind, strategy, numbers @ ..] = &args[..] else { panic!("{args:?}") };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let [many, len, other, ms] = numbers[..] else { panic!("{numbers:?}") };
    let dir = Path::new(dir);
    let _pinned = Pinned::to(core.parse().unwrap()).unwrap();
    let strategy = STRATEGIES.iter().find(|(name, _)| name == strategy).unwrap().1;
    let ticks_of = |ns: u64| (ns as f64 / tick_ns()) as u64;
    let other = if other > 0 { ticks_of(other) } else { 0 };
    let line = Mapping::open(&dir.join("line"), 4096).unwrap();
    answer_line(word(&line, 0), 2000);
    let path = dir.join("there");
    match *work {
        "ping" => {
            let mut asked = attach(&path, strategy);
            let mut answer = Producer::attach(dir.join("back")).unwrap();
            for number in 0..many {
                assert_eq!(read_one(&mut asked), number);
                answer.publish(&number.to_ne_bytes()).unwrap();
            }
        }
        "burst" => {
            let mut producer = Producer::attach(&path).unwrap();
            let mut next = ticks() + 10 * other;
            for _ in 0..ms * 100 {
                wait_until(next);
                next += other;
                for _ in 0..many {
                    producer
                        .publish_timeout(RecordType::BYTES, &ticks().to_ne_bytes(), PATIENCE)
                        .unwrap();
                }
            }
            wait_until(next);
            producer.publish_timeout(RecordType::BYTES, &END.to_ne_bytes(), PATIENCE).unwrap();
        }
        _ => {
            let (len, time) = (len as usize, Duration::from_millis(ms));
            match *kind {
                "exclusive" => {
                    let mut producer = Producer::attach(&path).unwrap();
                    flood(len, time, other, |bytes| {
                        producer.publish_timeout(RecordType::BYTES, bytes, PATIENCE).unwrap()
                    });
                }
                "shared" => {
                    let producer = SharedProducer::attach(&path).unwrap();
                    flood(len, time, other, |bytes| {
                        producer.publish_timeout(RecordType::BYTES, bytes, PATIENCE).unwrap()
                    });
                }
                _ => {
                    let producer = CpuProducer::attach(&path).unwrap();
                    flood(len, time, other, |bytes| {
                        producer.publish_timeout(RecordType::BYTES, bytes, PATIENCE).unwrap()
                    });
                }
            }
        }
    }
    answer_line(word(&line, 1), 2000);
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

fn wait_until(tick: u64) {
    while (ticks().wrapping_sub(tick) as i64) < 0 {
        spin_loop();
    }
}

/// Publishes for so long, with `other` ticks of work after each record; then says how many, and how
/// long it took.
#[inline(always)]
fn flood(len: usize, time: Duration, other: u64, mut publish: impl FnMut(&[u8])) {
    println!("ready");
    let since = Instant::now();
    let (mut number, mut words) = (0u64, [0u64; WORDS]);
    while since.elapsed() < time {
        for _ in 0..256 {
            words[..len / 8].fill(number);
            publish(black_box(&bytemuck::cast_slice(&words)[..len]));
            number += 1;
            if other > 0 {
                let from = ticks();
                while ticks().wrapping_sub(from) < other {}
            }
        }
    }
    let took = since.elapsed().as_nanos();
    words.fill(END);
    publish(&bytemuck::cast_slice(&words)[..len]);
    println!("{number} {took}");
}
