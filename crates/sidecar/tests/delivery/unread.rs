//! What a ring's status says of its unread records.

use super::{attach, engine};
use crate::scripted::{Scripted, publish, ring, until};
use perfring_consumer::{Acknowledge, Consumer, ConsumerOptions, advanced::MachineClock};
use perfring_producer::{Options, Policy, Producer};
use perfring_sidecar::config::Delivery;
use perfring_sidecar::{Engine, RingStatus};

/// What the status of the only ring says.
fn status<T>(engine: &Engine, of: impl FnOnce(&RingStatus<'_>) -> T) -> T {
    of(&engine.rings().next().expect("a ring"))
}

#[test]
fn unread_is_what_is_not_released_or_not_delivered_and_its_age_that_of_the_oldest() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = tempfile::tempdir().unwrap();
        let mut producer = ring(dir.path(), "one", policy);
        let output = Scripted::ready();
        output.set(|script| script.prompt = false);
        let mut engine = engine(&[("output", Delivery::Required, &output)]);
        attach(&mut engine, &dir.path().join("one"));
        let clock = MachineClock::find().unwrap();
        assert_eq!(status(&engine, |ring| ring.oldest_unread()), None, "{policy:?}: nothing is");
        let begin = clock.now_ns();
        publish(&mut producer, 0..1);
        let first = clock.now_ns();
        publish(&mut producer, 1..4);
        until(&mut engine, "they came", |_| output.records().len() == 4);
        // Each has 8 bytes, a header of 8 and a timestamp of 8.
        let found = || status(&engine, |ring| (ring.unread(), ring.lag, ring.oldest_unread()));
        let (unread, lag, oldest) = found();
        assert_eq!((unread, lag), (Some(4 * 24), 4 * 24), "{policy:?}");
        assert!(oldest.is_some_and(|time| (begin..=first).contains(&time)), "{policy:?}");
        assert_eq!(found(), (unread, lag, oldest), "the same once more");
        output.set(|script| script.held.clear());
        until(&mut engine, "they are released", |engine| engine.is_settled());
        assert_eq!(status(&engine, |ring| (ring.unread(), ring.lag)), (Some(0), 0), "{policy:?}");
        assert_eq!(status(&engine, |ring| ring.oldest_unread()), None, "{policy:?}");
    }
}

#[test]
fn an_overwritten_ring_is_full_and_no_fuller() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Overwrite);
    let output = Scripted::ready();
    let mut engine = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut engine, &dir.path().join("one"));
    publish(&mut producer, 0..10_000);
    assert_eq!(status(&engine, |ring| ring.unread()), Some(64 << 10));
    assert!(status(&engine, |ring| ring.oldest_unread()).is_some(), "of what it still holds");
}

#[test]
fn a_slower_consumer_of_a_ring_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one");
    let options = Options { size: 64 << 10, time: true, consumers: 2, ..Options::default() };
    let mut producer = Producer::create(&path, &options).unwrap();
    let slow = ConsumerOptions {
        name: Some("slow".into()),
        acknowledge: Acknowledge::Explicit,
        ..ConsumerOptions::default()
    };
    let slow = Consumer::attach_with(&path, &slow).unwrap();
    let output = Scripted::ready();
    let mut engine = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut engine, &path);
    publish(&mut producer, 0..4);
    until(&mut engine, "the output has them", |engine| {
        output.records().len() == 4 && engine.is_settled()
    });
    let found = status(&engine, |ring| (ring.lag, ring.unread()));
    assert_eq!(found, (0, Some(4 * 24)), "the other one has released none of them");
    assert!(status(&engine, |ring| ring.oldest_unread()).is_some());
    drop(slow);
    assert_eq!(status(&engine, |ring| ring.unread()), Some(0), "nobody waits for it");
}

#[test]
fn a_ring_without_timestamps_has_no_age() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one");
    let options = Options { size: 64 << 10, time: false, ..Options::default() };
    let mut producer = Producer::create(&path, &options).unwrap();
    let output = Scripted::ready();
    output.set(|script| script.room = 0);
    let mut engine = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut engine, &path);
    publish(&mut producer, 0..1);
    assert_eq!(status(&engine, |ring| (ring.unread(), ring.oldest_unread())), (Some(16), None));
}
