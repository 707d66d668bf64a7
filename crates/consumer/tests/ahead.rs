//! Reading ahead of what is released: nothing goes back to the producer before its resume point is
//! released, a later consumer gets the rest again, the totals stay exact; and raw access is
//! checked.

use perfring_consumer::advanced::{Front, ReaderId, ResumePoint};
use perfring_consumer::{Cause, Consumer, Item, Observer, Policy, ReadError, Start, stat::Stat};
use perfring_producer::{Options, Producer, RecordType, ReserveError, SharedProducer};
use std::collections::VecDeque;
use std::path::PathBuf;

const BYTES: RecordType = RecordType::BYTES;

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Fixture { dir: tempfile::tempdir().unwrap() }
    }

    fn ring(&self) -> PathBuf {
        self.dir.path().join("ring")
    }
}

fn small() -> Options {
    Options { size: 4096, time: true, ..Options::default() }
}

fn number(item: &Item<'_>) -> u64 {
    match item {
        Item::Record(record) => u64::from_ne_bytes(record.bytes[..8].try_into().unwrap()),
        Item::Lost(lost) => panic!("{lost:?}"),
    }
}

/// `written = read + there`, and read is what was released.
fn check_totals(fixture: &Fixture, written: u64, read: u64) {
    let totals = Stat::read(fixture.ring()).unwrap().totals.unwrap();
    assert_eq!(totals.producer.written.records, written);
    assert_eq!(totals.consumer.read.records, read);
    assert_eq!(totals.present.records, written - read);
    assert_eq!(totals.consumer.pos, totals.tail);
    let read = totals.consumer.read.plus(totals.present);
    assert_eq!(totals.producer.written, read, "bytes, too");
}

#[test]
fn what_is_held_leaves_its_ring_by_its_mark_alone() {
    let fixture = Fixture::new();
    let mut producer = Producer::create(fixture.ring(), &small()).unwrap();
    let mut consumer = Consumer::attach(fixture.ring()).unwrap();
    consumer.advanced().hold();
    let (mut written, mut read, mut released) = (0u64, 0, 0);
    let mut resume_points: VecDeque<ResumePoint> = VecDeque::new();
    // Many marks are open at a time; of every seven records, payloads of other lengths.
    for round in 0..500u64 {
        loop {
            let payload = [written; 8];
            let len = 1 + (written % 7) as usize;
            match producer.publish(bytes_of(&payload[..len])) {
                Ok(()) => written += 1,
                Err(ReserveError::Full) => break,
                Err(other) => panic!("{other}"),
            }
        }
        // Read all, some by `take` and some by `read`; losses are reported where they were.
        loop {
            let item = match round % 2 {
                0 => consumer.read().unwrap(),
                _ => match consumer.advanced().peek().unwrap() {
                    Front::Empty => None,
                    _ => consumer.advanced().take().unwrap().map(|(item, _)| item),
                },
            };
            match item {
                Some(item @ Item::Record(_)) => assert_eq!(number(&item), read),
                Some(Item::Lost(lost)) => {
                    assert_eq!(lost.cause, Cause::Full);
                    continue;
                }
                None => break,
            }
            read += 1;
            resume_points.push_back(consumer.resume_point());
        }
        assert_eq!(read, written, "all was read, though the ring was full");
        consumer.release(); // does nothing: it is on hold
        assert!(!consumer.wait(std::time::Duration::ZERO));
        check_totals(&fixture, written, released);
        assert_eq!(consumer.fill().held + consumer.fill().unread, used(&fixture));
        // Some of the marks, in order.
        for _ in 0..1 + round % 20 {
            let Some(resume_point) = resume_points.pop_front() else { break };
            consumer.advanced().release_to(&resume_point);
            released += 1;
            check_totals(&fixture, written, released);
        }
    }
    // Those of other readers, at positions that this one has read, do nothing: there may be no record.
    let last = *resume_points.back().unwrap();
    let observer = Observer::attach(fixture.ring(), Start::Latest).unwrap();
    assert_eq!(observer.resume_point().pos(), consumer.resume_point().pos());
    for other in [
        observer.resume_point(),
        ResumePoint::new(ReaderId::unique(), last.pos() - 8, last.before()),
        ResumePoint::default(),
    ] {
        consumer.advanced().release_to(&other);
    }
    check_totals(&fixture, written, released);

    // The next consumer gets what was read and not released.
    drop(consumer);
    check_totals(&fixture, written, released);
    let mut next = Consumer::attach(fixture.ring()).unwrap();
    let mut again = 0;
    while let Some(item) = next.read().unwrap() {
        if let Item::Record(_) = item {
            assert_eq!(number(&item), released + again);
            again += 1;
        }
    }
    next.release();
    check_totals(&fixture, written, written);
    println!("{written} written, {released} released by marks, {again} read again");
    assert!(again > 10 && released > 1000);
}

fn bytes_of(words: &[u64]) -> &[u8] {
    bytemuck::cast_slice(words)
}

fn used(fixture: &Fixture) -> u64 {
    let totals = Stat::read(fixture.ring()).unwrap().totals.unwrap();
    totals.head - totals.tail
}

#[test]
fn the_front_is_what_comes_next() {
    for time in [false, true] {
        for policy in [Policy::Drop, Policy::Overwrite] {
            let fixture = Fixture::new();
            let options = Options { time, policy, ..small() };
            let mut producer = Producer::create(fixture.ring(), &options).unwrap();
            let mut consumer = Consumer::attach(fixture.ring()).unwrap();
            let mut observer = Observer::attach(fixture.ring(), Start::Oldest).unwrap();
            let mut seen = 0;
            for n in 0..400u64 {
                if n % 3 == 0 {
                    drop(producer.reserve(BYTES, 24).unwrap()); // given back: a hole
                }
                producer.publish(bytes_of(&[n])).unwrap();
                if n % 5 != 0 {
                    continue;
                }
                let fronts =
                    [consumer.advanced().peek().unwrap(), observer.advanced().peek().unwrap()];
                let mut expect = fronts[0];
                assert_eq!(fronts[0], fronts[1]);
                while expect != Front::Empty {
                    let front = consumer.advanced().peek().unwrap();
                    assert!(front == expect || expect == Front::More, "peeking takes nothing");
                    if front == Front::Empty {
                        break;
                    }
                    expect = front;
                    let (item, next) = consumer.advanced().take().unwrap().unwrap();
                    let Item::Record(record) = item else { panic!() };
                    assert_eq!(number(&item), seen);
                    assert_eq!(expect, record.time.map_or(Front::Plain, Front::Timestamped));
                    let (copy, next_copy) = observer.advanced().take().unwrap().unwrap();
                    assert_eq!(copy, item);
                    // Of a copy it is not known that there is nothing.
                    let same = next_copy == next || next == Front::Empty || policy != Policy::Drop;
                    assert!(same && next_copy != Front::Empty, "{next_copy:?} {next:?}");
                    // The observer may stand after a hole already.
                    assert_eq!(consumer.resume_point().before(), observer.resume_point().before());
                    (expect, seen) = (next, seen + 1);
                }
                assert_eq!(seen, n + 1);
                assert!(consumer.advanced().take().unwrap().is_none());
                assert!(observer.advanced().take().unwrap().is_none());
            }
        }
    }
}

#[test]
fn a_loss_that_was_found_and_not_taken_is_reported_by_the_next_observer() {
    let fixture = Fixture::new();
    let options = Options { policy: Policy::Overwrite, ..small() };
    let mut producer = Producer::create(fixture.ring(), &options).unwrap();
    let mut observer = Observer::attach(fixture.ring(), Start::Oldest).unwrap();
    let mut publish = |n: u64| producer.publish(bytes_of(&[n])).unwrap();
    (0..10).for_each(&mut publish);
    for n in 0..5 {
        assert_eq!(number(&observer.read().unwrap().unwrap()), n);
    }
    // Laps it: what was copied is read first.
    (10..1000).for_each(&mut publish);
    for n in 5..10 {
        assert!(matches!(observer.advanced().peek().unwrap(), Front::Timestamped(_)));
        assert_eq!(number(&observer.advanced().take().unwrap().unwrap().0), n);
    }
    assert_eq!(observer.advanced().peek().unwrap(), Front::Lost);
    assert_eq!(observer.advanced().peek().unwrap(), Front::Lost, "again");
    let resume_point = observer.resume_point();
    assert_eq!(resume_point.before().records, 10);
    assert_eq!(resume_point.saved(), observer.saved());
    let mut next = Observer::attach(fixture.ring(), Start::At(resume_point.saved())).unwrap();
    for (name, observer) in [("took", &mut observer), ("next", &mut next)] {
        let lost = match observer.read().unwrap() {
            Some(Item::Lost(lost)) => lost,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(lost.cause, Cause::Lapped);
        let first = 10 + lost.records;
        for n in first..1000 {
            assert_eq!(number(&observer.read().unwrap().unwrap()), n, "{name}");
        }
        assert!(observer.read().unwrap().is_none());
        assert_eq!(observer.resume_point().before().records, 1000);
        println!("{name}: {} lapped, {} read", lost.records, 1000 - first);
    }
}

#[test]
fn on_an_overwrite_ring_a_resume_point_is_the_position_that_is_saved() {
    let fixture = Fixture::new();
    let options = Options { policy: Policy::Overwrite, ..small() };
    let mut producer = Producer::create(fixture.ring(), &options).unwrap();
    let mut consumer = Consumer::attach(fixture.ring()).unwrap();
    consumer.advanced().hold();
    let mut resume_points = Vec::new();
    for n in 0..1000u64 {
        producer.publish(bytes_of(&[n])).unwrap();
        assert_eq!(number(&consumer.read().unwrap().unwrap()), n);
        resume_points.push(consumer.resume_point());
    }
    consumer.advanced().release_to(&resume_points[989]);
    drop(consumer);
    let mut next = Consumer::attach(fixture.ring()).unwrap();
    assert_eq!(next.read_count().records, 990);
    assert_eq!(number(&next.read().unwrap().unwrap()), 990);
}

#[test]
fn a_shared_ring_is_held_as_well() {
    let fixture = Fixture::new();
    let producer = SharedProducer::create(fixture.ring(), &small()).unwrap();
    let mut consumer = Consumer::attach(fixture.ring()).unwrap();
    consumer.advanced().hold();
    for n in 0..20u64 {
        producer.publish(bytes_of(&[n])).unwrap();
        assert_eq!(number(&consumer.read().unwrap().unwrap()), n);
    }
    assert!(consumer.has_producer().unwrap());
    check_totals(&fixture, 20, 0);
    let resume_point = consumer.resume_point();
    consumer.advanced().release_to(&resume_point);
    check_totals(&fixture, 20, 20);
    drop(producer);
    assert!(!consumer.has_producer().unwrap());
    assert!(!Observer::attach(fixture.ring(), Start::Oldest).unwrap().has_producer().unwrap());
}

#[test]
fn the_tail_moves_to_the_end_of_a_published_record_and_nowhere_else() {
    let fixture = Fixture::new();
    let mut producer = Producer::create(fixture.ring(), &small()).unwrap();
    let mut consumer = Consumer::attach(fixture.ring()).unwrap();
    let mut written = 0u64;
    let mut passed = 0;
    for _ in 0..100 {
        for _ in 0..7 {
            producer.publish(bytes_of(&[written; 5][..1 + (written % 5) as usize])).unwrap();
            written += 1;
        }
        drop(producer.reserve(BYTES, 40).unwrap()); // a hole at the end
        let mut raw = consumer.advanced().raw().unwrap();
        let (start, head) = (raw.cursor(), raw.ring().head());
        assert_eq!(raw.ring().tail(), start);
        let mut ends = vec![start];
        let mut pos = start;
        while pos < head {
            pos += raw.ring().word(pos) >> 48;
            ends.push(pos);
        }
        assert_eq!(pos, head);
        for to in [start.wrapping_sub(8), head + 8, u64::MAX, u64::MAX - 7, 0] {
            if !ends.contains(&to) {
                assert_eq!(raw.advance(to), Err(ReadError::Corrupt { pos: to }));
            }
        }
        for to in start..head {
            if !ends.contains(&to) {
                raw.advance(to).unwrap_err();
            }
        }
        assert_eq!(raw.ring().tail(), start);
        let count = raw.advance(ends[3]).unwrap();
        assert_eq!((count.records, count.bytes), (3, ends[3] - start));
        assert_eq!(raw.ring().tail(), ends[3]);
        let mut words = [0; 4];
        raw.ring().copy(ends[3], &mut words);
        assert_eq!(words[2], written - 4);
        passed += 3 + raw.advance(head).unwrap().records;
        check_totals(&fixture, written, passed);
    }
    assert_eq!(passed, written);
    assert!(consumer.read().unwrap().is_none());
    // The same words are there for an observer.
    let mut observer = Observer::attach(fixture.ring(), Start::Latest).unwrap();
    let raw = observer.advanced().raw();
    let tail = raw.tail();
    assert_eq!(raw.head(), tail);
    assert_eq!(raw.data_size(), 4096);
    assert_eq!(raw.word(tail - 48), consumer.advanced().raw().unwrap().ring().word(tail - 48));
    assert!(!raw.base().is_null());

    let other = Fixture::new();
    let options = Options { policy: Policy::Overwrite, ..small() };
    let _producer = Producer::create(other.ring(), &options).unwrap();
    assert!(Consumer::attach(other.ring()).unwrap().advanced().raw().is_none());
}

#[test]
fn holes_at_the_end_go_back_though_nobody_takes_them() {
    let fixture = Fixture::new();
    let options = Options { producers: perfring_producer::Producers::Many, ..small() };
    perfring_producer::files::create(fixture.ring(), &options).unwrap();
    let producer = SharedProducer::attach(fixture.ring()).unwrap();
    let mut consumer = Consumer::attach(fixture.ring()).unwrap();
    consumer.advanced().hold();
    producer.publish(&[1; 8]).unwrap();
    // Many rings' worth of nothing but holes.
    for _ in 0..100 {
        for _ in 0..20 {
            producer.reserve(BYTES, 40).unwrap().discard();
        }
        if consumer.advanced().peek().unwrap() != Front::Empty {
            // The record stays until its resume point is released, and the holes behind it with it.
            assert!(consumer.advanced().take().unwrap().is_some());
            assert_eq!(consumer.advanced().peek().unwrap(), Front::Empty);
            check_totals(&fixture, 1, 0);
            let resume_point = consumer.resume_point();
            consumer.advanced().release_to(&resume_point);
        }
        let totals = Stat::read(fixture.ring()).unwrap().totals.unwrap();
        assert_eq!((totals.tail, consumer.position()), (totals.head, totals.head));
    }
    check_totals(&fixture, 1, 1);
}
