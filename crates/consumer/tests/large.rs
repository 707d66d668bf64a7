//! Payloads of the AUX area, through the methods that applications use.

use perfring_consumer::{Consumer, Item, Observer, Snapshot, Start, stat::Stat};
use perfring_producer::{Options, Policy, Producer, RecordType, ReserveError, SharedProducer};
use perfring_testkit::rng::Rng;
use std::time::Duration;

const KIND: RecordType = RecordType::new(7000).unwrap();
const MIB: usize = 1 << 20;

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

fn options(policy: Policy, aux_size: usize, time: bool) -> Options {
    Options { size: 64 << 10, policy, aux_size: aux_size as u64, time, ..Options::default() }
}

fn record(item: Option<Item<'_>>) -> (u32, Vec<u8>, Option<u64>) {
    match item {
        Some(Item::Record(record)) => (record.kind, record.bytes.to_vec(), record.time),
        other => panic!("{other:?}"),
    }
}

/// The next record, after reported losses.
fn reported(consumer: &mut Consumer) -> Vec<u8> {
    loop {
        match consumer.read().unwrap() {
            Some(Item::Record(record)) => return record.bytes.to_vec(),
            Some(Item::Lost(_)) => {}
            None => panic!("nothing"),
        }
    }
}

#[test]
fn a_payload_of_any_length_comes_out_as_it_went_in() {
    for time in [false, true] {
        for shared in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("ring");
            let options = Options {
                producers: if shared {
                    perfring_producer::Producers::Many
                } else {
                    perfring_producer::Producers::One
                },
                ..options(Policy::Drop, 4 * MIB, time)
            };
            perfring_producer::files::create(&path, &options).unwrap();
            let mut one = (!shared).then(|| Producer::attach(&path).unwrap());
            let many = shared.then(|| SharedProducer::attach(&path).unwrap());
            let mut consumer = Consumer::attach(&path).unwrap();
            let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
            let lens =
                [0, 100, 65_504, 65_505, 65_512, 65_513, 65_520, 65_521, 70_000, MIB, 3 * MIB];
            for (nth, len) in lens.into_iter().cycle().take(60).enumerate() {
                let payload = bytes(len, nth as u64);
                match (&mut one, &many) {
                    (Some(one), _) => one.publish_as(KIND, &payload).unwrap(),
                    (_, Some(many)) => many.publish_as(KIND, &payload).unwrap(),
                    _ => unreachable!(),
                }
                let snapshot = Snapshot::take(&path).unwrap();
                let newest = snapshot.iter().last().map(Result::unwrap);
                let seen = record(newest);
                assert!(seen == record(observer.read().unwrap()), "{len}");
                assert!(seen == record(consumer.read().unwrap()), "{len}");
                assert_eq!((seen.0, seen.1.len(), seen.2.is_some()), (KIND.get(), len, time));
                assert!(seen.1 == payload, "{len}");
                consumer.release();
            }
            let stat = Stat::read(&path).unwrap();
            assert_eq!(stat.totals.unwrap().producer.written.records, 60);
            assert_eq!(stat.totals.unwrap().consumer.read, stat.totals.unwrap().producer.written);
        }
    }
}

#[test]
fn a_full_area_refuses_counts_and_reports_and_goes_on_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &options(Policy::Drop, MIB, false)).unwrap();
    assert_eq!(producer.max_len(), MIB);
    let too_long = producer.reserve(KIND, MIB + 1).unwrap_err();
    assert_eq!(too_long, ReserveError::TooLarge { len: MIB + 1, max: MIB });
    let mut consumer = Consumer::attach(&path).unwrap();
    for turn in 0..3 {
        let (first, second) = (bytes(700_000, turn), bytes(MIB, turn));
        producer.publish_as(KIND, &first).unwrap();
        assert_eq!(producer.publish_as(KIND, &second), Err(ReserveError::Full));
        let waited = producer.publish_timeout(KIND, &second, Duration::from_millis(1));
        assert_eq!(waited, Err(ReserveError::Full));
        // Small payloads stay in the data area.
        producer.publish_as(KIND, b"small").unwrap();
        assert!(reported(&mut consumer) == first);
        assert_eq!(reported(&mut consumer), b"small");
        consumer.release();
        producer.publish_as(KIND, &second).unwrap();
        assert!(reported(&mut consumer) == second);
        consumer.release();
    }
    let refused = producer.totals().refused;
    let range = (MIB + 48) as u64;
    assert_eq!((refused.full.records, refused.full.bytes), (6, 6 * range));
    assert_eq!((refused.too_large.records, refused.too_large.bytes), (1, range + 64));
    assert_eq!(producer.totals().reported.full, refused.full);
}

#[test]
fn what_is_given_back_of_a_range_is_the_next_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &options(Policy::Drop, MIB, false)).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    for turn in 0..10 {
        producer.reserve(KIND, MIB).unwrap().discard();
        drop(producer.reserve(KIND, MIB).unwrap());
        let whole = bytes(MIB, turn);
        for part in whole.chunks(MIB / 4) {
            // The first three leave room for what the last reserves; only so much is taken.
            let mut space = producer.reserve(KIND, MIB / 4).unwrap();
            space[..part.len()].copy_from_slice(part);
            space.commit_len(part.len() - 1);
        }
        assert_eq!(producer.publish_as(KIND, &whole), Err(ReserveError::Full));
        for part in whole.chunks(MIB / 4) {
            let read = reported(&mut consumer);
            assert!(read == part[..part.len() - 1]);
        }
        consumer.release();
    }
}

#[test]
fn batches_and_loops_take_large_payloads_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &options(Policy::Drop, 2 * MIB, false)).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    let large = bytes(100_000, 1);
    let mut batch = producer.batch();
    batch.push_as(KIND, b"before").unwrap();
    batch.push_as(KIND, &large).unwrap();
    batch.push_as(KIND, b"after").unwrap();
    drop(batch);
    let mut batch = producer.batch();
    for nth in 0..5u8 {
        let mut record = batch.reserve(KIND, large.len()).unwrap();
        record.fill(nth);
        record.commit();
    }
    drop(batch);
    producer.publish_as(KIND, b"end").unwrap();
    let mut lens = Vec::new();
    let mut nth = 0;
    consumer
        .drain(|item| {
            let Item::Record(record) = item else { panic!("{item:?}") };
            lens.push(record.bytes.len());
            match lens.len() {
                1 => assert_eq!(record.bytes, b"before"),
                2 => assert!(record.bytes == large),
                3 => assert_eq!(record.bytes, b"after"),
                4..9 => {
                    assert!(record.bytes.iter().all(|byte| *byte == nth));
                    nth += 1;
                }
                _ => assert_eq!(record.bytes, b"end"),
            }
        })
        .unwrap();
    let n = large.len();
    assert_eq!(lens, [6, n, 5, n, n, n, n, n, 3]);
    assert_eq!(producer.totals().written.records, 9);
}

#[test]
fn records_of_ranges_are_held_and_released_with_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &options(Policy::Drop, MIB, true)).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    for turn in 0..20 {
        let parts: Vec<_> = (0..4).map(|nth| bytes(MIB / 4, turn * 4 + nth)).collect();
        for part in &parts {
            producer.publish_as(KIND, part).unwrap();
        }
        {
            let pinned = consumer.pinned().unwrap().expect("a drop ring");
            let held: Vec<_> = std::iter::from_fn(|| pinned.read().unwrap()).collect();
            for (item, part) in held.iter().zip(&parts) {
                let Item::Record(record) = item else { panic!("{item:?}") };
                assert!(record.bytes == part && record.time.is_some());
            }
            if turn % 2 == 1 {
                drop(held);
                pinned.put_back();
            }
        }
        while turn % 2 == 1 && consumer.read().unwrap().is_some() {}
        consumer.release();
    }
}

/// Records of an overwrite ring whose ranges were not reached are whole, and all others are
/// counted; whatever their lengths.
#[test]
fn an_overwritten_range_is_a_loss_and_no_other_is() {
    for (time, many) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let producers = match many {
            false => perfring_producer::Producers::One,
            true => perfring_producer::Producers::Many,
        };
        let options = Options { producers, ..options(Policy::Overwrite, MIB, time) };
        perfring_producer::files::create(&path, &options).unwrap();
        let mut one = (!many).then(|| Producer::attach(&path).unwrap());
        let many = many.then(|| SharedProducer::attach(&path).unwrap());
        let mut consumer = Consumer::attach(&path).unwrap();
        let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
        // (number, length, where its range ends)
        let (mut written, mut end, mut state) = (Vec::new(), 0usize, 1u64);
        for nth in 0..407u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = match state >> 60 {
                0..8 => (state >> 40) as usize % 2000,
                8..14 => 65_521 + (state >> 40) as usize % 200_000,
                _ => MIB - (state >> 40) as usize % 3,
            };
            let payload = bytes(len, nth);
            match (&mut one, &many) {
                (Some(one), _) => one.publish_as(KIND, &payload).unwrap(),
                (_, Some(many)) => many.publish_as(KIND, &payload).unwrap(),
                _ => unreachable!(),
            }
            let start = end;
            if len > 65_520 {
                end = start + len.next_multiple_of(64);
            }
            written.push((nth, len, (len > 65_520).then_some(start)));
            if nth % 37 != 36 {
                continue;
            }
            let whole = |start: &Option<usize>| start.is_none_or(|start| start + MIB >= end);
            let snapshot = Snapshot::take(&path).unwrap();
            let mut back = written.iter().rev();
            let items: Vec<_> = snapshot.iter().map(Result::unwrap).collect();
            for item in items.iter().rev() {
                let (nth, len, start) = back.next().unwrap();
                match item {
                    Item::Record(record) => {
                        assert!(whole(start) && record.bytes == bytes(*len, *nth), "{nth} {len}");
                    }
                    Item::Lost(lost) => assert!(!whole(start) && lost.records == 1, "{nth} {len}"),
                }
            }
            let read = |item: Option<Item<'_>>, next: &mut usize, lost: &mut u64| match item {
                None => false,
                Some(Item::Lost(lost_here)) => {
                    *next += lost_here.records as usize;
                    *lost += lost_here.records;
                    true
                }
                Some(Item::Record(record)) => {
                    let (nth, len, start) = written[*next];
                    assert!(whole(&start) && record.bytes == bytes(len, nth), "{nth} {len}");
                    *next += 1;
                    true
                }
            };
            let first = (consumer.read_count().records + consumer.lapped().records) as usize;
            let (mut next, mut lost) = (first, consumer.lapped().records);
            while read(consumer.read().unwrap(), &mut next, &mut lost) {}
            assert_eq!((next, lost), (written.len(), consumer.lapped().records));
            let (mut next, mut lost) = (first, observer.lapped().records);
            while read(observer.read().unwrap(), &mut next, &mut lost) {}
            assert_eq!((next, lost), (written.len(), observer.lapped().records));
            assert_eq!(observer.lapped(), consumer.lapped());
        }
        assert!(consumer.lapped().records > 20 && consumer.read_count().records > 20);
        consumer.release();
        let stat = Stat::read(&path).unwrap();
        let passed = consumer.read_count().records + consumer.lapped().records;
        assert_eq!(passed, stat.totals.unwrap().producer.written.records);
    }
}

#[test]
fn open_ranges_are_never_overwritten_and_end_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    for policy in [Policy::Overwrite, Policy::Drop] {
        let path = dir.path().join(policy.name());
        let options = Options {
            producers: perfring_producer::Producers::Many,
            ..options(policy, MIB, false)
        };
        perfring_producer::files::create(&path, &options).unwrap();
        let (a, b) =
            (SharedProducer::attach(&path).unwrap(), SharedProducer::attach(&path).unwrap());
        let mut consumer = Consumer::attach(&path).unwrap();
        for turn in 0..10 {
            let (first, second) = (bytes(MIB / 2, turn), bytes(MIB / 2, turn + 100));
            let mut of_a = a.reserve(KIND, MIB / 2).unwrap();
            let mut of_b = b.reserve(KIND, MIB / 2).unwrap();
            of_a.copy_from_slice(&first);
            let refused = b.reserve(KIND, MIB / 2).unwrap_err();
            match policy {
                Policy::Overwrite => assert!(matches!(refused, ReserveError::Pending { .. })),
                Policy::Drop => assert_eq!(refused, ReserveError::Full),
            }
            of_b.copy_from_slice(&second);
            of_b.commit();
            let lost = consumer.read().unwrap();
            assert!(matches!(lost, Some(Item::Lost(lost)) if lost.records == 1), "of the refused");
            assert!(consumer.read().unwrap().is_none());
            of_a.commit_len(MIB / 2 - 100);
            let seen = reported(&mut consumer);
            assert!(seen == first[..MIB / 2 - 100]);
            let reported_or_next = reported(&mut consumer);
            assert!(reported_or_next == second);
            // All is read and nothing is open: the last commit was short, and its rest is free.
            assert!(consumer.read().unwrap().is_none());
            consumer.release();
            assert!(consumer.read().unwrap().is_none());
        }
    }
}

#[test]
fn sixty_four_mebibytes_go_through() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let len = 64 * MIB;
    let mut producer = Producer::create(&path, &options(Policy::Drop, len, false)).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    for turn in 0..2 {
        let mut space = producer.reserve(KIND, len).unwrap();
        let payload = bytes(len, turn);
        space.copy_from_slice(&payload);
        space.commit();
        assert!(record(consumer.read().unwrap()).1 == payload);
        consumer.release();
    }
}

#[test]
fn sizes_that_cannot_be_are_sentences() {
    let dir = tempfile::tempdir().unwrap();
    for size in [1, 4096, 65_537, 100_000, u64::MAX] {
        let options = Options { aux_size: size, ..Options::default() };
        let error =
            perfring_producer::files::create(dir.path().join("ring"), &options).unwrap_err();
        assert!(error.to_string().contains("an AUX area of"), "{error}");
    }
}
