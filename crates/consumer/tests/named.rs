//! Named consumers: each gets every record, and the producers wait for the slowest that is alive.

mod child;

use self::child::{Reader, Said};
use perfring_consumer::{
    AttachError, Cause, Consumer, ConsumerOptions, Item, Observer, Start,
    stat::{ConsumerFigures, Seat, Stat},
};
use perfring_producer::{
    OpenError, Options, Policy, Producer, Producers, RecordType, Report, ReserveError,
    SharedProducer, error::CreateError,
};
use perfring_testkit::wait::WATCHDOG;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a payload; with the header, 32 records fill a ring of one page but for the last byte.
const LEN: usize = 120;
/// As many as fit at a time.
const FULL: u64 = 31;

#[test]
#[ignore = "the process of a consumer, which the other tests start"]
fn child_process() {
    child::run();
}

type Publish<'a> = Box<dyn FnMut(&[u8]) -> Result<(), ReserveError> + 'a>;

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn options(consumers: u32) -> Options {
    let report = Report::CountersOnly; // no markers among the records
    Options { size: 4096, consumers, report, ..Options::default() }
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    Place { _dir: dir, path }
}

fn payload(id: u64) -> [u8; LEN] {
    let mut bytes = [id as u8; LEN];
    bytes[..8].copy_from_slice(&id.to_ne_bytes());
    bytes
}

/// Publishes records from `from` on until the ring is full, and returns the next number.
fn fill(from: u64, mut publish: impl FnMut(&[u8]) -> Result<(), ReserveError>) -> u64 {
    let mut id = from;
    loop {
        match publish(&payload(id)) {
            Ok(()) => id += 1,
            Err(ReserveError::Full) => return id,
            Err(error) => panic!("{error}"),
        }
    }
}

fn named<'a>(stat: &'a Stat, name: &str) -> &'a Seat<ConsumerFigures> {
    stat.consumers.iter().find(|consumer| consumer.owner.name == name).unwrap()
}

/// Of each consumer: what was written it has read, missed, or has before it.
fn assert_balanced(place: &Place) -> Stat {
    let stat = Stat::read(&place.path).unwrap();
    let written = stat.totals.unwrap().producer.written;
    for Seat { owner, figures, .. } in &stat.consumers {
        let ConsumerFigures { totals, unread, .. } = figures;
        let sum = totals.read.records + totals.lapped.records + unread.records;
        assert_eq!(sum, written.records, "{}", owner.name);
    }
    stat
}

fn read_all(consumer: &mut Consumer) -> Said {
    let mut said = Said::default();
    while let Some(item) = consumer.read().unwrap() {
        match item {
            Item::Record(_) => said.read += 1,
            Item::Lost(lost) => {
                // What producers were refused is another matter.
                said.lost += if lost.cause == Cause::Lapped { lost.records } else { 0 };
            }
        }
    }
    consumer.release();
    said
}

#[test]
fn each_gets_every_record_and_the_slowest_holds_the_ring() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(3)).unwrap();
    let mut all: Vec<_> =
        ["a", "b", "c"].map(|name| Consumer::attach_as(&place.path, name).unwrap()).into();
    let mut next = fill(0, |bytes| producer.publish(bytes));
    assert_eq!(next, FULL);
    for turn in 0..20u64 {
        let slow = (turn % 3) as usize;
        for (nth, consumer) in all.iter_mut().enumerate().filter(|(nth, _)| *nth != slow) {
            assert_eq!(read_all(consumer).lost, 0, "{nth}");
        }
        assert_eq!(fill(next, |bytes| producer.publish(bytes)), next, "the slowest is waited for");
        let stat = assert_balanced(&place);
        let name = ["a", "b", "c"][slow];
        assert!(stat.consumers.iter().all(|one| one.figures.slowest == (one.owner.name == name)));
        assert_eq!(read_all(&mut all[slow]), Said { read: FULL, lost: 0 });
        next = fill(next, |bytes| producer.publish(bytes));
    }
    println!("{next} records, to 3 consumers each");
    let totals = Stat::read(&place.path).unwrap().totals.unwrap();
    assert_eq!(
        totals.producer.written.records,
        totals.consumer.read.records + totals.present.records
    );
}

#[test]
fn the_producers_of_a_shared_ring_wait_for_the_slowest_too() {
    let place = place();
    let options = Options { producers: Producers::Many, ..options(2) };
    let one = SharedProducer::create(&place.path, &options).unwrap();
    let other = SharedProducer::attach(&place.path).unwrap();
    let mut fast = Consumer::attach_as(&place.path, "fast").unwrap();
    let mut slow = Consumer::attach_as(&place.path, "slow").unwrap();
    let mut next = 0;
    for turn in 0..20 {
        let (producer, also) = if turn % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let filled = fill(next, |bytes| producer.publish(bytes));
        assert_eq!(fill(filled, |bytes| also.publish(bytes)), filled);
        read_all(&mut fast);
        assert_eq!(fill(filled, |bytes| also.publish(bytes)), filled, "the slow one is waited for");
        let said = read_all(&mut slow);
        assert_eq!(said.lost, 0);
        next = filled;
        assert_balanced(&place);
    }
    assert!(next > 20 * (FULL - 3));
}

#[test]
fn a_dead_consumer_costs_no_record_and_comes_back_with_an_exact_loss() {
    for shared in [false, true] {
        let place = place();
        let producers = if shared { Producers::Many } else { Producers::One };
        let options = Options { producers, ..options(2) };
        let (mut exclusive, many);
        let mut publish: Publish<'_> = if shared {
            many = SharedProducer::create(&place.path, &options).unwrap();
            Box::new(|bytes| many.publish(bytes))
        } else {
            exclusive = Producer::create(&place.path, &options).unwrap();
            Box::new(|bytes| exclusive.publish(bytes))
        };
        let mut alive = Consumer::attach_as(&place.path, "alive").unwrap();
        let mut dead = Reader::start(&place.path, "dead");
        let mut next = fill(0, &mut publish);
        assert_eq!(dead.read(5), Said { read: 5, lost: 0 });
        dead.hold(); // read, and not released: comes again, or is lost
        read_all(&mut alive);
        dead.kill();
        // No record is refused for the dead one: it is found before that.
        for _ in 0..200 {
            publish(&payload(next)).unwrap();
            next += 1;
            read_all(&mut alive);
        }
        let stat = assert_balanced(&place);
        let left = named(&stat, "dead");
        assert!(!left.is_alive() && !left.figures.waited_for);
        assert_eq!(left.figures.totals.read.records, 5);
        // Back again: what is still there, and how many are not.
        let mut back = Reader::start(&place.path, "dead");
        let said = back.read(u64::MAX);
        assert_eq!(said.read + said.lost, next - 5);
        assert!(said.lost > 150 && said.read > 0, "{said:?}");
        let stat = assert_balanced(&place);
        assert_eq!(named(&stat, "dead").figures.totals.lapped.records, said.lost);
        back.kill();
        // And once more, without a loss.
        let mut back = Reader::start(&place.path, "dead");
        for _ in 0..5 {
            publish(&payload(next)).unwrap();
            next += 1;
        }
        assert_eq!(back.read(u64::MAX), Said { read: 5, lost: 0 });
        back.end();
        assert_balanced(&place);
    }
}

#[test]
fn a_stopped_consumer_is_waited_for_and_named() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(2)).unwrap();
    let mut alive = Consumer::attach_as(&place.path, "alive").unwrap();
    let mut stopped = Reader::start(&place.path, "stopped");
    let next = fill(0, |bytes| producer.publish(bytes));
    stopped.read(3);
    stopped.signal("-STOP");
    read_all(&mut alive);
    let next = fill(next, |bytes| producer.publish(bytes));
    assert_eq!(next, FULL + 3);
    let timeout = Duration::from_millis(50);
    let waited = producer.publish_timeout(RecordType::BYTES, &payload(next), timeout);
    assert_eq!(waited, Err(ReserveError::Full));
    let stat = assert_balanced(&place);
    let slowest: Vec<_> =
        stat.consumers.iter().filter(|consumer| consumer.figures.slowest).collect();
    assert!(slowest.len() == 1 && slowest[0].owner.name == "stopped" && slowest[0].is_alive());
    assert_eq!(slowest[0].figures.unread.records, FULL);
    stopped.signal("-CONT");
    let rest = stopped.read(u64::MAX);
    assert_eq!(rest, Said { read: FULL, lost: 0 });
    producer.publish(&payload(next)).unwrap();
    stopped.kill();
}

#[test]
fn a_producer_that_sleeps_for_space_is_woken_by_the_slowest_and_by_a_death() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(2)).unwrap();
    let mut one = Consumer::attach_as(&place.path, "one").unwrap();
    let mut other = Reader::start(&place.path, "other");
    let next = fill(0, |bytes| producer.publish(bytes));
    let waiting = std::thread::spawn(move || {
        for id in next..next + FULL {
            producer.publish_timeout(RecordType::BYTES, &payload(id), WATCHDOG).unwrap();
        }
        // The other one is dead by then.
        for id in next + FULL..next + 3 * FULL {
            producer.publish_timeout(RecordType::BYTES, &payload(id), WATCHDOG).unwrap();
        }
    });
    let mut read = 0;
    while read < 2 * FULL {
        read += read_all(&mut one).read;
        other.read(u64::MAX);
    }
    other.kill();
    while read < next + 3 * FULL {
        one.wait(WATCHDOG);
        read += read_all(&mut one).read;
    }
    waiting.join().unwrap();
    assert_balanced(&place);
}

#[test]
fn two_that_sleep_are_both_woken() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(2)).unwrap();
    let readers = ["a", "b"].map(|name| {
        let mut consumer = Consumer::attach_as(&place.path, name).unwrap();
        std::thread::spawn(move || {
            let mut read = 0;
            while read < 1000 {
                assert!(consumer.wait(WATCHDOG));
                read += read_all(&mut consumer).read;
            }
            read
        })
    });
    for id in 0..1000 {
        producer.publish_timeout(RecordType::BYTES, &payload(id), WATCHDOG).unwrap();
    }
    for reader in readers {
        assert_eq!(reader.join().unwrap(), 1000);
    }
}

#[test]
fn a_name_is_one_consumers_and_a_seat_is_taken_from_the_dead_only() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(2)).unwrap();
    let mut first = Consumer::attach_as(&place.path, "first").unwrap();
    let taken = Consumer::attach_as(&place.path, "first").unwrap_err();
    assert!(
        matches!(&taken, AttachError::Busy { holder, .. } if holder.name == "first"),
        "{taken}"
    );
    let second = Consumer::attach_as(&place.path, "second").unwrap();
    let full = Consumer::attach_as(&place.path, "third").unwrap_err();
    assert!(matches!(full, AttachError::Consumers { consumers: 2, .. }), "{full}");
    assert!(matches!(
        perfring_shm::remove(&place.path, perfring_shm::Removal::IfFree),
        Err(AttachError::Busy { .. })
    ));
    drop(second);
    for id in 0..10 {
        producer.publish(&payload(id)).unwrap();
    }
    assert_eq!(read_all(&mut first).read, 10);
    // In the seat of one that is gone, from the oldest record on, with totals of its own.
    let mut third = Consumer::attach_as(&place.path, "third").unwrap();
    assert_eq!(read_all(&mut third), Said { read: 10, lost: 0 });
    assert_eq!(assert_balanced(&place).consumers.len(), 2);
    // A late one knows how much it has missed.
    let mut next = 10;
    for _ in 0..100 {
        producer.publish(&payload(next)).unwrap();
        next += 1;
        read_all(&mut first);
        read_all(&mut third);
    }
    drop(third);
    let mut late = Consumer::attach_as(&place.path, "late").unwrap();
    let said = read_all(&mut late);
    assert!(said.lost > 0 && said.read > 0);
    assert_eq!(said.read + said.lost, next);
    assert_balanced(&place);
}

#[test]
fn a_loss_comes_first_by_whatever_call_reads() {
    for explicit in [false, true] {
        let place = place();
        let mut producer = Producer::create(&place.path, &options(2)).unwrap();
        let mut first = Consumer::attach_as(&place.path, "first").unwrap();
        for id in 0..100 {
            producer.publish(&payload(id)).unwrap();
            read_all(&mut first);
        }
        let acknowledge = match explicit {
            true => perfring_consumer::Acknowledge::Explicit,
            false => perfring_consumer::Acknowledge::AtNextRead,
        };
        let options = ConsumerOptions { acknowledge, ..ConsumerOptions::named("late") };
        let mut late = Consumer::attach_with(&place.path, &options).unwrap();
        let mut items = Vec::new();
        late.drain(|item| items.push(matches!(item, Item::Lost(_)))).unwrap();
        assert!(items[0] && items.len() > 1 && !items[1..].contains(&true), "{items:?}");
        if explicit {
            late.acknowledge();
        }
        late.release();
        assert_eq!(named(&assert_balanced(&place), "late").figures.unread.records, 0);
    }
}

#[test]
fn observers_read_beside_them_and_leave_no_trace() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(1)).unwrap();
    let mut consumer = Consumer::attach_as(&place.path, "one").unwrap();
    let mut observer = Observer::attach(&place.path, Start::Oldest).unwrap();
    let (mut read, mut lost) = (0, 0);
    for id in 0..1000 {
        producer.publish(&payload(id)).unwrap();
        read_all(&mut consumer);
        if id % 50 == 0 {
            while let Some(item) = observer.read().unwrap() {
                match item {
                    Item::Record(record) => {
                        let id = u64::from_ne_bytes(record.bytes[..8].try_into().unwrap());
                        assert_eq!(id, read + lost);
                        read += 1;
                    }
                    Item::Lost(loss) => lost += loss.records,
                }
            }
        }
    }
    assert!(read > 100 && lost > 0 && read + lost <= 1000, "{read} {lost}");
}

#[test]
fn only_rings_that_can_have_them_are_made_with_named_consumers() {
    let place = place();
    let refused = [
        Options { policy: Policy::Overwrite, ..options(1) },
        Options { aux_size: 1 << 16, ..options(1) },
        options(33),
    ];
    for options in refused {
        let error = Producer::create(&place.path, &options).unwrap_err();
        assert!(matches!(error, OpenError::Create(CreateError::Consumers { .. })), "{error}");
    }
    drop(Producer::create(&place.path, &options(32)).unwrap());
    let differs = Producer::open_or_create(&place.path, &options(0)).unwrap_err();
    assert!(matches!(differs, OpenError::Differs { option: "consumers", .. }), "{differs}");
}

#[test]
fn a_damaged_seat_of_a_dead_consumer_is_an_error_for_its_name_alone() {
    use std::os::unix::fs::FileExt;
    let at = perfring_abi::FIELDS.iter().find(|field| field.name == "named_tails").unwrap().offset;
    for (damaged, others_read) in [(1u64 << 40, true), (!7, true), (1 << 40, false)] {
        let place = place();
        let mut producer = Producer::create(&place.path, &options(2)).unwrap();
        let mut first = Consumer::attach_as(&place.path, "first").unwrap();
        let other = others_read.then(|| Consumer::attach_as(&place.path, "other").unwrap());
        (0..10).for_each(|id| producer.publish(&payload(id)).unwrap());
        assert_eq!(read_all(&mut first), Said { read: 10, lost: 0 });
        drop(first);
        let file = std::fs::File::options().write(true).open(&place.path).unwrap();
        file.write_all_at(&damaged.to_ne_bytes(), at as u64).unwrap(); // of seat 0
        for _ in 0..3 {
            let error = Consumer::attach_as(&place.path, "first").unwrap_err();
            assert!(matches!(error, AttachError::Corrupt { .. }), "{error}");
            // It is as it was: nobody waits for a tail that is not in the ring.
            let stat = Stat::read(&place.path).unwrap();
            assert!(!named(&stat, "first").figures.waited_for);
        }
        // The others go on.
        let mut next = 10;
        if let Some(mut other) = other {
            assert_eq!(read_all(&mut other), Said { read: 10, lost: 0 });
            next = fill(next, |bytes| producer.publish(bytes));
            assert_eq!(next, 10 + FULL);
            assert_eq!(read_all(&mut other), Said { read: FULL, lost: 0 });
        }
        // Another name takes the seat over, and reads what is there.
        let mut third = Consumer::attach_as(&place.path, "third").unwrap();
        let said = read_all(&mut third);
        assert_eq!(said.read + said.lost, next, "{said:?}");
        assert_balanced(&place);
    }
}

/// What `Stat` says of a named consumer, it says itself.
#[test]
fn a_named_consumer_that_missed_records_does_not_count_them_as_read() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(2)).unwrap();
    let mut alive = Consumer::attach_as(&place.path, "alive").unwrap();
    let mut read = 0;
    let mut publish = |count: u64| {
        for id in 0..count {
            producer.publish(&payload(id)).unwrap();
            read += read_all(&mut alive).read;
            alive.release();
        }
        read
    };
    publish(3 * FULL);
    // What was gone when the name first came is its first loss.
    let mut away = Consumer::attach_as(&place.path, "away").unwrap();
    let first = read_all(&mut away);
    assert!(first.read > 0 && first.lost > FULL, "{first:?}");
    assert_eq!(away.lapped().records, first.lost);
    drop(away);
    let written = publish(3 * FULL);
    let mut away = Consumer::attach_as(&place.path, "away").unwrap();
    let said = read_all(&mut away);
    away.release();
    assert!(said.read > 0 && said.lost > FULL, "{said:?}");
    let stat = assert_balanced(&place);
    let totals = named(&stat, "away").figures.totals;
    assert_eq!((totals.read, totals.lapped), (away.read_count(), away.lapped()));
    assert_eq!(away.lapped().records, first.lost + said.lost);
    assert_eq!(away.read_count().records, first.read + said.read);
    assert_eq!(first.lost + first.read + said.lost + said.read, written);
}

/// What was overwritten while it was away is the first item of records that are pinned, too, and again after they were put back.
#[test]
fn a_named_consumer_that_returns_and_pins_records_gets_its_loss_first() {
    let place = place();
    let mut producer = Producer::create(&place.path, &options(2)).unwrap();
    let mut alive = Consumer::attach_as(&place.path, "alive").unwrap();
    for id in 0..3 * FULL {
        producer.publish(&payload(id)).unwrap();
        assert_eq!(read_all(&mut alive).read, 1);
    }
    let mut away = Consumer::attach_as(&place.path, "away").unwrap();
    let mut said = Vec::new();
    for puts_back in [true, false, false] {
        let pinned = away.pinned().unwrap().unwrap();
        let (mut read, mut lost, mut items) = (0, 0, 0);
        while let Some(item) = pinned.read().unwrap() {
            match item {
                Item::Record(_) => read += 1,
                Item::Lost(loss) => {
                    assert_eq!((loss.cause, items), (Cause::Lapped, 0));
                    lost += loss.records;
                }
            }
            items += 1;
        }
        said.push((read, lost));
        if puts_back {
            pinned.put_back();
        }
    }
    assert!(said[0].0 > 0 && said[0].0 + said[0].1 == 3 * FULL, "{said:?}");
    assert_eq!((said[1], said[2]), (said[0], (0, 0)));
    assert_eq!((away.read_count().records, away.lapped().records), said[0]);
    let stat = assert_balanced(&place);
    assert_eq!(named(&stat, "away").figures.totals.lapped, away.lapped());
    // Nothing was taken: the loss is still the next item.
    drop(away);
    for id in 0..3 * FULL {
        producer.publish(&payload(id)).unwrap();
        read_all(&mut alive);
    }
    let mut away = Consumer::attach_as(&place.path, "away").unwrap();
    drop(away.pinned().unwrap());
    assert!(read_all(&mut away).lost > FULL);
}
