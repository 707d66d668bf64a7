//! Many processes publish into a set of rings per CPU by all methods at once, from threads and signal
//! handlers, while they are moved between CPUs, stopped and killed at random, fork, and die with open
//! reservations. A consumer for each ring reads.
//!
//! The storm ends after a number of calls, with `PERFRING_LONG` after more of them, by more processes.
//! `PERFRING_SEED` repeats a printed seed; the timing of the processes still depends on the machine.
//!
//! Each process notes which of its records were accepted. Each accepted record must be read, once and whole; no refused
//! record; and a record that was being published at a death at most once.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perfring_consumer::{Cause, Consumer, Item, Policy, ReadError, files::recover, stat::Stat};
use perfring_producer::{CpuProducer, Options};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::cases;
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::shared::{Raw, balance, reporter, said};
use perfring_tests::{NUMBERED, actor, ring_dir};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// As in `cpuer`: bytes of its log.
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 2;
/// Where the log of the signal handler begins, and by how much higher a number it publishes.
const LOG_HALF: usize = 1 << 14;
const HANDLERS: u64 = 1 << 20;
/// Calls of one process.
const CALLS: u64 = 2000;
/// The producer after the storm.
const LAST: u64 = 1 << 21;

/// One process. It has a line on the common pipe after every few calls.
struct Process {
    child: Child,
    stopped: bool,
}

impl Process {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After a failed test: nothing is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Storm {
    dir: PathBuf,
    cpus: Vec<usize>,
    rng: Rng,
    pipe: PipeWriter,
    alive: BTreeMap<u64, Process>,
    started: u64,
    most: u64,
    deaths: u64,
    stops: u64,
    moves: u64,
}

impl Storm {
    fn start(&mut self) {
        if self.started == self.most {
            return;
        }
        self.started += 1;
        let who = self.started;
        let log = log_of(&self.dir, who);
        std::fs::write(&log, vec![0; 2 * LOG_HALF]).unwrap();
        let (seed, calls) = (self.rng.below(u64::MAX >> 2).to_string(), CALLS.to_string());
        let args = ["storm", &who.to_string(), &seed, &calls, log.to_str().unwrap()];
        let mut command = actor(env!("CARGO_BIN_EXE_cpuer"), &args, &self.dir.join("set"));
        let child =
            command.stdin(Stdio::null()).stdout(self.pipe.try_clone().unwrap()).spawn().unwrap();
        self.alive.insert(who, Process { child, stopped: false });
    }

    fn any(&mut self) -> u64 {
        let nth = self.rng.index(self.alive.len());
        *self.alive.keys().nth(nth).unwrap()
    }

    /// Does something to one process, and continues others.
    fn interfere(&mut self) {
        let who = self.any();
        let stopped = self.alive.values().filter(|process| process.stopped).count();
        match self.rng.below(60) {
            0 => {
                self.alive.remove(&who).unwrap().child.kill().unwrap();
                self.deaths += 1;
                self.start();
            }
            1..=6 if stopped < self.alive.len() / 3 => {
                let process = self.alive.get_mut(&who).unwrap();
                process.signal(Signal::SIGSTOP);
                process.stopped = true;
                self.stops += 1;
            }
            7..=20 => {
                let mut only = CpuSet::new();
                only.set(self.cpus[self.rng.index(self.cpus.len())]).unwrap();
                let pid = Pid::from_raw(self.alive[&who].child.id() as i32);
                sched_setaffinity(pid, &only).unwrap();
                self.moves += 1;
            }
            21..=44 => self.go_on(false),
            _ => {}
        }
    }

    /// Continues a stopped process, or all of them.
    fn go_on(&mut self, all: bool) {
        let stopped = self.alive.values_mut().filter(|process| process.stopped);
        for process in stopped.take(if all { usize::MAX } else { 1 }) {
            process.signal(Signal::SIGCONT);
            process.stopped = false;
        }
    }

    fn run(&mut self, lines: impl Iterator<Item = String>, at_once: u64) {
        (0..at_once).for_each(|_| self.start());
        for line in lines {
            let (what, who) = line.split_once(' ').unwrap();
            let who: u64 = who.parse().unwrap();
            if what == "end" {
                // A process that was killed since has said so before.
                if let Some(mut process) = self.alive.remove(&who) {
                    process.signal(Signal::SIGCONT);
                    let status = process.child.wait().unwrap();
                    assert!(status.success(), "{who}: {status}");
                    self.start();
                }
            }
            if self.alive.is_empty() {
                return;
            }
            self.interfere();
            if self.alive.values().all(|process| process.stopped) {
                self.go_on(true);
            }
            if self.alive.is_empty() {
                return;
            }
        }
    }
}

fn log_of(dir: &Path, who: u64) -> PathBuf {
    dir.join(format!("log-{who}"))
}

/// The records that one reader has read: by producer, the numbers in the ring's order.
#[derive(Default)]
struct Seen {
    of: BTreeMap<u64, Vec<u64>>,
    records: u64,
    reported: u64,
    lapped: u64,
}

impl Seen {
    fn read(&mut self, ring: &Path, consumer: &mut Consumer) {
        while let Some(item) = consumer.read().unwrap_or_else(|error| damaged(ring, &error)) {
            match item {
                Item::Record(record) => {
                    let (who, seq) = reporter(record.bytes);
                    self.of.entry(who).or_default().push(seq);
                    self.records += 1;
                }
                Item::Lost(lost) if lost.cause == Cause::Lapped => self.lapped += lost.records,
                Item::Lost(lost) => self.reported += lost.records,
            }
        }
    }
}

/// Fails with the positions of a damaged ring.
fn damaged(ring: &Path, error: &ReadError) -> ! {
    let raw = Raw::read(ring);
    let fields = ["producer_pos", "shared_lock", "cpu_state", "cpu_limit", "cpu_count"];
    let fields = fields.map(|name| format!("{name} {:#x}", raw.field(name)));
    panic!("{error}: head {:#x}, tail {:#x}, {fields:?}", raw.head(), raw.tail());
}

/// Marks the storm as over, also if it ends by a failure.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn storm(policy: Policy) {
    let dir = ring_dir();
    let set = dir.path().join("set");
    let may = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpus: Vec<usize> =
        (0..CpuSet::count()).filter(|cpu| may.is_set(*cpu).unwrap_or(false)).collect();
    let at_once = cases(12, 64);
    let size = if policy == Policy::Drop { 64 << 10 } else { 256 << 10 };
    let options = Options { size, policy, slots: 256, ..Options::per_cpu() };
    let last = CpuProducer::create(&set, &options).unwrap();
    for &cpu in &cpus {
        last.attach_to(cpu as u32).unwrap();
    }
    let rings: Vec<PathBuf> = cpus.iter().map(|cpu| set.join(format!("cpu{cpu}"))).collect();
    let over = AtomicBool::new(false);
    let (from, pipe) = std::io::pipe().unwrap();
    let mut storm = Storm {
        dir: dir.path().to_owned(),
        cpus: cpus.clone(),
        rng: Rng::from_env(),
        pipe,
        alive: BTreeMap::new(),
        started: 0,
        most: at_once * cases(20, 40),
        deaths: 0,
        stops: 0,
        moves: 0,
    };
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let ends = Ends(&over);
        let readers: Vec<_> = rings
            .iter()
            .map(|ring| {
                let (over, mut consumer) = (&over, Consumer::attach(ring).unwrap());
                scope.spawn(move || {
                    let mut seen = Seen::default();
                    loop {
                        // In this order: every record from before the end is read.
                        let last = over.load(Ordering::SeqCst);
                        consumer.wait(Duration::from_millis(50));
                        seen.read(ring, &mut consumer);
                        if last {
                            return seen;
                        }
                    }
                })
            })
            .collect();
        let lines = BufReader::new(from);
        let (to, from) = mpsc::channel();
        scope.spawn(move || {
            // To the end: children that outlive a killed parent have the pipe too.
            lines.lines().for_each(|line| _ = to.send(line.unwrap()));
        });
        let next = || from.recv_timeout(WATCHDOG).expect("no process says anything");
        storm.run(std::iter::repeat_with(next), at_once);
        let (started, figures) = (storm.started, (storm.deaths, storm.stops, storm.moves));
        drop(storm);
        while from.recv_timeout(WATCHDOG) != Err(RecvTimeoutError::Disconnected) {}
        println!("{started} processes, {figures:?} deaths, stops and moves");
        for (ring, &cpu) in rings.iter().zip(&cpus) {
            let left = recover(ring).unwrap();
            println!("{ring:?}: at the end {left:?}");
            let mut only = CpuSet::new();
            only.set(cpu).unwrap();
            sched_setaffinity(Pid::from_raw(0), &only).unwrap();
            last.publish_timeout(NUMBERED, &said(LAST, cpu as u64, 40), WATCHDOG).unwrap();
        }
        drop(ends);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });

    check(policy, &rings, &seen, dir.path());
    for &cpu in &cpus {
        let found = seen.iter().flat_map(|seen| &seen.of[&LAST]).filter(|seq| **seq == cpu as u64);
        assert_eq!(found.count(), 1);
    }
}

fn check(policy: Policy, rings: &[PathBuf], seen: &[Seen], dir: &Path) {
    let mut times: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    let mut lapped = 0;
    for (ring, seen) in rings.iter().zip(seen) {
        let stat = balance(ring, false);
        let p = stat.totals.unwrap().producer;
        assert_eq!(p.written.records, seen.records + seen.lapped, "{ring:?}");
        println!(
            "{}: {} read, {} overwritten unread, {} refused, {} of them reported, {} reclaimed",
            ring.display(),
            seen.records,
            seen.lapped,
            p.refused.total().records,
            seen.reported,
            p.reclaimed.records
        );
        if policy == Policy::Drop {
            assert_eq!(seen.reported, p.refused.total().records, "each is told once");
            assert_eq!(Stat::read(ring).unwrap().totals.unwrap().present.records, 0);
        }
        lapped += seen.lapped;
        for (who, seqs) in &seen.of {
            // A handler runs in two threads at once.
            assert!(*who > HANDLERS || seqs.is_sorted_by(|a, b| a < b), "{who} is out of order");
            for seq in seqs {
                *times.entry((*who, *seq)).or_default() += 1;
            }
        }
    }
    assert!(times.values().all(|times| *times == 1), "read twice: {:?}", {
        times.retain(|_, times| *times > 1);
        times
    });
    let (mut accepted, mut refused, mut missing, mut in_between) = (0, 0, 0, 0);
    for who in 1.. {
        let Ok(log) = std::fs::read(log_of(dir, who)) else { break };
        for (at, noted) in log.iter().enumerate() {
            let entry = match at < LOG_HALF {
                true => (who, at as u64),
                false => (who + HANDLERS, (at - LOG_HALF) as u64),
            };
            let there = times.contains_key(&entry);
            match *noted {
                ACCEPTED if there => accepted += 1,
                ACCEPTED => missing += 1,
                REFUSED => {
                    refused += 1;
                    assert!(!there, "{entry:?} was refused, and read");
                }
                _ => in_between += u64::from(there),
            }
        }
    }
    println!("{accepted} accepted, {refused} refused, {in_between} published and not noted");
    assert!(missing <= lapped, "{missing} accepted records were never read");
}

#[test]
fn what_was_accepted_in_a_storm_on_drop_rings_is_read_once() {
    storm(Policy::Drop);
}

#[test]
fn what_was_accepted_in_a_storm_on_overwrite_rings_is_read_once_or_counted() {
    storm(Policy::Overwrite);
}
