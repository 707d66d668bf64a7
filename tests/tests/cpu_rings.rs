//! A directory with a ring per CPU: threads that are migrated all the time, readers that check every
//! record, and refusals.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, gettid};
use perfring_consumer::{Consumer, Item, Observer, Policy, RecordRef, Start, stat::Stat};
use perfring_producer::{
    CpuProducer, Options, Producers, RecordType, ReserveError, SharedProducer, error::CpuSetError,
    files::create,
};
use perfring_testkit::wait::{WATCHDOG, until};
use perfring_tests::shared::Raw;
use perfring_tests::{NUMBERED, number_of, numbered, ring_dir, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The CPUs that this thread may run on.
pub(crate) fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).collect()
}

/// Moves this thread to a CPU.
pub(crate) fn move_to(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}

fn rings(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Thread in the high bits, its record's number in the others.
const THREAD: u32 = 40;

/// The records of each thread that one reader has read: the numbers, in order, and the writers in the records.
#[derive(Default)]
struct Threads(BTreeMap<u64, Vec<u64>>, BTreeMap<u64, BTreeSet<Option<(u32, u32)>>>);

impl Threads {
    fn add(&mut self, record: &RecordRef<'_>) {
        let (number, writer) = (number_of(record.bytes), record.writer);
        self.0.entry(number >> THREAD).or_default().push(number & ((1 << THREAD) - 1));
        let writer = writer.map(|writer| (writer.pid.get(), writer.tid));
        self.1.entry(number >> THREAD).or_default().insert(writer);
    }

    /// In each ring, each thread's records are in its order.
    fn are_in_order(&self) {
        for (thread, numbers) in &self.0 {
            assert!(numbers.is_sorted_by(|a, b| a < b), "thread {thread}");
        }
    }
}

fn drain(consumer: &mut Consumer, into: &mut Threads) -> u64 {
    let mut lost = 0;
    while let Some(item) = consumer.read().unwrap() {
        match item {
            Item::Record(record) => into.add(&record),
            Item::Lost(loss) => lost += loss.records,
        }
    }
    lost
}

/// Publishes until `records` were accepted, and moves to another CPU now and then.
fn publish(
    producer: &CpuProducer,
    thread: u64,
    records: u64,
    mut one: impl FnMut(u64, &[u8]) -> bool,
) {
    let cpus = cpus();
    for number in 0..records {
        if number % 97 == thread {
            move_to(cpus[(number / 97 + thread) as usize % cpus.len()]);
        }
        let len = 8 + (number * 7 + thread) as usize % 90;
        let bytes = numbered(thread << THREAD | number, len);
        while !one(number, &bytes) {
            std::thread::yield_now();
        }
    }
    assert_eq!(producer.lost_without_ring(), 0);
}

/// Threads publish, reserve and discard; a consumer for each ring reads. Every record arrives once.
fn threads_publish(options: &Options, threads: u64, records: u64) {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    let producer = CpuProducer::create(&dir, options).unwrap();
    for cpu in cpus() {
        producer.attach_to(cpu as u32).unwrap();
    }
    let done = AtomicBool::new(false);
    let (read, writers, lost, refused) = std::thread::scope(|scope| {
        let (producer, done) = (&producer, &done);
        let readers: Vec<_> = rings(&dir)
            .into_iter()
            .map(|ring| {
                scope.spawn(move || {
                    let mut consumer = Consumer::attach(&ring).unwrap();
                    let (mut seen, mut lost) = (Threads::default(), 0);
                    loop {
                        let last = done.load(Ordering::Acquire);
                        lost += drain(&mut consumer, &mut seen);
                        if last {
                            break;
                        }
                        std::thread::yield_now();
                    }
                    seen.are_in_order();
                    (seen, lost)
                })
            })
            .collect();
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut refused = 0u64;
                    publish(producer, thread, records, |number, bytes| {
                        let done = match number % 50 {
                            0 => producer.reserve(NUMBERED, bytes.len()).map(|mut record| {
                                record.copy_from_slice(bytes);
                                record.commit();
                            }),
                            1 => {
                                // One that is given up, on the way.
                                let _ = producer.reserve(NUMBERED, 24).map(drop);
                                producer.publish_as(NUMBERED, bytes)
                            }
                            _ => producer.publish_as(NUMBERED, bytes),
                        };
                        if let Err(error) = done {
                            let expected = matches!(
                                error,
                                ReserveError::Full
                                    | ReserveError::Contended { .. }
                                    | ReserveError::Pending { .. }
                            );
                            assert!(expected, "{error}");
                            refused += 1;
                        }
                        done.is_ok()
                    });
                    (refused, gettid().as_raw() as u32)
                })
            })
            .collect();
        // All of them, whether they panicked or not: then the readers end.
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        let ended: Vec<_> = ended.into_iter().map(Result::unwrap).collect();
        let refused: u64 = ended.iter().map(|(refused, _)| refused).sum();
        let tids: Vec<_> = ended.into_iter().map(|(_, tid)| tid).collect();
        let mut writers: BTreeMap<u64, BTreeSet<Option<(u32, u32)>>> = BTreeMap::new();
        let mut all: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut lost = 0;
        for reader in readers {
            let (seen, more) = reader.join().unwrap();
            lost += more;
            for (thread, numbers) in seen.0 {
                all.entry(thread).or_default().extend(numbers);
            }
            for (thread, said) in seen.1 {
                writers.entry(thread).or_default().extend(said);
            }
        }
        (all, (tids, writers), lost, refused)
    });
    for (thread, said) in writers.1 {
        let who = (std::process::id(), writers.0[thread as usize]);
        assert_eq!(said, [options.sample_id.then_some(who)].into(), "thread {thread}");
    }
    for (thread, mut numbers) in read {
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..records), "thread {thread}");
    }
    drop(producer);
    let mut counted = 0;
    for ring in rings(&dir) {
        let stat = Stat::read(&ring).unwrap();
        let totals = stat.totals.unwrap();
        assert_eq!(totals.present.records, 0, "{ring:?}");
        assert_eq!(totals.producer.written, totals.consumer.read, "{ring:?}");
        counted += totals.producer.refused.total().records;
    }
    // A discarded reservation may have been refused too, which the loop does not count.
    assert!(counted >= refused, "{refused} refused, {counted} counted");
    assert_eq!(lost, counted);
    println!("{refused} refused and tried again");
}

#[test]
fn threads_that_are_migrated_all_the_time_lose_nothing() {
    let options = Options { size: 64 << 10, ..Options::per_cpu() };
    threads_publish(&options, 4, 300_000);
}

#[test]
fn with_timestamps_too() {
    let options = Options { size: 64 << 10, time: true, ..Options::per_cpu() };
    threads_publish(&options, 3, 200_000);
}

/// In sequences, under the lock and in reservations: `threads_publish` compares.
#[test]
fn each_record_says_which_thread_wrote_it() {
    let options = Options { size: 64 << 10, time: true, sample_id: true, ..Options::per_cpu() };
    threads_publish(&options, 3, 100_000);
}

/// perf's fields for the time follow the clocks while one thread publishes on one CPU and nothing is refused.
#[test]
fn a_ring_with_time_gets_readings_of_the_clocks_again_and_again() {
    let source =
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let trusted = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
    if !source.as_ref().is_ok_and(|source| trusted.contains(&source.trim())) {
        return skip(&format!("the clock is no counter: {source:?}"));
    }
    let dir = ring_dir();
    let dir = dir.path().join("set");
    move_to(cpus()[0]);
    let options = Options { time: true, policy: Policy::Overwrite, ..Options::per_cpu() };
    let producer = CpuProducer::create(&dir, &options).unwrap();
    // Odd while it is written.
    let perf_lock = || Raw::read(&rings(&dir)[0]).at(8) as u32;
    let mut last = perf_lock();
    for _ in 0..3 {
        until("a reading of the clocks", || {
            (0..2000).for_each(|_| producer.publish(&[7; 40]).unwrap());
            perf_lock() != last
        });
        last = perf_lock();
    }
}

#[test]
fn a_ring_of_one_page_does_it_too() {
    threads_publish(&Options { size: 4096, ..Options::per_cpu() }, 3, 50_000);
}

#[test]
fn an_overwrite_ring_keeps_the_newest_and_counts_the_others() {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    let options = Options { size: 64 << 10, policy: Policy::Overwrite, ..Options::per_cpu() };
    let producer = CpuProducer::create(&dir, &options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let producer = &producer;
            scope.spawn(move || {
                publish(producer, thread, 50_000, |_, bytes| {
                    producer.publish_timeout(NUMBERED, bytes, WATCHDOG).unwrap();
                    true
                });
            });
        }
    });
    let mut written = 0;
    for ring in rings(&dir) {
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        assert_eq!(totals.producer.written, totals.overwritten.plus(totals.present));
        written += totals.producer.written.records;
        let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
        let (mut seen, mut present) = (Threads::default(), 0);
        while let Some(Item::Record(record)) = observer.read().unwrap() {
            seen.add(&record);
            present += 1;
        }
        seen.are_in_order();
        assert_eq!(present, totals.present.records);
        assert!(totals.present.bytes > options.size / 2, "{ring:?} holds {:?}", totals.present);
    }
    assert_eq!(written, 150_000);
}

#[test]
fn long_payloads_and_the_aux_area_take_the_way_of_a_shared_ring() {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    let options = Options { size: 64 << 10, aux_size: 1 << 20, ..Options::per_cpu() };
    let producer = CpuProducer::create(&dir, &options).unwrap();
    move_to(cpus()[0]);
    producer.attach_to(cpus()[0] as u32).unwrap();
    let mut consumer = Consumer::attach(dir.join(format!("cpu{}", cpus()[0]))).unwrap();
    for len in [0, 1, 7, 8, 9, 504, 511, 512, 513, 4000, 100_000, 16, 512] {
        let bytes = numbered(len as u64, len.max(8));
        let bytes = &bytes[..len];
        producer.publish_as(NUMBERED, bytes).unwrap();
        match consumer.read().unwrap() {
            Some(Item::Record(record)) => {
                assert_eq!((record.bytes, record.kind), (bytes, NUMBERED.get()))
            }
            other => panic!("{len}: {other:?}"),
        }
    }
    let too_large = producer.publish(&vec![0; 2 << 20]).unwrap_err();
    assert!(matches!(too_large, ReserveError::TooLarge { .. }), "{too_large}");
}

#[test]
fn what_is_no_set_of_rings_per_cpu_is_refused_with_a_sentence() {
    let dir = ring_dir();
    let set = dir.path().join("set");
    let empty = CpuProducer::attach(&set).unwrap_err();
    assert!(matches!(empty, CpuSetError::Empty { .. }), "{empty}");
    let producer = CpuProducer::create(&set, &Options::per_cpu()).unwrap();
    let again = CpuProducer::create(&set, &Options::per_cpu()).unwrap_err();
    assert!(matches!(again, CpuSetError::Exists { .. }), "{again}");
    let differs = CpuProducer::open_or_create(&set, &Options { size: 4096, ..Options::per_cpu() });
    assert!(differs.unwrap_err().to_string().contains("size"));
    assert_eq!(CpuProducer::attach(&set).unwrap().options(), producer.options());

    // The ring of another CPU under this one's name, by a link: two CPUs must never publish in one ring.
    let here = producer.cpus().next().unwrap();
    let other = set.join(format!("cpu{}", here + 1));
    std::fs::hard_link(set.join(format!("cpu{here}")), &other).unwrap();
    let linked = producer.attach_to(here + 1).unwrap_err();
    assert!(linked.to_string().contains("cpu"), "{linked}");

    // One ring of a set is no shared ring.
    let ring = set.join(format!("cpu{here}"));
    let shared = SharedProducer::attach(&ring).unwrap_err();
    assert!(shared.to_string().contains("the producers of one CPU"), "{shared}");
    assert_eq!(Stat::read(&ring).unwrap().layout.producers, Producers::Cpu);
    create(dir.path().join("one"), &Options::default()).unwrap();
    let one = CpuProducer::attach(dir.path()).unwrap_err();
    assert!(matches!(one, CpuSetError::Empty { .. }), "{one}");
    let _ = RecordType::BYTES;
}
