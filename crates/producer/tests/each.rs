//! `publish_each` is a loop of `reserve`: the same records at the same positions, the same totals,
//! the same losses, whatever the ring is like; and a panic inside it costs only what was not
//! published.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use perfring_consumer::{Cause, Consumer, Item, Observer, Start};
use perfring_producer::{Each, Evict, Options, Policy, Producer, RecordType};
use perfring_testkit::wait::WATCHDOG;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const KIND: RecordType = RecordType::new(5000).unwrap();

#[derive(Clone, Debug)]
enum Step {
    Each { count: u64, len: usize, batch: u32 },
    Single { len: usize },
    Discard { len: usize },
    Consume { count: usize },
    Attach,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![4 => 0usize..100, 1 => 100usize..3000, 1 => Just(8), 1 => Just(5000)];
    let step = prop_oneof![
        4 => (0u64..200, len.clone(), 1u32..70)
            .prop_map(|(count, len, batch)| Step::Each { count, len, batch }),
        1 => len.clone().prop_map(|len| Step::Single { len }),
        1 => len.prop_map(|len| Step::Discard { len }),
        2 => (0usize..150).prop_map(|count| Step::Consume { count }),
        1 => Just(Step::Attach),
    ];
    prop::collection::vec(step, 1..25)
}

fn options() -> impl Strategy<Value = Options> {
    let policy = prop_oneof![
        Just((Policy::Drop, Evict::Exact)),
        Just((Policy::Overwrite, Evict::Exact)),
        Just((Policy::Overwrite, Evict::Half)),
    ];
    (policy, prop_oneof![Just(4096u64), Just(65_536)], prop::bool::weighted(0.2)).prop_map(
        |((policy, evict), size, time)| Options { policy, evict, size, time, ..Options::default() },
    )
}

fn fill(number: u64, bytes: &mut [u8]) {
    bytes.fill(number as u8);
}

/// What a reader sees of an item.
fn reported(item: Item<'_>) -> String {
    match item {
        Item::Record(record) => format!("{} {} {:?}", record.pos, record.kind, record.bytes),
        Item::Lost(lost) => format!("{lost:?}"),
    }
}

struct Side {
    producer: Option<Producer>,
    consumer: Option<Consumer>,
    number: u64,
    seen: Vec<String>,
}

impl Side {
    fn new(path: &Path, options: &Options) -> Self {
        let producer = Some(Producer::create(path, options).unwrap());
        let drops = options.policy == Policy::Drop;
        let consumer = drops.then(|| Consumer::attach(path).unwrap());
        Side { producer, consumer, number: 0, seen: Vec::new() }
    }

    fn take(&mut self, path: &Path, step: &Step, looped: bool) {
        let producer = self.producer.as_mut().unwrap();
        match *step {
            Step::Each { count, len, batch } => {
                let numbers = self.number..self.number + count;
                if looped {
                    let each = Each { batch, ..Each::new(KIND, len) };
                    producer.publish_each(each, numbers, fill);
                } else {
                    for number in numbers {
                        let Ok(mut record) = producer.reserve(KIND, len) else { continue };
                        fill(number, &mut record);
                        record.commit();
                    }
                }
                self.number += count;
            }
            Step::Single { len } => {
                let _ = producer.publish_as(KIND, &vec![self.number as u8; len]);
                self.number += 1;
            }
            Step::Discard { len } => drop(producer.reserve(KIND, len)),
            Step::Consume { count } => {
                for _ in 0..count {
                    let Some(consumer) = &mut self.consumer else { break };
                    match consumer.read().unwrap() {
                        Some(item) => self.seen.push(reported(item)),
                        None => break,
                    }
                }
                if let Some(consumer) = &mut self.consumer {
                    consumer.release();
                }
            }
            Step::Attach => {
                self.producer = None;
                self.producer = Some(Producer::attach(path).unwrap());
            }
        }
    }

    fn end(mut self, path: &Path) -> (Vec<String>, String) {
        let producer = self.producer.as_ref().unwrap();
        let sums = format!("{:?} {:?}", producer.totals(), producer.overwritten());
        drop(self.producer.take());
        drop(self.consumer.take());
        let mut observer = Observer::open(path, Start::Oldest).unwrap();
        while let Some(item) = observer.read().unwrap() {
            self.seen.push(reported(item));
        }
        let totals = observer.stat().unwrap().totals.unwrap();
        (self.seen, format!("{sums} {:?} {:?}", totals.overwritten, totals.present))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_loop_of_reserve(options in options(), steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("a"), dir.path().join("b")];
        let mut sides = [Side::new(&paths[0], &options), Side::new(&paths[1], &options)];
        for step in &steps {
            for (at, side) in sides.iter_mut().enumerate() {
                side.take(&paths[at], step, at == 0);
            }
        }
        let [a, b] = sides;
        let (a, b) = (a.end(&paths[0]), b.end(&paths[1]));
        prop_assert_eq!(a.0, b.0);
        prop_assert_eq!(a.1, b.1);
    }
}

#[test]
fn a_batch_is_seen_when_it_is_published_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    let mut observer = Observer::open(&path, Start::Oldest).unwrap();
    let mut seen = Vec::new();
    let each = Each { batch: 4, ..Each::new(KIND, 8) };
    let published = producer.publish_each(each, 0..10u64, |number, bytes| {
        let mut there = 0;
        while observer.read().unwrap().is_some() {
            there += 1;
        }
        seen.push(there);
        fill(number, bytes);
    });
    assert_eq!(published, 10);
    assert_eq!(seen, [0, 0, 0, 0, 4, 0, 0, 0, 4, 0]);
    assert_eq!(std::iter::from_fn(|| observer.read().unwrap().map(drop)).count(), 2, "the rest");
}

#[test]
fn after_a_panic_what_was_published_stands_and_the_producer_goes_on() {
    for (batch, stands) in [(1, 7), (5, 5)] {
        for policy in [Policy::Drop, Policy::Overwrite] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("ring");
            let options = Options { policy, size: 4096, ..Options::default() };
            let mut producer = Producer::create(&path, &options).unwrap();
            let each = Each { batch, ..Each::new(KIND, 24) };
            let failed = catch_unwind(AssertUnwindSafe(|| {
                producer.publish_each(each, 0u64.., |number, bytes| {
                    assert!(number < 7, "this panic is part of the test");
                    fill(number, bytes);
                })
            }));
            assert!(failed.is_err());
            assert_eq!(producer.totals().written.records, stands);
            // Also over the end of the ring, so that limits that were not checked would show.
            for number in 100..110 {
                producer.publish_as(KIND, &[number; 24]).unwrap();
            }
            let mut observer = Observer::open(&path, Start::Oldest).unwrap();
            let mut numbers = Vec::new();
            while let Some(Item::Record(record)) = observer.read().unwrap() {
                numbers.push(record.bytes[0]);
            }
            let expected: Vec<u8> = (0..stands as u8).chain(100..110).collect();
            assert_eq!(numbers, expected);
        }
    }
}

#[test]
fn waiting_for_space_loses_nothing_and_otherwise_losses_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer =
        Producer::create(&path, &Options { size: 4096, ..Options::default() }).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    let each = Each { timeout: WATCHDOG, ..Each::new(KIND, 8) };
    let reading = std::thread::spawn(move || {
        let mut next = 0u64;
        while next < 100_000 {
            // Sleeps, so that the producer must wake it, and is woken by it.
            consumer.sleep(WATCHDOG);
            while let Some(item) = consumer.read().unwrap() {
                let Item::Record(record) = item else { panic!("lost") };
                assert_eq!(record.bytes, next.to_ne_bytes());
                next += 1;
            }
        }
        consumer
    });
    let number = |number: u64, bytes: &mut [u8]| bytes.copy_from_slice(&number.to_ne_bytes());
    assert_eq!(producer.publish_each(each, 0..100_000u64, number), 100_000);
    let mut consumer = reading.join().unwrap();
    consumer.release();
    // 255 records of 16 bytes fit.
    assert_eq!(producer.publish_each(Each::new(KIND, 8), 0..300u64, number), 255);
    assert_eq!(producer.totals().refused.full.records, 45);
    for _ in 0..255 {
        assert!(matches!(consumer.read().unwrap(), Some(Item::Record(_))));
    }
    let Some(Item::Lost(lost)) = consumer.read().unwrap() else { panic!("not reported") };
    assert_eq!((lost.records, lost.cause), (45, Cause::Full));
    consumer.release();
    // Its marker says nothing new.
    assert_eq!(producer.publish_each(Each::new(KIND, 8), 0..1u64, number), 1);
    assert!(matches!(consumer.read().unwrap(), Some(Item::Record(_))));
    assert!(consumer.read().unwrap().is_none());
}

#[test]
fn a_length_that_no_ring_holds_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = Producer::create(dir.path().join("ring"), &Options::default()).unwrap();
    producer.publish_as(KIND, b"one").unwrap();
    assert_eq!(producer.publish_each(Each::new(KIND, usize::MAX), 0..2u64, fill), 0);
    assert_eq!(producer.totals().refused.too_large.records, 2);
}

/// A panic anywhere in a batch that is held back, also after a request for room, never leaves a
/// ring that is corrupt, also for a producer that takes it over right then.
#[test]
fn after_a_panic_in_a_full_ring_nothing_is_damaged() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        for at in (0..3000u64).step_by(61) {
            let dir = tempfile::tempdir().unwrap();
            let (path, copy) = (dir.path().join("ring"), dir.path().join("copy"));
            let options = Options { policy, size: 1 << 16, ..Options::default() };
            let mut producer = Producer::create(&path, &options).unwrap();
            let mut consumer = (policy == Policy::Drop).then(|| Consumer::attach(&path).unwrap());
            for number in 0..3000u64 {
                producer.publish_as(KIND, &number.to_ne_bytes()).unwrap();
                if let Some(consumer) = &mut consumer {
                    consumer.drain(|_| {}).unwrap();
                    consumer.release();
                }
            }
            let each = Each { batch: 1_000_000, ..Each::new(KIND, 8) };
            let failed = catch_unwind(AssertUnwindSafe(|| {
                producer.publish_each(each, 0..5000u64, |number, bytes| {
                    assert!(number < at, "this panic is part of the test");
                    bytes.copy_from_slice(&(3000 + number).to_ne_bytes());
                })
            }));
            assert!(failed.is_err());
            let batch = producer.batch();
            std::fs::copy(&path, &copy).unwrap();
            batch.publish();
            drop(Producer::attach(&copy).unwrap());
            producer.publish_as(KIND, &u64::MAX.to_ne_bytes()).unwrap();
            let mut observer = Observer::open(&path, Start::Oldest).unwrap();
            let mut numbers = Vec::new();
            while let Some(item) = observer.read().unwrap() {
                let Item::Record(record) = item else { panic!("{item:?}") };
                numbers.push(u64::from_ne_bytes(record.bytes.try_into().unwrap()));
            }
            assert_eq!(numbers.pop(), Some(u64::MAX));
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{policy:?} {at}");
            let totals = observer.stat().unwrap().totals.unwrap();
            assert_eq!(totals.producer.written, producer.totals().written);
            let passed = totals.overwritten.records + totals.consumer.read.records;
            assert_eq!(totals.producer.written.records, passed + totals.present.records);
        }
    }
}

/// A process that writes an invalid `data_head` does not move this producer to a position where no
/// record can begin.
#[test]
fn after_a_panic_an_invalid_head_is_rejected() {
    for error in [4u64, 1 << 20, u64::MAX - 7] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| {
            producer.publish_each(Each::new(KIND, 8), 0..10u64, |number, _| {
                if number == 5 {
                    // data_head, as every perf ring has it.
                    let head = (5 * 16u64).wrapping_add(error).to_ne_bytes();
                    std::os::unix::fs::FileExt::write_all_at(&file, &head, 1024).unwrap();
                    panic!("this panic is part of the test");
                }
            })
        }));
        assert!(failed.is_err());
        assert_eq!(producer.totals().pos, 0, "as if nothing had been published");
        let _ = producer.publish_as(KIND, b"xyz");
    }
}
