//! The merge over real rings of live producers: everything in the order of time, nothing twice,
//! nothing missing except what the rings report; and a reader that ends in between is followed by one
//! that gets what was not released.

use perfring_consumer::{Consumer, Item, Observer, Policy, Start, stat::Stat};
use perfring_producer::{Options, Producer, RecordType, SharedProducer};
use perfring_set::{Merge, SourceId};
use perfring_testkit::wait::{WATCHDOG, Watchdog};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const BYTES: RecordType = RecordType::BYTES;
const DELAY: Duration = Duration::from_millis(20);
const RECORDS: u64 = 30_000;

fn path(dir: &Path, at: usize) -> PathBuf {
    dir.join(at.to_string())
}

fn options() -> Options {
    Options { size: 64 << 10, time: true, ..Options::default() }
}

/// What was read of each ring and writer, and errors of the order.
#[derive(Default)]
struct Seen {
    next: HashMap<(usize, u64), u64>,
    newest: u64,
    late: u64,
    records: u64,
}

impl Seen {
    fn take(&mut self, ring: usize, bytes: &[u8], time: u64, late: u64) {
        let word = |at: usize| u64::from_ne_bytes(bytes[at * 8..][..8].try_into().unwrap());
        let next = self.next.entry((ring, word(0))).or_default();
        assert_eq!(word(1), *next, "writer {} of ring {ring}", word(0));
        *next += 1;
        assert_eq!(late, self.newest.saturating_sub(time));
        self.newest = self.newest.max(time);
        self.late += u64::from(late > 0);
        self.records += 1;
    }
}

fn message(writer: u64, number: u64) -> Vec<u8> {
    let mut bytes = [writer, number].map(u64::to_ne_bytes).concat();
    bytes.resize(16 + (number % 50) as usize, 7);
    bytes
}

#[test]
fn live_rings_come_in_the_order_of_time_and_none_is_missing_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut producers: Vec<_> =
        (0..4).map(|at| Producer::create(path(dir, at), &options()).unwrap()).collect();
    let shared = SharedProducer::create(path(dir, 4), &options()).unwrap();
    let mut quiet = Producer::create(path(dir, 5), &options()).unwrap();
    quiet.publish(&message(0, 0)).unwrap();
    let total = 6 * RECORDS + 1;

    std::thread::scope(|scope| {
        for mut producer in producers.drain(..) {
            scope.spawn(move || {
                for n in 0..RECORDS {
                    producer.publish_timeout(BYTES, &message(0, n), WATCHDOG).unwrap();
                }
            });
        }
        for writer in 1..3 {
            let producer = SharedProducer::attach(path(dir, 4)).unwrap();
            scope.spawn(move || {
                for n in 0..RECORDS {
                    let dog = Watchdog::default();
                    while producer.publish(&message(writer, n)).is_err() {
                        dog.check("room in the shared ring");
                        std::thread::yield_now();
                    }
                }
            });
        }
        drop(shared);
        let dog = Watchdog::default();
        let (mut released, mut again) = (0, 0);
        let mut lives = 0;
        // What was returned up to the released resume points: the next reader begins there.
        let mut kept: HashMap<(usize, u64), u64> = HashMap::new();
        let mut figures = Vec::new();
        while released < total {
            dog.check(format_args!("{released} of {total}"));
            lives += 1;
            let mut merge = Merge::new(DELAY).unwrap();
            let ids: HashMap<SourceId, usize> = (0..6)
                .map(|at| (merge.add(Box::new(Consumer::attach(path(dir, at)).unwrap())), at))
                .collect();
            let mut seen = Seen { next: kept.clone(), ..Seen::default() };
            let mut given = 0;
            // It ends after so many records, and has released not quite as many.
            let ends = total / 4;
            while given < ends && released + given < total {
                dog.check(format_args!("{given} given, {released} released"));
                match merge.next().unwrap() {
                    Some(merged) => {
                        let ring = ids[&merged.source];
                        if let Item::Record(record) = merged.item {
                            seen.take(ring, record.bytes, merged.time, merged.late);
                            given += 1;
                        }
                    }
                    None => {
                        merge.wait(Duration::from_millis(5));
                    }
                }
                // Everything up to here is released, now and then, but for the last ones: fewer
                // than a ring holds.
                if given % 100 == 0 && given + 300 < ends.min(total - released) {
                    for id in ids.keys() {
                        let resume_point = merge.resume_point(*id).unwrap();
                        merge.release(*id, &resume_point);
                    }
                    kept.clone_from(&seen.next);
                }
            }
            if released + given == total {
                for id in ids.keys() {
                    assert!(merge.is_drained(*id));
                    let resume_point = merge.resume_point(*id).unwrap();
                    merge.release(*id, &resume_point);
                }
                kept.clone_from(&seen.next);
            }
            let so_far = kept.values().sum::<u64>();
            again += released + given - so_far;
            released = so_far;
            figures.push((given, seen.late, merge.figures()));
        }
        for (given, late, figures) in &figures {
            println!("{given} given, {late} late: {figures:?}");
            assert_eq!(*late, figures.late);
        }
        println!("{released} records, {again} of them again, in {lives} lives");
        assert!(lives > 1 && again > 0);
        assert_eq!(kept.len(), 7);
    });
    for at in 0..6 {
        let totals = Stat::read(path(dir, at)).unwrap().totals.unwrap();
        assert_eq!(totals.consumer.read, totals.producer.written);
        assert_eq!(totals.present.records, 0);
    }
}

#[test]
fn observers_of_overwrite_rings_get_every_record_or_a_report_of_its_loss() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let options = Options { policy: Policy::Overwrite, ..options() };
    let producers: Vec<_> =
        (0..3).map(|at| Producer::create(path(dir, at), &options).unwrap()).collect();
    let mut merge = Merge::new(DELAY).unwrap();
    let ids: HashMap<SourceId, usize> = (0..3)
        .map(|at| {
            let observer = Observer::attach(path(dir, at), Start::Oldest).unwrap();
            (merge.add(Box::new(observer)), at)
        })
        .collect();
    let done = AtomicBool::new(false);
    let mut counts = [(0u64, 0u64); 3];
    std::thread::scope(|scope| {
        let threads: Vec<_> = producers
            .into_iter()
            .map(|mut producer| {
                scope.spawn(move || {
                    for n in 0..4 * RECORDS {
                        producer.publish(&message(0, n)).unwrap();
                    }
                })
            })
            .collect();
        let done = &done;
        scope.spawn(move || {
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            done.store(true, Ordering::Release);
        });
        let (mut newest, mut late) = (0, 0);
        loop {
            let ended = done.load(Ordering::Acquire);
            while let Some(merged) = merge.next().unwrap() {
                let (read, lost) = &mut counts[ids[&merged.source]];
                match merged.item {
                    Item::Record(record) => {
                        let number = u64::from_ne_bytes(record.bytes[8..16].try_into().unwrap());
                        assert_eq!(number, *read + *lost);
                        *read += 1;
                        assert_eq!(merged.late, u64::saturating_sub(newest, merged.time));
                        newest = newest.max(merged.time);
                        late += u64::from(merged.late > 0);
                    }
                    Item::Lost(reported) => *lost += reported.records,
                }
            }
            let drained = ids.keys().filter(|id| merge.is_drained(**id)).count();
            if ended && drained == ids.len() {
                break;
            }
            merge.wait(Duration::from_millis(5));
        }
        assert_eq!(merge.figures().late, late);
    });
    println!("read and lost: {counts:?}, {:?}", merge.figures());
    for (read, lost) in counts {
        assert_eq!(read + lost, 4 * RECORDS);
    }
    for id in ids.keys() {
        assert_eq!(merge.resume_point(*id).unwrap().before().records, 4 * RECORDS);
    }
}

#[test]
fn losses_at_the_end_of_idle_rings_are_returned_and_acknowledged_like_records() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let options = Options { size: 4096, ..options() };
    let mut offered = [0u64; 3];
    for (at, offered) in offered.iter_mut().enumerate() {
        let mut producer = Producer::create(path(dir, at), &options).unwrap();
        for n in 0..500 * (at as u64 + 1) {
            let _ = producer.publish(&message(0, n));
            *offered += 1;
        }
        producer.publish(&[0; 8192]).unwrap_err();
        *offered += 1;
    }
    // Returned again by the next merge, unless they were released.
    for releases in [false, true, true] {
        let mut merge = Merge::new(DELAY).unwrap();
        let add = |at| merge.add(Box::new(Consumer::attach(path(dir, at)).unwrap()));
        let ids: Vec<SourceId> = (0..3).map(add).collect();
        let mut counts = [[0u64; 2]; 3];
        while !ids.iter().all(|id| merge.is_drained(*id)) {
            while let Some(merged) = merge.next().unwrap() {
                let at = ids.iter().position(|id| *id == merged.source).unwrap();
                match merged.item {
                    Item::Record(_) => counts[at][0] += 1,
                    Item::Lost(lost) => counts[at][1] += lost.records,
                }
            }
            merge.wait(DELAY);
        }
        for (at, id) in ids.iter().enumerate() {
            let [read, lost] = counts[at];
            println!("ring {at}: {read} read, {lost} lost of {}", offered[at]);
            assert_eq!(read + lost, offered[at]);
            if releases {
                let resume_point = merge.resume_point(*id).unwrap();
                merge.release(*id, &resume_point);
                offered[at] = 0;
            }
        }
    }
}
