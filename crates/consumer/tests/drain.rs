//! `drain` is a loop of `read` that polls once; and write-touching consumed lines changes nothing
//! but the time that it takes.

use perfring_consumer::{Consumer, ConsumerOptions, Item, Observer, Start, advanced::Lines};
use perfring_producer::{Options, Policy, Producer, RecordType};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const KIND: RecordType = RecordType::new(5000).unwrap();

fn reported(item: Item<'_>) -> String {
    match item {
        Item::Record(record) => format!("{} {} {:?}", record.pos, record.kind, record.bytes),
        Item::Lost(lost) => format!("{lost:?}"),
    }
}

/// Records of these lengths, holes where there are none; what does not fit is lost.
fn publish(producer: &mut Producer, lens: &[Option<usize>]) {
    for len in lens {
        match len {
            Some(len) => drop(producer.publish_as(KIND, &vec![*len as u8; *len])),
            None => drop(producer.reserve(KIND, 40)),
        }
    }
}

fn lens() -> impl Strategy<Value = Vec<Vec<Option<usize>>>> {
    let len = prop_oneof![
        5 => Just(Some(24)),
        3 => (0usize..90).prop_map(Some),
        1 => (90usize..2000).prop_map(Some),
        1 => Just(None),
    ];
    prop::collection::vec(prop::collection::vec(len, 0..120), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_loop_of_read(
        rounds in lens(),
        time in any::<bool>(),
        overwrite in prop::bool::weighted(0.3),
        write_touch in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let policy = if overwrite { Policy::Overwrite } else { Policy::Drop };
        let options = Options { size: 4096, time, policy, ..Options::default() };
        let lines = if write_touch { Lines::WriteTouch } else { Lines::Leave };
        let mut sides = Vec::new();
        for name in ["a", "b"] {
            let path = dir.path().join(name);
            let producer = Producer::create(&path, &options).unwrap();
            let options = ConsumerOptions { lines, ..ConsumerOptions::default() };
            let consumer = Consumer::attach_with(&path, &options).unwrap();
            sides.push((producer, consumer));
        }
        for lens in &rounds {
            let mut seen = [Vec::new(), Vec::new()];
            for (side, (producer, consumer)) in sides.iter_mut().enumerate() {
                publish(producer, lens);
                let seen = &mut seen[side];
                if side == 0 {
                    let count = consumer.drain(|item| seen.push(reported(item))).unwrap();
                    prop_assert_eq!(count, seen.len() as u64);
                    // All of it: no more is there.
                    prop_assert_eq!(consumer.drain(|item| panic!("{item:?}")).unwrap(), 0);
                } else {
                    while let Some(item) = consumer.read().unwrap() {
                        seen.push(reported(item));
                    }
                }
                consumer.release();
            }
            let [a, b] = seen;
            prop_assert_eq!(a, b);
            let (a, b) = (&sides[0].1, &sides[1].1);
            prop_assert_eq!(a.read_count(), b.read_count());
            prop_assert_eq!(a.lapped(), b.lapped());
            prop_assert_eq!(a.position(), b.position());
        }
    }
}

#[test]
fn what_a_panic_leaves_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    publish(&mut producer, &[Some(24); 10]);
    let mut consumer = Consumer::attach(&path).unwrap();
    let mut calls = 0;
    let failed = catch_unwind(AssertUnwindSafe(|| {
        consumer.drain(|_| {
            calls += 1;
            assert!(calls < 5, "this panic is part of the test");
        })
    }));
    assert!(failed.is_err());
    assert_eq!(consumer.drain(|_| {}).unwrap(), 10);
    consumer.release();
    assert_eq!(consumer.read_count().records, 10);
}

/// The line of the tail itself belongs to a record that was released as well: the producer may be
/// writing there, so nothing before the tail is ever stored to.
#[test]
fn a_consumer_changes_no_byte_that_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let options = Options { size: 4096, ..Options::default() };
    let mut producer = Producer::create(&path, &options).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
    for round in 0..2000usize {
        let lens: Vec<_> = (0..round % 23).map(|n| Some((n * 37 + round) % 90)).collect();
        publish(&mut producer, &lens);
        let mut watched = Vec::new();
        while let Some(item) = observer.read().unwrap() {
            watched.push(reported(item));
        }
        let before = std::fs::read(&path).unwrap();
        let mut read = Vec::new();
        while let Some(item) = consumer.read().unwrap() {
            read.push(reported(item));
            if read.len() % 5 == 0 {
                consumer.release();
            }
        }
        consumer.release();
        assert_eq!(read, watched);
        let after = std::fs::read(&path).unwrap();
        assert!(before[4096..8192] == after[4096..8192], "the data area");
    }
}

#[test]
fn what_no_producer_writes_is_damage_and_not_a_record_for_ever() {
    for word in [0u64, u64::MAX, 1 << 48, 8 << 48] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        publish(&mut producer, &[Some(24)]);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let offset = u64::from(producer.layout().page_size);
        std::os::unix::fs::FileExt::write_all_at(&file, &word.to_ne_bytes(), offset).unwrap();
        let mut consumer = Consumer::attach(&path).unwrap();
        let mut visits = 0;
        let drained = consumer.drain(|_| {
            visits += 1;
            assert!(visits < 10, "it never ends");
        });
        // A header of its own alone is an empty record, and then comes what is left of the old one.
        assert!(drained.is_err(), "{word:x}: {drained:?}");
    }
}

/// A producer that publishes during a visit does not keep `drain` for ever: it polls once, whether
/// a record was known before or not, and whether batches end in holes or not.
#[test]
fn it_polls_once() {
    for (first, read, holes) in [(10, 0, false), (10, 1, false), (100, 1, false), (10, 1, true)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { size: 1 << 24, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        publish(&mut producer, &vec![Some(8); first]);
        let mut consumer = Consumer::attach(&path).unwrap();
        for _ in 0..read {
            consumer.read().unwrap().unwrap();
        }
        let mut visits = 0;
        let count = consumer.drain(|_| {
            visits += 1;
            assert!(visits < 10 * first, "it never ends");
            publish(&mut producer, &[Some(8)]);
            if holes {
                publish(&mut producer, &[None]);
            }
        });
        assert!(count.unwrap() as usize <= 2 * first + 1, "{first} {read} {holes}: {visits}");
    }
}

/// Records of up to 40 KiB, which is more than an observer copies at a time, and many small ones: they end
/// anywhere in what it copies. Also those of a ring that has wrapped around and lapped it.
#[test]
fn an_observer_drains_what_it_would_read() {
    for (policy, time) in
        [(Policy::Overwrite, false), (Policy::Overwrite, true), (Policy::Drop, false)]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { size: 1 << 18, policy, time, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        let [mut drains, mut reads] =
            [(); 2].map(|()| Observer::attach(&path, Start::Oldest).unwrap());
        for round in 0..60usize {
            let lens: Vec<_> = (0..round * 24)
                .map(|n| match (n * 31 + round) % 97 {
                    0 => Some(n * 7919 % 40_000),
                    1 => None,
                    _ => Some(n * 37 % 90),
                })
                .collect();
            publish(&mut producer, &lens);
            let (mut drained, mut read) = (Vec::new(), Vec::new());
            let count = drains.drain(|item| drained.push(reported(item))).unwrap();
            assert_eq!(count, drained.len() as u64);
            assert_eq!(drains.drain(|item| panic!("{item:?}")).unwrap(), 0);
            while let Some(item) = reads.read().unwrap() {
                read.push(reported(item));
            }
            assert!(drained == read, "{policy:?} {time} {round}");
            assert_eq!(drains.saved(), reads.saved());
            assert_eq!(drains.lapped(), reads.lapped());
        }
        assert_eq!(drains.lapped().records > 0, policy == Policy::Overwrite);
    }
}

#[test]
fn an_observer_polls_once() {
    for (first, read) in [(10, 0), (10, 1), (1000, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { size: 1 << 24, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        publish(&mut producer, &vec![Some(24); first]);
        let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
        for _ in 0..read {
            observer.read().unwrap().unwrap();
        }
        let mut visits = 0;
        let count = observer.drain(|_| {
            visits += 1;
            assert!(visits < 10 * first, "it never ends");
            publish(&mut producer, &[Some(24)]);
        });
        // What was known, or found by the one poll.
        assert!(count.unwrap() as usize <= 2 * first, "{first} {read}: {visits}");
    }
}
