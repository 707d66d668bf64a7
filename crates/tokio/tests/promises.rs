//! A removed ring is an error, and what was not acknowledged comes again: under a runtime.

use futures_util::StreamExt;
use perfring_consumer::{Acknowledge, ConsumerOptions, Policy, ReadError, Start};
use perfring_producer::{Options, Producer};
use perfring_tests::{NUMBERED, number_of, numbered, ring_dir};
use perfring_tokio::{Consumer, Error, Item, Observer, OwnedItem, RecordRef};
use std::path::Path;
use std::time::Duration;

fn is_removed<T>(read: &Result<T, Error>) -> bool {
    matches!(read, Err(Error::Read(ReadError::Removed)))
}

/// A reader's next number, or why there is none.
macro_rules! number {
    ($reader:expr) => {
        $reader.read().await.map(|item| match item {
            Some(Item::Record(record)) => number_of(record.bytes),
            other => panic!("{other:?}"),
        })
    };
}

#[tokio::test]
async fn a_reader_of_a_removed_ring_gets_what_is_left_and_then_an_error() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let path = dir.path().join("ring");
        let mut producer =
            Producer::create(&path, &Options { policy, ..Options::default() }).unwrap();
        producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
        let mut consumer = Consumer::attach(&path).unwrap();
        let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
        assert!(matches!((number!(consumer), number!(observer)), (Ok(0), Ok(0))));
        producer.publish_as(NUMBERED, &numbered(1, 8)).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!((number!(consumer), number!(observer)), (Ok(1), Ok(1))));
        assert!(is_removed(&consumer.read().await), "{policy:?}");
        assert!(is_removed(&observer.read().await), "{policy:?}");
        assert!(is_removed(&consumer.ready().await), "again");
        // One that is still attached goes on, and so may its readers.
        producer.publish_as(NUMBERED, &numbered(2, 8)).unwrap();
        assert!(matches!((number!(consumer), number!(observer)), (Ok(2), Ok(2))));
        assert!(is_removed(&consumer.next().await.unwrap()), "the stream says so, and ends");
        assert!(is_removed(&observer.next().await.unwrap()), "the stream says so, and ends");
        assert!(consumer.next().await.is_none() && observer.next().await.is_none());
    }
}

#[tokio::test]
async fn a_task_that_waits_finds_its_ring_removed() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let _producer = Producer::create(&path, &Options::default()).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    let (waits, waiting) = tokio::sync::oneshot::channel();
    let task = async {
        tokio::select! {
            biased;
            found = consumer.ready() => panic!("{found:?}"),
            () = std::future::ready(()) => waits.send(()).unwrap(), // polled once, and armed
        }
        is_removed(&consumer.read().await)
    };
    let remove = async {
        waiting.await.unwrap();
        std::fs::remove_file(&path).unwrap();
    };
    assert!(tokio::join!(task, remove).0);
}

#[tokio::test]
async fn a_consumer_that_ends_with_its_producer_ends_well_though_the_ring_is_removed() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    drop(Producer::create(&path, &Options::default()).unwrap());
    let consumer = Consumer::attach(&path).unwrap();
    let mut consumer = consumer.end_with_producer(Duration::from_millis(1));
    std::fs::remove_file(&path).unwrap();
    assert!(consumer.read().await.unwrap().is_none());
}

fn attach(path: &Path) -> Consumer {
    let acknowledge = Acknowledge::Explicit;
    Consumer::attach_with(path, &ConsumerOptions { acknowledge, ..ConsumerOptions::default() })
        .unwrap()
}

#[tokio::test]
async fn a_forwarder_that_is_cancelled_at_any_step_delivers_everything() {
    const RECORDS: u64 = 200;
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let path = dir.path().join("ring");
        let mut producer =
            Producer::create(&path, &Options { policy, ..Options::default() }).unwrap();
        for number in 0..RECORDS {
            producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
        }
        let (mut delivered, mut cancelled) = (Vec::new(), 0);
        while delivered.last() != Some(&(RECORDS - 1)) {
            let mut consumer = attach(&path);
            let forward = async {
                loop {
                    let number = number!(consumer).unwrap();
                    tokio::task::yield_now().await; // the socket takes its time
                    if number % 3 == cancelled % 3 && cancelled < number {
                        std::future::pending::<()>().await; // and is stuck
                    }
                    delivered.push(number);
                    consumer.acknowledge();
                }
            };
            // Cancelled while a record is in transit: after it was read, before it was acknowledged.
            tokio::select! {
                () = forward => {}
                () = async { for _ in 0..10 { tokio::task::yield_now().await } } => cancelled += 1,
            }
        }
        println!("{policy:?}: {cancelled} cancelled, {} delivered", delivered.len());
        assert!(cancelled > 10);
        delivered.dedup();
        assert!(delivered.iter().copied().eq(0..RECORDS), "{policy:?}: {delivered:?}");
    }
}

#[tokio::test]
async fn items_of_a_stream_are_acknowledged_as_well() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    for number in 0..3 {
        producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
    }
    for number in [0, 1] {
        let mut consumer = attach(&path);
        for (nth, expected) in (number..3).enumerate() {
            let Some(Ok(OwnedItem::Record(record))) = consumer.next().await else { panic!() };
            assert_eq!(number_of(record.bytes()), expected);
            if nth == 0 {
                consumer.acknowledge();
            }
        }
    }
}

#[tokio::test]
async fn losses_at_the_end_of_a_ring_are_items_of_every_reader() {
    const OFFERED: u64 = 500;
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer =
        Producer::create(&path, &Options { size: 4096, ..Options::default() }).unwrap();
    let offer = |producer: &mut Producer, from: u64| {
        (from..from + OFFERED).for_each(|n| {
            let _ = producer.publish_as(NUMBERED, &numbered(n, 40));
        });
    };
    offer(&mut producer, 0);
    let count = |(read, lost): (u64, u64), item: Result<OwnedItem, Error>| {
        std::future::ready(match item.unwrap() {
            OwnedItem::Record(_) => (read + 1, lost),
            OwnedItem::Lost(loss) => (read, lost + loss.records),
        })
    };
    let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
    let mut seen = (0, 0);
    while seen.0 + seen.1 < OFFERED {
        let item = observer.read().await.map(|item| item.unwrap().map(RecordRef::into_owned));
        seen = count(seen, item).await;
    }
    // The producer is alive, and a task that waits finds the next loss within a second.
    let mut consumer = Consumer::attach(&path).unwrap();
    let mut read = (0, 0);
    while read.0 + read.1 < OFFERED {
        let item = consumer.read().await.map(|item| item.unwrap().map(RecordRef::into_owned));
        read = count(read, item).await;
    }
    assert_eq!(read, seen);
    assert!(read.1 > 0);
    let waits = consumer.read();
    let loses = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        producer.publish(&[0; 8192]).unwrap_err();
        std::time::Instant::now()
    };
    let (item, since) = tokio::join!(waits, loses);
    let Ok(Some(Item::Lost(lost))) = item else { panic!("{item:?}") };
    println!("after {:?}", since.elapsed());
    assert_eq!(lost.records, 1);
    assert!(matches!(observer.read().await, Ok(Some(Item::Lost(_)))));
    // And at its end the stream has the rest.
    consumer.acknowledge();
    offer(&mut producer, OFFERED);
    drop(producer);
    let (seen, told) = observer.end_with_producer().fold((0, 0), count).await;
    let consumer = consumer.end_with_producer(Duration::from_millis(1));
    let (read, lost) = consumer.fold((0, 0), count).await;
    assert_eq!((seen, told, seen + told), (read, lost, OFFERED));
    assert!(lost > 0);
}
