//! Four producer processes that publish into one ring by all methods at once, and are killed,
//! stopped and started again at random, for some seconds in each policy.
//!
//! `PERFRING_STORM_SECONDS=3600 cargo test --release -p perfring-tests --test between shared_storm:: --
//! --nocapture` is the long run. `PERFRING_STORM_SEED` repeats a printed seed; the timing of the
//! processes still depends on the machine.
//!
//! An incarnation numbers its records and notes how many it has committed. All that it noted must
//! be read, once, whole, in order; its last record before a death may be present or not.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use perfring_consumer::{Cause, Consumer, Item, Lost, Observer, Policy, Start};
use perfring_producer::{Options, SharedProducer, files::create};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{WATCHDOG, Watchdog};
use perfring_tests::shared::{Raw, balance, reporter, said};
use perfring_tests::{NUMBERED, actor, ring_dir};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PRODUCERS: usize = 4;
/// The most that one producer has open at a time.
const OPEN_MAX: u64 = 2;
/// The most records of one call that was interrupted, all committed and not noted.
const CALL_MAX: u64 = 18;

/// The records that were read from one incarnation.
#[derive(Debug, Default)]
struct Seen {
    next: u64,
    records: u64,
    /// Where numbers are missing: from, and up to.
    gaps: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Checker {
    seen: HashMap<u64, Seen>,
    records: u64,
    reported: u64,
    lapped: u64,
    gaps_matter: bool,
}

impl Checker {
    fn note(&mut self, item: Item<'_>) {
        match item {
            Item::Record(record) => {
                let (who, seq) = reporter(record.bytes);
                let seen = self.seen.entry(who).or_default();
                assert!(seq >= seen.next, "{who} {seq} after {}: read twice", seen.next);
                if seq > seen.next && self.gaps_matter {
                    seen.gaps.push((seen.next, seq));
                }
                seen.next = seq + 1;
                seen.records += 1;
                self.records += 1;
            }
            Item::Lost(Lost { cause: Cause::Lapped, records, .. }) => self.lapped += records,
            Item::Lost(lost) => self.reported += lost.records,
        }
    }
}

/// One incarnation of a producer.
struct Incarnation {
    child: Child,
    who: u64,
    log: PathBuf,
    stopped: bool,
}

impl Incarnation {
    fn start(dir: &Path, ring: &Path, who: u64, seed: u64) -> Self {
        let log = dir.join(format!("log-{who}"));
        std::fs::write(&log, [0; 16]).unwrap();
        let name = log.to_string_lossy().into_owned();
        let args = ["storm", &who.to_string(), &seed.to_string(), &name];
        let mut command = actor(env!("CARGO_BIN_EXE_sharer"), &args, ring);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Incarnation { child, who, log, stopped: false }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn stop(&mut self) {
        if !self.stopped {
            kill(self.pid(), Signal::SIGSTOP).unwrap();
            match waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap() {
                WaitStatus::Stopped(..) => self.stopped = true,
                other => panic!("a producer ended by itself: {other:?}"),
            }
        }
    }

    fn go_on(&mut self) {
        if self.stopped {
            kill(self.pid(), Signal::SIGCONT).unwrap();
            self.stopped = false;
        }
    }

    /// Returns the number that it has noted as committed. It is dead, or has ended.
    fn noted(&self) -> u64 {
        let log = std::fs::read(&self.log).unwrap();
        std::fs::remove_file(&self.log).unwrap();
        u64::from_ne_bytes(log[..8].try_into().unwrap())
    }

    /// Returns its slot, if it has stored its owner info in one.
    fn slot(&self, raw: &Raw) -> Option<u32> {
        let (control, slots) = (raw.field("control_offset") as usize, 64);
        (0..slots).find(|slot| {
            let at = control + 1024 * *slot as usize + 16;
            raw.bytes[at..at + 4] == self.child.id().to_ne_bytes()
        })
    }
}

impl Drop for Incarnation {
    fn drop(&mut self) {
        // After a failed test: nothing is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Default)]
struct Toll {
    deaths: u64,
    stops: u64,
    /// Deaths with the ring's lock.
    locked: u64,
    /// Reservations that were open at deaths while all others were stopped.
    open: u64,
    /// Deaths while the others ran.
    running: u64,
}

fn seconds() -> Duration {
    let text = std::env::var("PERFRING_STORM_SECONDS").ok();
    Duration::from_secs(text.and_then(|text| text.parse().ok()).unwrap_or(8))
}

fn seed() -> u64 {
    let text = std::env::var("PERFRING_STORM_SEED").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap_or_default().as_nanos() as u64
    })
}

/// Marks the storm as over, also if it ends by a failure.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Reads until the storm is over and nothing is left.
fn read_all(
    over: &AtomicBool,
    mut checker: Checker,
    mut turn: impl FnMut(&mut Checker) -> bool,
) -> Checker {
    loop {
        // In this order: every record from before the end is read.
        let last = over.load(Ordering::SeqCst);
        if !turn(&mut checker) && last {
            return checker;
        }
    }
}

fn storm(policy: Policy, aux_size: u64) {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let size = if policy == Policy::Drop { 64 << 10 } else { 1 << 20 };
    create(&ring, &Options { size, policy, aux_size, ..Options::many() }).unwrap();
    // Large payloads half the time; then a producer is seldom met under the lock.
    let large = aux_size > 0;
    let (seed, limit) = (seed(), if large { seconds() / 2 } else { seconds() });
    println!("{}: seed {seed}", policy.name());
    let mut rng = Rng::new(seed);
    let over = AtomicBool::new(false);
    let mut noted: HashMap<u64, u64> = HashMap::new();
    let mut toll = Toll::default();
    let checker = std::thread::scope(|scope| {
        let (path, over) = (&ring, &over);
        let ends = Ends(over);
        let checker = Checker { gaps_matter: policy == Policy::Drop, ..Checker::default() };
        // Before there are producers: records that are overwritten before an observer begins are not its losses.
        let reader = match policy {
            Policy::Drop => {
                let mut consumer = Consumer::attach(path).unwrap();
                scope.spawn(move || {
                    read_all(over, checker, |checker| {
                        let found = consumer.wait(Duration::from_millis(50));
                        while let Some(item) = consumer.read().unwrap() {
                            checker.note(item);
                        }
                        found
                    })
                })
            }
            Policy::Overwrite => {
                let mut observer = Observer::attach(path, Start::Oldest).unwrap();
                scope.spawn(move || {
                    read_all(over, checker, |checker| {
                        let found = observer.wait(Duration::from_millis(50));
                        while let Some(item) = observer.read().unwrap() {
                            checker.note(item);
                        }
                        found
                    })
                })
            }
        };
        let mut who = 0;
        let mut next = |rng: &mut Rng| {
            who += 1;
            Incarnation::start(dir.path(), &ring, who, rng.below(u64::MAX >> 33))
        };
        let mut producers: Vec<_> = (0..PRODUCERS).map(|_| next(&mut rng)).collect();
        let (file, mut raw) = (File::open(&ring).unwrap(), Raw::read(&ring));
        let (since, dog) = (Instant::now(), Watchdog::default());
        // Until everything required has happened, too.
        let enough = |toll: &Toll| {
            let all =
                toll.locked.max(large.into()).min(toll.open).min(toll.running).min(toll.stops) > 0;
            dog.check(format!("a stop, and deaths of each kind: {toll:?}"));
            all && since.elapsed() >= limit
        };
        while !enough(&toll) && !reader.is_finished() {
            std::thread::sleep(Duration::from_micros(500 + rng.below(8000)));
            let mut at = rng.below(PRODUCERS as u64) as usize;
            match rng.below(8) {
                // Stopped for a while; some continue when another producer is handled.
                0 | 1 => {
                    toll.stops += 1;
                    producers[at].stop();
                    std::thread::sleep(Duration::from_micros(rng.below(15_000)));
                    if rng.below(4) > 0 {
                        producers[at].go_on();
                    }
                    continue;
                }
                // The others run on.
                2 | 3 => {
                    toll.running += 1;
                    producers[at].child.kill().unwrap();
                }
                // All are stopped: the state after the death is known exactly.
                _ => {
                    producers.iter_mut().for_each(Incarnation::stop);
                    raw.again(&file);
                    // Preferably a producer that has the lock, or an open reservation.
                    let slots: Vec<_> = producers.iter().map(|one| one.slot(&raw)).collect();
                    let holds =
                        slots.iter().position(|slot| slot.is_some() && *slot == raw.locked_by());
                    let open = |slot: &Option<u32>| slot.map_or(0, |slot| raw.open(slot));
                    at = holds
                        .or_else(|| slots.iter().position(|slot| open(slot) > 0))
                        .unwrap_or(at);
                    toll.locked += u64::from(holds.is_some());
                    toll.open += open(&slots[at]);
                    producers[at].child.kill().unwrap();
                }
            }
            toll.deaths += 1;
            producers[at].child.wait().unwrap();
            noted.insert(producers[at].who, producers[at].noted());
            producers[at] = next(&mut rng);
            producers.iter_mut().for_each(Incarnation::go_on);
        }
        // The ring continues: the last four end by themselves, and one more attaches.
        for producer in &mut producers {
            producer.go_on();
            let log = File::options().write(true).open(&producer.log).unwrap();
            log.write_all_at(&1u64.to_ne_bytes(), 8).unwrap();
        }
        for producer in &mut producers {
            let status = producer.child.wait().unwrap();
            assert!(status.success(), "a producer failed: {status}");
            noted.insert(producer.who, producer.noted());
        }
        // No process may be left that would end the reservations of the last dead producer.
        perfring_consumer::files::recover(&ring).unwrap();
        let last = SharedProducer::attach(&ring).unwrap();
        last.publish_timeout(NUMBERED, &said(who + 1, 0, 8), WATCHDOG).unwrap();
        noted.insert(who + 1, 1);
        drop(last);
        drop(ends);
        reader.join().unwrap()
    });

    let stat = balance(&ring, false);
    let totals = stat.totals.unwrap();
    let p = totals.producer;
    println!(
        "{}: {} records of {} incarnations read, {} overwritten unread, {} refused, {} reported; {} deaths \
         ({} under the lock), {} stops; {} reclaimed",
        policy.name(),
        checker.records,
        noted.len(),
        checker.lapped,
        p.refused.total().records,
        checker.reported,
        toll.deaths,
        toll.locked,
        toll.stops,
        p.reclaimed.records,
    );
    assert_eq!(checker.records + checker.lapped, p.written.records);
    let all: u64 = noted.values().sum();
    assert!(all <= p.written.records, "{all} noted");
    assert!(p.written.records <= all + CALL_MAX * toll.deaths);
    for (who, noted) in &noted {
        let seen = checker.seen.get(who);
        match policy {
            Policy::Drop => {
                assert!(seen.map_or(0, |seen| seen.next) >= *noted, "{who}: {noted} {seen:?}");
                let gaps = seen.into_iter().flat_map(|seen| &seen.gaps);
                for (from, to) in gaps {
                    assert!(from >= noted, "{who}: {from} to {to} is missing of {noted}");
                }
            }
            Policy::Overwrite => {
                let missing = noted.saturating_sub(seen.map_or(0, |seen| seen.records));
                assert!(missing <= checker.lapped, "{who}: {missing} are missing");
            }
        }
    }
    assert_eq!(noted.get(checker.seen.keys().max().unwrap()), Some(&1), "the last one");
    assert_eq!(checker.reported, p.refused.total().records, "each is told once");
    // Exactly the open reservations, where they could be seen.
    assert!(p.reclaimed.records >= toll.open, "{toll:?}");
    assert!(p.reclaimed.records <= toll.open + OPEN_MAX * toll.running, "{toll:?}");
    assert!(toll.open > 0 && toll.running > 0 && toll.stops > 0, "{toll:?}");
    assert!(large || toll.locked > 0, "no producer died under the lock: {toll:?}");
}

#[test]
fn nothing_that_was_committed_is_lost_in_a_storm_on_a_drop_ring() {
    storm(Policy::Drop, 0);
}

#[test]
fn nothing_that_was_committed_is_lost_in_a_storm_on_an_overwrite_ring() {
    storm(Policy::Overwrite, 0);
}

#[test]
fn nothing_that_was_committed_is_lost_in_a_storm_of_large_payloads_on_a_drop_ring() {
    storm(Policy::Drop, 1 << 20);
}

#[test]
fn nothing_that_was_committed_is_lost_in_a_storm_of_large_payloads_on_an_overwrite_ring() {
    storm(Policy::Overwrite, 1 << 20);
}
