//! What was returned and not acknowledged comes again: at-least-once delivery.

use perfring_consumer::{
    Acknowledge, Cause, Consumer, ConsumerOptions, Item, Lost, Policy, Trust, stat::Stat,
};
use perfring_producer::{Options, Producer, RecordType, ReserveError};
use std::path::Path;
use std::time::Duration;

const BYTES: RecordType = RecordType::BYTES;

fn attach(path: &Path, trust: Trust, acknowledge: Acknowledge) -> Consumer {
    let options = ConsumerOptions { trust, acknowledge, ..ConsumerOptions::default() };
    Consumer::attach_with(path, &options).unwrap()
}

fn next(consumer: &mut Consumer) -> Option<u64> {
    match consumer.read().unwrap()? {
        Item::Record(record) => Some(u64::from_ne_bytes(record.bytes.try_into().unwrap())),
        Item::Lost(lost) => panic!("{lost}"),
    }
}

#[test]
fn what_is_not_acknowledged_comes_again() {
    for (policy, trust) in [
        (Policy::Drop, Trust::Auto),
        (Policy::Drop, Trust::Nobody),
        (Policy::Overwrite, Trust::Auto),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { size: 4096, policy, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        for number in 0..10u64 {
            producer.publish(&number.to_ne_bytes()).unwrap();
        }
        let mut consumer = attach(&path, trust, Acknowledge::Explicit);
        for number in 0..4 {
            assert_eq!(next(&mut consumer), Some(number));
        }
        consumer.acknowledge();
        for number in 4..10 {
            assert_eq!(next(&mut consumer), Some(number));
        }
        // None of these acknowledges anything.
        assert_eq!(next(&mut consumer), None);
        consumer.release();
        assert!(!consumer.wait(Duration::from_millis(1)));
        drop(consumer);

        let mut consumer = attach(&path, trust, Acknowledge::Explicit);
        for number in 4..10 {
            assert_eq!(next(&mut consumer), Some(number), "{policy:?} {trust:?}");
        }
        consumer.acknowledge();
        consumer.acknowledge(); // a second time does nothing
        assert_eq!(consumer.read_count().records, 10);
        drop(consumer);
        let totals = Stat::read(&path).unwrap().totals.unwrap();
        assert_eq!(totals.consumer.read.records, 10, "{policy:?} {trust:?}");
        assert_eq!(next(&mut attach(&path, trust, Acknowledge::Explicit)), None);
    }
}

#[test]
fn by_default_an_item_counts_as_read_at_the_next_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    for number in 0..2u64 {
        producer.publish(&number.to_ne_bytes()).unwrap();
    }
    let mut consumer = attach(&path, Trust::Auto, Acknowledge::default());
    assert_eq!(next(&mut consumer), Some(0));
    drop(consumer);
    assert_eq!(next(&mut attach(&path, Trust::Auto, Acknowledge::default())), Some(1));
}

#[test]
fn a_producer_waits_for_what_is_not_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer =
        Producer::create(&path, &Options { size: 4096, ..Options::default() }).unwrap();
    let mut consumer = attach(&path, Trust::Auto, Acknowledge::Explicit);
    let mut published = 0u64;
    while producer.publish(&published.to_ne_bytes()).is_ok() {
        published += 1;
    }
    while next(&mut consumer).is_some_and(|number| number + 1 < published) {}
    assert_eq!(producer.publish(&[0; 8]), Err(ReserveError::Full), "all was only read");
    consumer.acknowledge();
    assert_eq!(producer.publish(&[0; 8]), Ok(()));
}

#[test]
fn holes_of_a_ring_that_is_acknowledged_make_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer =
        Producer::create(&path, &Options { size: 4096, ..Options::default() }).unwrap();
    for trust in [Trust::Auto, Trust::Nobody] {
        let mut consumer = attach(&path, trust, Acknowledge::Explicit);
        producer.publish(&7u64.to_ne_bytes()).unwrap();
        assert_eq!(next(&mut consumer), Some(7));
        for _ in 0..3 {
            drop(producer.reserve(BYTES, 504).unwrap()); // a hole
            assert_eq!(next(&mut consumer), None);
        }
        drop(consumer);
        let mut consumer = attach(&path, trust, Acknowledge::Explicit);
        assert_eq!(next(&mut consumer), Some(7), "the holes after it did not release it");
        consumer.acknowledge();
        // Ten rings' worth of holes.
        for _ in 0..10 * 4096 / 512 {
            drop(producer.reserve(BYTES, 504).unwrap());
            assert_eq!(next(&mut consumer), None);
        }
    }
}

#[test]
fn a_loss_says_how_much_was_lost_and_why() {
    let lost =
        |records, bytes, cause| Lost { pos: 0, records, bytes, cause, at_end: false }.to_string();
    assert_eq!(lost(12, 768, Cause::Full), "12 records (768 bytes) lost: the ring was full");
    assert_eq!(lost(1, 1, Cause::TooLarge), "1 record (1 byte) lost: too large for the ring");
    assert_eq!(
        lost(0, 16, Cause::Lapped),
        "an unknown number of records (16 bytes) lost: overwritten before they were read"
    );
    assert_eq!(lost(2, 0, Cause::Foreign), "2 records lost: reported by another program");
    let at_end = Lost { pos: 8, records: 3, bytes: 0, cause: Cause::Full, at_end: true };
    assert_eq!(at_end.to_string(), "3 records lost: the ring was full (at some time before now)");
}
