//! Rings per CPU read as one: threads that migrate all the time, in each one's order by timestamp.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use perfring_consumer::stat::Stat;
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{CpuProducer, Options, ReserveError};
use perfring_set::{DirEvent, Merge};
use perfring_testkit::wait::WATCHDOG;
use std::collections::BTreeMap;
use std::time::Duration;

const THREADS: u64 = 3;
const RECORDS: u64 = 20_000;
const KIND: Schema<'static> = Schema::new("tests.Step", Encoding::Bytes).with_hashed_id();

fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).collect()
}

fn move_to(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}

#[test]
fn a_merge_has_each_threads_records_in_its_order_wherever_it_ran() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("set");
    let options = Options { size: 4 << 20, time: true, ..Options::per_cpu() };
    let producer = CpuProducer::create(&dir, &options).unwrap();
    producer.register(&KIND).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let producer = &producer;
            scope.spawn(move || {
                let cpus = cpus();
                for number in 0..RECORDS {
                    move_to(cpus[(number + thread) as usize % cpus.len()]);
                    let mut bytes = thread.to_le_bytes().to_vec();
                    bytes.extend(number.to_le_bytes());
                    // It waits for a thread that is off its core under the ring's lock.
                    producer.publish_timeout(KIND.id, &bytes, WATCHDOG).unwrap();
                }
            });
        }
    });
    // What is there when a reader comes is in order; what comes later is as far as the merge's delay allows.
    let mut merge = Merge::follow(&dir).unwrap();
    let mut read: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut left = THREADS * RECORDS;
    while left > 0 {
        assert!(merge.wait(WATCHDOG), "{left} records are missing");
        while let Some(item) = merge.read() {
            assert_eq!(item.late, 0, "{item}");
            // Made after the type was registered, or before: each ring has it.
            assert_eq!(item.record_type().map(|kind| &*kind.name), Some("tests.Step"));
            let DirEvent::Record(record) = item.event else { panic!("{item}") };
            let number =
                |at: usize| u64::from_le_bytes(record.bytes[at..at + 8].try_into().unwrap());
            read.entry(number(0)).or_default().push(number(8));
            left -= 1;
        }
        merge.acknowledge();
    }
    for (thread, numbers) in read {
        assert!(numbers.into_iter().eq(0..RECORDS), "thread {thread} is out of order");
    }
    let rings: Vec<_> = producer.cpus().map(|cpu| dir.join(format!("cpu{cpu}"))).collect();
    assert_eq!(rings.len(), cpus().len());
    let written: u64 = rings
        .iter()
        .map(|ring| Stat::read(ring).unwrap().totals.unwrap())
        .inspect(|totals| assert_eq!(totals.producer.written, totals.consumer.read))
        .map(|totals| totals.producer.written.records)
        .sum();
    assert_eq!(written, THREADS * RECORDS);
    let other = Schema { id: KIND.id, ..Schema::new("tests.Other", Encoding::Json) };
    let taken = producer.register(&other);
    assert!(matches!(taken, Err(ReserveError::Type(_))), "{taken:?}");
}

#[test]
fn a_directory_of_rings_per_cpu_may_have_a_shared_ring_with_priority() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("set");
    let options = Options { size: 1 << 16, time: true, ..Options::per_cpu() };
    let producer = CpuProducer::create(&dir, &options).unwrap();
    let set = perfring_set::RingSet::open(&dir).unwrap();
    let errors = set.shared_producer("priority").unwrap();
    // The flood fills whichever rings it is in.
    let flooded = (0..100_000u64).filter(|n| producer.publish(&n.to_ne_bytes()).is_ok()).count();
    assert!(flooded < 100_000);
    for n in 0..100u64 {
        errors.publish(&n.to_ne_bytes()).unwrap();
    }
    // Others still find the set.
    CpuProducer::attach(&dir).unwrap();
    let mut merge = Merge::follow(&dir).unwrap();
    let (mut urgent, mut rest) = (0, 0);
    while urgent + rest < 100 + flooded {
        assert!(merge.wait(WATCHDOG), "{urgent} and {rest} of 100 and {flooded}");
        while let Some(item) = merge.read() {
            let DirEvent::Record(_) = item.event else { continue };
            match perfring_set::is_priority(item.ring) {
                true => urgent += 1,
                false => rest += 1,
            }
        }
    }
    assert_eq!((urgent, rest), (100, flooded));
    assert!(!merge.wait(Duration::from_millis(200)) && merge.read().is_none());
}
