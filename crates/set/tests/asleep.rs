//! A merge in which no item waits sleeps on all its rings at once, and looks at none of them until one wakes it: by
//! `futex_waitv(2)` on up to 128 rings, by an io_uring on more.

use perfring_abi::Header;
use perfring_consumer::advanced::{ManyWaits, until_tick};
use perfring_consumer::{Cause, Consumer, Item, Observer, Start};
use perfring_producer::{Options, Producer, RecordType, SharedProducer};
use perfring_set::{FullestFirst, Merge, SourceId};
use perfring_testkit::wait::{WATCHDOG, Watchdog, until};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(1);
/// Long enough for thousands of polls by the schedule, and for less than three ticks.
const QUIET: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 200;

struct Rings {
    _dir: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Rings {
    fn new(count: usize) -> (Self, Vec<Producer>) {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..count).map(|at| dir.path().join(at.to_string())).collect();
        let options = Options { size: 4096, time: true, ..Options::default() };
        let producers = paths.iter().map(|path| Producer::create(path, &options).unwrap());
        let producers = producers.collect();
        (Rings { _dir: dir, paths }, producers)
    }

    fn merge(&self) -> (Merge, Vec<SourceId>) {
        let mut merge = Merge::new(DELAY).unwrap();
        let add = |path: &PathBuf| merge.add(Box::new(Consumer::attach(path).unwrap()));
        let ids = self.paths.iter().map(add).collect();
        (merge, ids)
    }
}

/// Returns whether the ring's consumer has asked for a wake: `wait_armed`.
fn is_armed(path: &Path) -> bool {
    let mut word = [0; 4];
    let armed = offset_of!(Header, wait.armed) as u64;
    File::open(path).unwrap().read_exact_at(&mut word, armed).unwrap();
    word != [0; 4]
}

/// Rounds of a publish that must wake a sleeper, one at a time. A sleeper that nobody wakes wakes at the next tick.
/// So a round that ends before the tick was ended by the wake. A busy machine delays few rounds beyond it.
struct Rounds {
    ticks: Receiver<Instant>,
    ended: Sender<()>,
    /// Rounds that a tick may have ended.
    late: usize,
}

/// The publisher's side.
struct Publisher {
    ticks: Sender<Instant>,
    ended: Receiver<()>,
}

impl Rounds {
    fn new() -> (Self, Publisher) {
        let ((say_tick, ticks), (ended, has_ended)) = (channel(), channel());
        (Rounds { ticks, ended, late: 0 }, Publisher { ticks: say_tick, ended: has_ended })
    }

    /// To be called when the sleeper has the round's record.
    fn end(&mut self) {
        self.late += usize::from(Instant::now() >= self.ticks.recv().unwrap());
        self.ended.send(()).unwrap();
    }

    fn check(&self, rounds: usize) {
        println!("{rounds} wakes, of which a tick may have been {}", self.late);
        assert!(self.late < rounds / 2, "a tick ended {} of {rounds} rounds", self.late);
    }
}

impl Publisher {
    /// Publishes once the sleeper is asleep and the next tick is far, and waits for the round's end.
    fn round(&self, mut is_asleep: impl FnMut() -> bool, publish: impl FnOnce()) {
        until("a sleeper, early in a second", || {
            until_tick(false) > Duration::from_millis(500) && is_asleep()
        });
        self.ticks.send(Instant::now().checked_add(until_tick(false)).unwrap()).unwrap();
        publish();
        self.ended.recv().unwrap();
    }
}

fn next(merge: &mut Merge) -> Option<(SourceId, Vec<u8>)> {
    let merged = merge.next().unwrap()?;
    let Item::Record(record) = merged.item else { panic!("{:?}", merged.item) };
    let (source, bytes) = (merged.source, record.bytes.to_vec());
    let resume_point = merge.resume_point(source).unwrap();
    merge.release(source, &resume_point);
    Some((source, bytes))
}

fn wait_for_one(merge: &mut Merge) -> (SourceId, Vec<u8>) {
    let dog = Watchdog::default();
    loop {
        if let Some(found) = next(merge) {
            return found;
        }
        dog.check("a record");
        merge.wait(WATCHDOG);
    }
}

/// More than fit into one `futex_waitv`, if an io_uring can be had.
fn counts() -> Vec<usize> {
    match ManyWaits::new() {
        Ok(_) => vec![1, 128, 129, 300],
        Err(error) => {
            println!(
                "SKIPPED: sleeping on more than 128 rings: no io_uring that waits for futexes ({error})"
            );
            vec![1, 128]
        }
    }
}

#[test]
fn nothing_is_polled_while_all_rings_are_idle() {
    for count in counts() {
        let (rings, _producers) = Rings::new(count);
        let (mut merge, _) = rings.merge();
        assert!(!merge.wait(Duration::from_millis(50)), "a first sleep, for the requests");
        let before = merge.figures().polls;
        let since = Instant::now();
        while since.elapsed() < QUIET {
            assert!(!merge.wait(QUIET / 10));
            assert!(next(&mut merge).is_none());
        }
        let rounds = (merge.figures().polls - before) / count as u64;
        println!("{count} rings: each was polled {rounds} times in {QUIET:?}");
        // After each of the ten waits and at two or three ticks, some twice.
        assert!(rounds <= 50, "{rounds} polls of each of {count} rings");
    }
}

#[test]
fn each_publish_wakes_the_sleeper() {
    for count in counts() {
        let (rings, mut producers) = Rings::new(count);
        let (mut merge, ids) = rings.merge();
        let paths = &rings.paths;
        std::thread::scope(|scope| {
            let (mut rounds, publisher) = Rounds::new();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let publish =
                        || producers[round * 7 % count].publish(&round.to_ne_bytes()).unwrap();
                    publisher.round(|| paths.iter().all(|path| is_armed(path)), publish);
                }
            });
            for round in 0..ROUNDS {
                let (source, bytes) = wait_for_one(&mut merge);
                assert_eq!((source, bytes), (ids[round * 7 % count], round.to_ne_bytes().to_vec()));
                rounds.end();
            }
            print!("{count} rings: ");
            rounds.check(ROUNDS);
        });
    }
}

#[test]
fn sources_come_and_go_in_a_merge_that_is_asleep() {
    for count in counts() {
        let (rings, mut producers) = Rings::new(count + 1);
        let mut merge = Merge::new(DELAY).unwrap();
        let ids: Vec<SourceId> = rings.paths[..count]
            .iter()
            .map(|path| merge.add(Box::new(Consumer::attach(path).unwrap())))
            .collect();
        assert!(!merge.wait(Duration::from_millis(50)));
        // One that has a record already.
        producers[count].publish(b"new").unwrap();
        let new = merge.add(Box::new(Consumer::attach(&rings.paths[count]).unwrap()));
        assert_eq!(wait_for_one(&mut merge), (new, b"new".to_vec()));
        assert!(!merge.wait(Duration::from_millis(50)));
        // One that is asleep leaves no request behind, and the next of its place has its own.
        drop(merge.remove(ids[0]).unwrap());
        assert!(!is_armed(&rings.paths[0]));
        let again = merge.add(Box::new(Consumer::attach(&rings.paths[0]).unwrap()));
        assert!(!merge.wait(Duration::from_millis(50)));
        for at in [0, count] {
            producers[at].publish(b"again").unwrap();
            let from = if at == 0 { again } else { new };
            assert_eq!(wait_for_one(&mut merge), (from, b"again".to_vec()));
        }
    }
}

#[test]
fn an_observer_among_the_sources_is_polled_and_so_are_all() {
    let (rings, mut producers) = Rings::new(3);
    let mut merge = Merge::new(DELAY).unwrap();
    let consumer = merge.add(Box::new(Consumer::attach(&rings.paths[0]).unwrap()));
    let observer = merge.add(Box::new(Observer::attach(&rings.paths[1], Start::Oldest).unwrap()));
    let ((mut rounds, publisher), count) = (Rounds::new(), 20);
    std::thread::scope(|scope| {
        let of = &mut producers;
        scope.spawn(move || {
            for round in 0..count {
                publisher.round(|| true, || of[round % 2].publish(&[round as u8]).unwrap());
            }
        });
        for round in 0..count {
            let from = [consumer, observer][round % 2];
            assert_eq!(wait_for_one(&mut merge), (from, vec![round as u8]));
            rounds.end();
        }
        rounds.check(count);
    });
    // Once it is gone there is no more reason for that.
    drop(merge.remove(observer));
    assert!(!merge.wait(Duration::from_millis(50)));
    let before = merge.figures().polls;
    assert!(!merge.wait(QUIET));
    assert!(merge.figures().polls - before <= 8);
}

#[test]
fn a_ring_behind_an_open_reservation_is_looked_after() {
    for count in counts() {
        let (rings, _producers) = Rings::new(count - 1);
        let (mut merge, _) = rings.merge();
        let path = rings._dir.path().join("shared");
        let options = Options { size: 4096, time: true, ..Options::default() };
        let (slow, quick) = (
            SharedProducer::create(&path, &options).unwrap(),
            SharedProducer::attach(&path).unwrap(),
        );
        let shared = merge.add(Box::new(Consumer::attach(&path).unwrap()));
        assert!(!merge.wait(Duration::from_millis(50)));
        for _ in 0..3 {
            let mut first = slow.reserve(RecordType::BYTES, 5).unwrap();
            quick.publish(b"second").unwrap();
            assert!(!merge.wait(Duration::from_millis(50)), "nothing can be read yet");
            first.copy_from_slice(b"first");
            first.commit();
            assert_eq!(wait_for_one(&mut merge), (shared, b"first".to_vec()));
            assert_eq!(wait_for_one(&mut merge), (shared, b"second".to_vec()));
        }
        // A hole is nothing to wake up for, again and again.
        drop(slow.reserve(RecordType::BYTES, 5).unwrap());
        let before = merge.figures().polls;
        assert!(!merge.wait(Duration::from_millis(300)));
        let rounds = (merge.figures().polls - before) / count as u64;
        assert!(rounds < 100, "{rounds} polls of each of {count} rings");
    }
}

#[test]
fn the_fullest_ring_first_sleeps_too() {
    let (rings, mut producers) = Rings::new(5);
    let mut fullest = FullestFirst::new();
    for path in &rings.paths {
        fullest.add(Box::new(Consumer::attach(path).unwrap()));
    }
    let paths = &rings.paths;
    std::thread::scope(|scope| {
        let (mut rounds, publisher) = Rounds::new();
        scope.spawn(move || {
            for round in 0..ROUNDS {
                let publish = || producers[round % 5].publish(&round.to_ne_bytes()).unwrap();
                publisher.round(|| paths.iter().all(|path| is_armed(path)), publish);
            }
        });
        for round in 0..ROUNDS {
            let dog = Watchdog::default();
            let item = loop {
                dog.check("a record");
                let Some(merged) = fullest.next().unwrap() else {
                    fullest.wait(WATCHDOG);
                    continue;
                };
                let Item::Record(record) = merged.item else { panic!("{:?}", merged.item) };
                break (merged.source, record.bytes.to_vec());
            };
            assert_eq!(item.1, round.to_ne_bytes());
            let resume_point = fullest.resume_point(item.0).unwrap();
            fullest.release(item.0, &resume_point);
            rounds.end();
        }
        rounds.check(ROUNDS);
    });
}

#[test]
fn a_wake_that_is_lost_is_made_up_for_at_the_tick_and_asked_for_again() {
    for count in counts() {
        let (rings, mut producers) = Rings::new(count);
        let (mut merge, ids) = rings.merge();
        for round in 0..2u8 {
            until("all are asleep", || {
                assert!(!merge.wait(Duration::from_millis(5)));
                // Of up to 128 they are armed while it sleeps only.
                count <= 128 || rings.paths.iter().all(|path| is_armed(path))
            });
            // A producer has taken the flag, and died before it woke anybody.
            let file = File::options().write(true).open(&rings.paths[0]).unwrap();
            file.write_all_at(&[0; 4], offset_of!(Header, wait.armed) as u64).unwrap();
            producers[0].publish(&[round]).unwrap();
            assert_eq!(wait_for_one(&mut merge), (ids[0], vec![round]));
        }
    }
}

#[test]
fn a_merge_that_sleeps_learns_of_a_loss_within_a_second() {
    for count in counts() {
        let (rings, mut producers) = Rings::new(count);
        let (mut merge, ids) = rings.merge();
        let last = count - 1;
        producers[last].publish(b"a record").unwrap();
        assert_eq!(wait_for_one(&mut merge), (ids[last], b"a record".to_vec()));
        assert!(!merge.wait(3 * DELAY));
        producers[last].publish(&[0; 8192]).unwrap_err();
        let since = Instant::now();
        let dog = Watchdog::default();
        let lost = loop {
            if let Some(merged) = merge.next().unwrap() {
                let Item::Lost(lost) = merged.item else { panic!("{:?}", merged.item) };
                break (merged.source, lost.records, lost.cause);
            }
            dog.check("the loss");
            merge.wait(WATCHDOG);
        };
        println!("{count} rings: after {:?}", since.elapsed());
        assert_eq!(lost, (ids[last], 1, Cause::TooLarge));
        assert!(merge.is_drained(ids[last]) && !merge.wait(3 * DELAY), "it is told once");
        // The next record follows a marker of it, which is passed.
        let resume_point = merge.resume_point(ids[last]).unwrap();
        merge.release(ids[last], &resume_point);
        producers[last].publish(b"another").unwrap();
        assert_eq!(wait_for_one(&mut merge), (ids[last], b"another".to_vec()));
    }
}

#[test]
fn a_producer_that_is_refused_all_the_time_neither_keeps_a_merge_awake_nor_floods_it() {
    let (rings, mut producers) = Rings::new(3);
    let (mut merge, ids) = rings.merge();
    // Nothing is released.
    let (mut read, mut told, mut reports, mut refused) = (0, 0, 0, 0);
    let mut waits = 0;
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(450) {
        refused += u64::from(producers[0].publish(&[0; 100]).is_err());
        while let Some(merged) = merge.next().unwrap() {
            match merged.item {
                Item::Record(_) => read += 1,
                Item::Lost(lost) => {
                    told += lost.records;
                    reports += 1;
                }
            }
        }
        waits += 1;
        merge.wait(DELAY);
    }
    println!("{read} read, {told} of {refused} lost in {reports} reports, {waits} waits");
    // Each wait takes the time that it was given.
    assert!(reports <= 6 && waits < 600);
    assert!(told > 0);
    while !merge.is_drained(ids[0]) {
        if let Some(merged) = merge.next().unwrap() {
            let Item::Lost(lost) = merged.item else { panic!("{:?}", merged.item) };
            told += lost.records;
        }
    }
    assert_eq!(told, refused);
}
