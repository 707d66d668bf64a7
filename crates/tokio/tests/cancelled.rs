//! Cancel-safety: futures and streams that are dropped at any moment lose nothing and double nothing.

use futures_util::StreamExt;
use perfring_consumer::{Policy, Start};
use perfring_producer::{Options, Producer, files::create};
use perfring_testkit::wait::until;
use perfring_tests::{NUMBERED, number_of, numbered, ring_dir};
use perfring_tokio::{Consumer, Item, Observer, OwnedItem};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const RECORDS: u64 = 20_000;

/// Publishes all of them, some at once and some alone, waiting for space, and now and then until a read that found
/// nothing is cancelled.
fn publish(path: &Path, cancelled: &AtomicU64) {
    let mut producer = Producer::attach(path).unwrap();
    for number in 0..RECORDS {
        let payload = numbered(number, 8 + number as usize % 60);
        producer.publish_timeout(NUMBERED, &payload, Duration::MAX).unwrap();
        if number % 97 == 0 {
            std::thread::yield_now();
        }
        if number % 1000 == 500 {
            let before = cancelled.load(Ordering::Relaxed);
            until("a read is cancelled", || cancelled.load(Ordering::Relaxed) > before);
        }
    }
}

/// The numbers that came, and whether they are all, in order, once.
#[derive(Default)]
struct Seen {
    next: u64,
    lost: u64,
}

impl Seen {
    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Record(record) => {
                assert_eq!(number_of(record.bytes), self.next);
                self.next += 1;
            }
            Item::Lost(lost) => {
                self.lost += lost.records;
                self.next += lost.records;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_loses_a_select_takes_nothing() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let path = dir.path().join("ring");
        create(&path, &Options { size: 8192, policy, ..Options::default() }).unwrap();
        let mut consumer = Consumer::attach(&path).unwrap();
        let (mut seen, cancelled) = (Seen::default(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&cancelled);
        let producer = tokio::task::spawn_blocking(move || publish(&path, &count));
        let cancels = || _ = cancelled.fetch_add(1, Ordering::Relaxed);
        while seen.next < RECORDS {
            tokio::select! {
                biased;
                item = consumer.read() => seen.item(item.unwrap().unwrap()),
                () = tokio::task::yield_now() => cancels(),
            }
            if seen.next % 100 == 50 {
                // Polled once and dropped.
                tokio::select! {
                    biased;
                    found = consumer.ready() => assert!(found.unwrap()),
                    () = std::future::ready(()) => cancels(),
                }
            }
        }
        producer.await.unwrap();
        let consumer = consumer.into_inner();
        let counted = consumer.read_count().records;
        println!("{policy:?}: {cancelled:?} reads cancelled, {} lost", seen.lost);
        assert_eq!(counted + seen.lost, RECORDS, "the totals agree");
        assert!(policy == Policy::Overwrite || seen.lost == 0);
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_leaves_the_rest_to_the_next() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    for number in 0..1000 {
        producer.publish_as(NUMBERED, &numbered(number, 20)).unwrap();
    }
    let mut seen = Seen::default();
    for part in [1usize, 7, 100, 300] {
        let items: Vec<_> = Consumer::attach(&path).unwrap().take(part).collect().await;
        assert_eq!(items.len(), part);
        for item in items {
            let OwnedItem::Record(record) = item.unwrap() else { panic!("a loss") };
            seen.item(Item::Record(record.as_record()));
        }
    }
    drop(producer);
    let rest = Consumer::attach(&path).unwrap().end_with_producer(Duration::from_millis(1));
    assert_eq!(rest.count().await, 1000 - 408, "what was not returned is present");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_is_cancelled_as_well() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let options = Options { size: 8192, policy: Policy::Overwrite, ..Options::default() };
    create(&path, &options).unwrap();
    let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
    let (mut seen, cancelled) = (Seen::default(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&cancelled);
    let producer = tokio::task::spawn_blocking(move || publish(&path, &count));
    let cancels = || _ = cancelled.fetch_add(1, Ordering::Relaxed);
    while seen.next < RECORDS {
        tokio::select! {
            biased;
            item = observer.read() => seen.item(item.unwrap().unwrap()),
            () = tokio::task::yield_now() => cancels(),
        }
    }
    producer.await.unwrap();
    println!("{cancelled:?} reads cancelled, {} lost", seen.lost);
}
