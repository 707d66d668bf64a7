//! A reader that waits on a ring that was removed or replaced gets everything that is left, and then
//! an error: it does not wait for ever.

use perfring_consumer::{
    Consumer, ConsumerOptions, Item, Observer, Policy, ReadError, Start, Trust,
};
use perfring_producer::{Options, Producer};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const FOR_EVER: Duration = Duration::MAX;

fn ring(policy: Policy) -> (TempDir, PathBuf, Producer) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let producer = Producer::create(&path, &Options { policy, ..Options::default() }).unwrap();
    (dir, path, producer)
}

fn publish(producer: &mut Producer, byte: u8) {
    producer.publish(&[byte]).unwrap();
}

/// The consumers of every kind of ring, and how to read one byte of each.
fn consumers() -> impl Iterator<Item = (Policy, Trust)> {
    [(Policy::Drop, Trust::Auto), (Policy::Drop, Trust::Nobody), (Policy::Overwrite, Trust::Auto)]
        .into_iter()
}

fn attach(path: &Path, trust: Trust) -> Consumer {
    Consumer::attach_with(path, &ConsumerOptions { trust, ..ConsumerOptions::default() }).unwrap()
}

fn byte(item: Result<Option<Item<'_>>, ReadError>) -> u8 {
    match item {
        Ok(Some(Item::Record(record))) => record.bytes[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_consumer_of_a_removed_ring_reads_what_is_left_and_then_an_error() {
    for (policy, trust) in consumers() {
        let (_dir, path, mut producer) = ring(policy);
        let mut consumer = attach(&path, trust);
        publish(&mut producer, 1);
        publish(&mut producer, 2);
        fs::remove_file(&path).unwrap();
        assert_eq!(byte(consumer.read()), 1);
        assert!(consumer.wait(FOR_EVER), "there is a record");
        assert_eq!(byte(consumer.read()), 2);
        assert_eq!(consumer.read(), Ok(None), "nobody has checked the file");
        assert!(consumer.wait(FOR_EVER), "the error is to be read");
        publish(&mut producer, 3);
        assert_eq!(byte(consumer.read()), 3, "a producer that is still attached goes on");
        for _ in 0..2 {
            assert_eq!(consumer.read(), Err(ReadError::Removed), "{policy:?} {trust:?}");
            assert!(consumer.wait(FOR_EVER));
        }
        publish(&mut producer, 4);
        assert_eq!(consumer.drain(|_| ()), Ok(1), "what is there comes first");
        assert_eq!(consumer.drain(|_| ()), Err(ReadError::Removed));
        consumer.sleep(FOR_EVER);
        assert!(consumer.spin(Duration::ZERO));
    }
}

#[test]
fn a_consumer_whose_ring_was_replaced_gets_removed() {
    for (policy, trust) in consumers() {
        let (dir, path, _producer) = ring(policy);
        let mut consumer = attach(&path, trust);
        let other = dir.path().join("other");
        drop(Producer::create(&other, &Options::default()).unwrap());
        fs::rename(&other, &path).unwrap();
        assert!(consumer.wait(FOR_EVER));
        assert_eq!(consumer.read(), Err(ReadError::Removed));
    }
}

#[test]
fn a_consumer_of_a_ring_that_is_present_gets_no_error() {
    for (policy, trust) in consumers() {
        let (dir, path, _producer) = ring(policy);
        let mut consumer = attach(&path, trust);
        assert!(!consumer.wait(Duration::from_millis(1)));
        assert_eq!(consumer.read(), Ok(None));
        // Under another name it is still the ring.
        fs::rename(&path, dir.path().join("moved")).unwrap();
        let mut consumer = attach_again(consumer, &dir.path().join("moved"), trust);
        assert!(!consumer.wait(Duration::from_millis(1)));
        assert_eq!(consumer.read(), Ok(None));
    }
}

fn attach_again(old: Consumer, path: &Path, trust: Trust) -> Consumer {
    drop(old);
    attach(path, trust)
}

#[test]
fn a_sleeping_consumer_finds_its_ring_removed() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let (_dir, path, _producer) = ring(policy);
        let mut consumer = attach(&path, Trust::Auto);
        // It has checked for the file, and found it.
        assert!(!consumer.wait(Duration::from_millis(1)));
        let (send, received) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            send.send(()).unwrap();
            (consumer.wait(FOR_EVER), consumer.read().map(|item| item.is_some()))
        });
        received.recv().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(sleeper.join().unwrap(), (true, Err(ReadError::Removed)));
    }
}

#[test]
fn an_observer_of_a_removed_ring_reads_what_is_left_and_then_an_error() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let (_dir, path, mut producer) = ring(policy);
        let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
        assert!(!observer.wait(Duration::from_millis(1)));
        publish(&mut producer, 1);
        fs::remove_file(&path).unwrap();
        assert!(observer.wait(FOR_EVER));
        assert_eq!(byte(observer.read()), 1);
        assert_eq!(observer.read(), Ok(None), "nobody has checked the file");
        assert!(observer.wait(FOR_EVER), "the error is to be read");
        publish(&mut producer, 2);
        assert_eq!(byte(observer.read()), 2);
        assert_eq!(observer.read(), Err(ReadError::Removed));
        assert!(observer.wait(FOR_EVER));
    }
}

#[cfg(feature = "poll")]
#[test]
fn a_descriptor_of_a_removed_ring_is_not_armed() {
    use perfring_consumer::poll::PollBy;
    use rustix::event::{PollFd, PollFlags, poll};
    for by in [PollBy::Any, PollBy::Thread] {
        let (_dir, path, _producer) = ring(Policy::Drop);
        let mut consumer = attach(&path, Trust::Auto);
        let mut pollable = consumer.pollable(by).unwrap();
        assert!(consumer.arm(&mut pollable, FOR_EVER).unwrap());
        fs::remove_file(&path).unwrap();
        // No producer wakes it: the limit of a second does.
        let mut turns = 0;
        while consumer.arm(&mut pollable, FOR_EVER).unwrap() {
            poll(&mut [PollFd::new(&pollable, PollFlags::IN)], None).unwrap();
            consumer.disarm(&mut pollable).unwrap();
            turns += 1;
        }
        assert!(turns <= 3, "{turns} wakes to find one removal");
        assert_eq!(consumer.read(), Err(ReadError::Removed), "{by:?}");
    }
}
