//! A reader that is started before its producer attaches once the ring is there.

use perfring_consumer::{AttachError, Consumer, ConsumerOptions, Item, stat::Stat};
use perfring_producer::{Options, Producer};
use std::time::Duration;

#[test]
fn a_consumer_attaches_once_the_ring_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let (started, starts) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            started.send(()).unwrap();
            let options = ConsumerOptions::named("early");
            let consumer = Consumer::attach_when_there(&path, &options, Duration::MAX);
            let mut consumer = consumer.unwrap();
            assert!(consumer.wait(Duration::MAX));
            let Some(Item::Record(record)) = consumer.read().unwrap() else { panic!("no record") };
            assert_eq!(record.bytes, b"first");
            assert_eq!(Stat::read(&path).unwrap().consumer.owner.name, "early");
        });
        starts.recv().unwrap();
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        producer.publish(b"first").unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn a_ring_that_never_comes_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let (path, options) = (dir.path().join("ring"), ConsumerOptions::default());
    for timeout in [Duration::ZERO, Duration::from_millis(3)] {
        let refused = Consumer::attach_when_there(&path, &options, timeout);
        assert!(matches!(refused, Err(AttachError::NotFound { .. })));
    }
}

#[test]
fn a_ring_that_cannot_be_attached_to_is_an_error_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (path, options) = (dir.path().join("ring"), ConsumerOptions::default());
    drop(Producer::create(&path, &Options::default()).unwrap());
    let _consumer = Consumer::attach(&path).unwrap();
    let refused = Consumer::attach_when_there(&path, &options, Duration::MAX);
    assert!(matches!(refused, Err(AttachError::Busy { .. })));
}
