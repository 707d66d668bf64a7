//! A C reader returns every loss once: for its marker, or at the end of the stream before there is a marker.

use super::peer;
use perfring_consumer::{Cause, Consumer, Item, Observer, Policy, Start, stat::Stat};
use perfring_producer::{
    Options, Producer, Producers, Report, ReserveError, SharedProducer, files::create,
};
use perfring_testkit::image::at;
use perfring_testkit::wait::until;
use perfring_tests::foreign::{Peer, lines};
use perfring_tests::shared::Raw;
use perfring_tests::{NUMBERED, numbered, ring_dir};
use std::path::Path;

/// A loss: position, cause, records, bytes.
type Loss = (u64, Cause, u64, u64);

/// The items that a reader returned before it found nothing: the number of records, and each loss.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    records: u64,
    lost: Vec<Loss>,
}

impl Found {
    /// Reads the output of `c_peer items` or `c_peer unread`.
    fn by_c(exe: &Path, how: &str, ring: &Path) -> Self {
        let mut found = Found::default();
        for line in lines(exe, &[how], ring) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse().unwrap();
            match words[0] {
                "record" => found.records += 1,
                "lost" => {
                    let cause = Cause::from_code(number(2));
                    found.lost.push((number(1), cause, number(3), number(4)));
                }
                _ => {}
            }
        }
        found
    }

    /// Takes over an item. Returns whether there was one.
    fn add(&mut self, item: Option<Item<'_>>) -> bool {
        match item {
            Some(Item::Record(_)) => self.records += 1,
            Some(Item::Lost(l)) => self.lost.push((l.pos, l.cause, l.records, l.bytes)),
            None => return false,
        }
        true
    }

    /// Returns the items of a Rust consumer that reads at most so many items, and releases them.
    fn by_rust(ring: &Path, most: u64) -> Self {
        let mut consumer = Consumer::attach(ring).unwrap();
        let mut found = Found::default();
        for _ in 0..most {
            if !found.add(consumer.read().unwrap()) {
                break;
            }
        }
        consumer.release();
        found
    }

    fn by_rust_observer(ring: &Path) -> Self {
        let mut observer = Observer::attach(ring, Start::Oldest).unwrap();
        let mut found = Found::default();
        while found.add(observer.read().unwrap()) {}
        found
    }

    /// Returns the refused records among the losses.
    fn refused(&self) -> u64 {
        self.lost.iter().filter(|loss| loss.1 != Cause::Lapped).map(|loss| loss.2).sum()
    }
}

/// A producer of an exclusive or of a shared ring.
enum Writer {
    One(Box<Producer>),
    Many(Box<SharedProducer>),
}

impl Writer {
    fn attach(ring: &Path, producers: Producers) -> Self {
        match producers {
            Producers::One => Writer::One(Box::new(Producer::attach(ring).unwrap())),
            _ => Writer::Many(Box::new(SharedProducer::attach(ring).unwrap())),
        }
    }

    /// Publishes so many records of this length. Returns how many were refused.
    fn publish(&mut self, count: u64, len: usize) -> u64 {
        let payload = numbered(0, len);
        let refused = (0..count).map(|_| match self {
            Writer::One(producer) => producer.publish_as(NUMBERED, &payload),
            Writer::Many(producer) => producer.publish_as(NUMBERED, &payload),
        });
        refused.filter(Result::is_err).count() as u64
    }
}

const SIZE: u64 = 4096;
/// Of a payload that no ring of this size takes.
const TOO_LONG: usize = 5000;

/// A reader of either kind returns all refused records as losses before it finds nothing, whether or not their
/// producer lives, and does not return them again after a restart.
#[test]
fn a_c_reader_is_told_of_every_loss_at_its_end_and_once() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let drop_ring = Options { size: SIZE, ..Options::default() };
    for (name, options) in [
        ("drop", drop_ring),
        ("counters only", Options { report: Report::CountersOnly, ..drop_ring }),
        ("overwrite", Options { policy: Policy::Overwrite, ..drop_ring }),
        ("shared", Options { size: SIZE, ..Options::many() }),
        ("shared overwrite", Options { size: SIZE, policy: Policy::Overwrite, ..Options::many() }),
    ] {
        let ring = dir.path().join(name);
        create(&ring, &options).unwrap();
        let (mut offered, mut refused, mut read, mut told) = (0, 0, 0, 0);
        for (round, count) in [500, 0, 10, 3, 300, 1, 90].into_iter().enumerate() {
            let mut writers = [(); 2].map(|()| None);
            let most = if options.producers == Producers::One { 1 } else { 2 };
            for writer in &mut writers[..most] {
                let writer = writer.insert(Writer::attach(&ring, options.producers));
                offered += count + round as u64;
                refused += writer.publish(count, 40);
                refused += writer.publish(round as u64, TOO_LONG);
            }
            if round % 2 == 0 {
                writers = [None, None];
            }
            let observed = Found::by_c(&exe, "items", &ring);
            assert_eq!(
                observed,
                Found::by_rust_observer(&ring),
                "{name}, round {round}: observers"
            );
            let found = Found::by_c(&exe, "unread", &ring);
            (read, told) = (read + found.records, told + found.refused());
            assert_eq!(told, refused, "{name}, round {round}: {found:?}");
            let again = Found::by_c(&exe, "unread", &ring);
            assert_eq!(again, Found::default(), "{name}, round {round}: a second consumer");
            if round == 0 {
                assert_eq!(observed.refused(), refused, "{name}: an observer of a new ring");
            }
            drop(writers);
        }
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        assert_eq!(offered, totals.producer.written.records + told, "{name}");
        assert_eq!(read, totals.consumer.read.records, "{name}");
        assert_eq!(read + totals.consumer.lapped.records + told, offered, "{name}");
        println!("{name}: {offered} offered = {read} read + {told} refused + lapped");
    }
}

#[test]
fn a_marker_that_comes_later_reports_to_c_only_the_rest() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("ring");
    let producer = Producer::create(&ring, &Options { size: SIZE, ..Options::default() }).unwrap();
    let mut writer = Writer::One(Box::new(producer));
    let bytes = (TOO_LONG as u64 + 15) & !7;
    assert_eq!(writer.publish(2, TOO_LONG), 2);
    let first = Found { records: 0, lost: vec![(0, Cause::TooLarge, 2, 2 * bytes)] };
    assert_eq!(Found::by_c(&exe, "unread", &ring), first);
    // The marker of all five.
    assert_eq!(writer.publish(3, TOO_LONG), 3);
    assert_eq!(writer.publish(1, 40), 0);
    let all = Found { records: 1, lost: vec![(0, Cause::TooLarge, 5, 5 * bytes)] };
    assert_eq!(Found::by_c(&exe, "items", &ring), all, "an observer, for the first time");
    let rest = Found { records: 1, lost: vec![(0, Cause::TooLarge, 3, 3 * bytes)] };
    assert_eq!(Found::by_c(&exe, "unread", &ring), rest);
    // A marker of losses that were already returned is no item.
    assert_eq!(writer.publish(1, TOO_LONG), 1);
    assert_eq!(Found::by_c(&exe, "unread", &ring).refused(), 1);
    assert_eq!(writer.publish(1, 40), 0);
    assert_eq!(Found::by_c(&exe, "unread", &ring), Found { records: 1, lost: vec![] });
    let totals = Stat::read(&ring).unwrap().totals.unwrap();
    assert_eq!(totals.producer.reported.too_large.records, 6, "the stream has all");
}

#[test]
fn a_ring_that_rust_and_c_consume_in_turn_neither_loses_nor_doubles_a_loss() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    for policy in [Policy::Drop, Policy::Overwrite] {
        let ring = dir.path().join(policy.name());
        let options = Options { size: SIZE, policy, ..Options::default() };
        let mut writer = Writer::One(Box::new(Producer::create(&ring, &options).unwrap()));
        let (mut read, mut told, mut refused, mut handed) = (0, 0, 0, 0);
        for round in 0..24u64 {
            refused += writer.publish(round * 29 % 200, 40);
            refused += writer.publish(round % 3, TOO_LONG);
            // Some of the Rust readers leave markers and records behind.
            let (found, complete) = match round % 4 {
                0 => (Found::by_rust(&ring, u64::MAX), true),
                2 => (Found::by_rust(&ring, 5 + round), false),
                _ => (Found::by_c(&exe, "unread", &ring), true),
            };
            (read, told) = (read + found.records, told + found.refused());
            handed += u64::from(complete);
            if complete {
                assert_eq!(told, refused, "{policy:?}, round {round}: {found:?}");
            }
            assert!(told <= refused, "{policy:?}, round {round}: {found:?}");
        }
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        assert_eq!(read, totals.consumer.read.records);
        println!("{}: {told} losses told, equal to the counters {handed} times", policy.name());
        assert!(told > 0 && told == refused);
    }
}

/// No producer wakes a reader for a loss: it looks within a second.
#[test]
fn a_c_consumer_that_sleeps_learns_of_a_loss() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    for how in ["read", "poll"] {
        let ring = dir.path().join(how);
        let mut producer =
            Producer::create(&ring, &Options { size: SIZE, ..Options::default() }).unwrap();
        let mut c = Peer::start(&exe, &[how, "3"], &ring);
        assert_eq!(c.line(), "ready");
        until("the consumer to be about to sleep", || {
            let file = Raw::read(&ring).bytes;
            u32::from_ne_bytes(file[at("wait_armed")].try_into().unwrap()) == 1
        });
        for _ in 0..3 {
            let error = producer.publish_as(NUMBERED, &numbered(0, TOO_LONG)).unwrap_err();
            assert!(matches!(error, ReserveError::TooLarge { .. }), "{error}");
        }
        assert_eq!(c.end(), "read 0 lost 3 lapped 0", "{how}");
        assert_eq!(Found::by_c(&exe, "unread", &ring), Found::default(), "{how}: it was released");
    }
}
