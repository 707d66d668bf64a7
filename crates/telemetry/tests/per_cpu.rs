//! What only a sink of rings per CPU does.

use crate::shape::{Shape, records, remove, rings};
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use perfring_consumer::{Item, Snapshot};
use perfring_telemetry::producer::{CpuProducer, Options, RecordType, ReserveError};
use perfring_telemetry::{Log, Resource, Signal, Sink, SinkError, options};
use perfring_testkit::alone::run_alone;
use perfring_types::Class;
use perfring_types::read::{TypeTable, Value};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

fn small() -> Options {
    Options { size: 1 << 16, types_size: 1 << 16, ..options() }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("rings");
    (dir, place)
}

/// The CPUs that this process may run on.
fn cpus() -> Vec<usize> {
    let may = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|cpu| may.is_set(*cpu).unwrap()).collect()
}

/// Has this thread run there only.
fn stay_on(cpu: usize) {
    let mut here = CpuSet::new();
    here.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &here).unwrap();
}

fn say(sink: &Sink, n: u64) -> Result<(), ReserveError> {
    sink.emit(&Log { body: n.into(), ..Log::default() })
}

/// The classes of a ring's records, and the values of its logs.
fn of_ring(ring: &Path) -> Vec<(Class, Option<u64>)> {
    let snapshot = Snapshot::take(ring).unwrap();
    let types = TypeTable::from_entries(snapshot.types().entries());
    let mut rows = Vec::new();
    for item in &snapshot {
        let Item::Record(record) = item.unwrap() else { continue };
        let of = types.get(RecordType::new(record.kind).unwrap()).unwrap();
        let value = of.decode(record.bytes).unwrap();
        let n = match value.get("body") {
            Some(Value::U64(n)) => Some(*n),
            _ => None,
        };
        rows.push((of.class.known().unwrap(), n));
    }
    rows
}

#[test]
fn each_ring_has_the_resource_before_the_first_record_and_again_while_it_is_overwritten() {
    let (_dir, place) = place();
    let sink = Shape::Cpus.sink(&place, &small(), Resource::here());
    let cpus = cpus();
    std::thread::scope(|scope| {
        for &cpu in &cpus {
            let sink = &sink;
            scope.spawn(move || {
                stay_on(cpu);
                say(sink, 0).unwrap();
            });
        }
    });
    assert_eq!(rings(&place).len(), cpus.len());
    for ring in rings(&place) {
        let rows = of_ring(&ring);
        assert_eq!(rows[0].0, Class::Resource, "{}", ring.display());
        assert_eq!(rows[1..], [(Class::Log, Some(0))], "{}", ring.display());
    }
    // Another producer fills the ring: the next record of the sink finds that the resource is far behind.
    let other = CpuProducer::attach(&place).unwrap();
    std::thread::scope(|scope| {
        for &cpu in &cpus {
            let (sink, other) = (&sink, &other);
            scope.spawn(move || {
                stay_on(cpu);
                for n in 1..=8 {
                    for _ in 0..1300 {
                        other.publish_as(Log::SCHEMA.id, &[]).unwrap(); // 16 bytes: a third of the ring
                    }
                    say(sink, n).unwrap();
                }
            });
        }
    });
    for ring in rings(&place) {
        let rows = of_ring(&ring);
        let last = rows.iter().position(|row| row.1 == Some(8)).unwrap();
        assert_eq!(rows[last - 1].0, Class::Resource, "{}", ring.display());
        assert!(rows.iter().all(|row| row.1 != Some(0)), "it was overwritten");
    }
    assert_eq!(sink.dropped(), 0);
}

#[test]
fn many_threads_lose_nothing_and_each_keeps_its_order() {
    const THREADS: u64 = 100; // more than a ring has slots
    const EACH: u64 = 500;
    let (_dir, place) = place();
    let sink = Shape::Cpus.sink(&place, &Options { size: 16 << 20, ..options() }, Resource::here());
    let ready = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (sink, ready) = (&sink, &ready);
            scope.spawn(move || {
                ready.wait();
                for n in 0..EACH {
                    say(sink, thread << 32 | n).unwrap();
                }
            });
        }
    });
    assert_eq!(sink.dropped(), 0);
    let mut next = HashMap::new();
    let all = records(&place, |snapshot, record| {
        let types = TypeTable::from_entries(snapshot.types().entries());
        let of = types.get(RecordType::new(record.kind).unwrap()).unwrap();
        of.decode(record.bytes).unwrap().get("body").cloned()
    });
    for body in all.into_iter().flatten() {
        let Value::U64(number) = body else { panic!("{body:?}") };
        let next = next.entry(number >> 32).or_insert(0);
        assert_eq!(number as u32, *next, "thread {}", number >> 32);
        *next += 1;
    }
    assert_eq!(next.len() as u64, THREADS);
    assert!(next.values().all(|next| u64::from(*next) == EACH));
}

#[test]
fn while_a_ring_cannot_be_made_again_a_sink_refuses_and_counts_and_says_why() {
    let (_dir, place) = place();
    let sink = Shape::Cpus.sink(&place, &small(), Resource::here());
    say(&sink, 1).unwrap();
    sink.check().unwrap();
    say(&sink, 2).unwrap();
    remove(&place);
    for cpu in cpus() {
        fs::write(place.join(format!("cpu{cpu}")), "text").unwrap();
    }
    let error = sink.check().unwrap_err();
    assert!(matches!(error, SinkError::Cpu(_)), "{error:?}");
    println!("{error}");
    assert_eq!(sink.dropped(), 1);
    for lost in 2..5 {
        assert_eq!(say(&sink, 3), Err(ReserveError::Detached));
        assert_eq!(sink.dropped(), lost);
    }
    remove(&place);
    sink.check().unwrap();
    say(&sink, 4).unwrap();
    let logs: Vec<_> =
        rings(&place).iter().flat_map(|ring| of_ring(ring)).filter_map(|row| row.1).collect();
    assert_eq!((logs, sink.dropped()), (vec![4], 4));
}

#[test]
fn a_shared_ring_is_no_directory() {
    let (_dir, place) = place();
    let _sink = Shape::Ring.sink(&place, &small(), Resource::here());
    assert!(Sink::open(&place, &small(), Resource::here()).is_err());
}

/// What another library registers for this thread: `struct rseq`.
#[repr(C, align(32))]
struct Area([u32; 8]);

#[test]
fn without_restartable_sequences_there_is_a_shared_ring_in_the_directory_and_the_sink_says_so() {
    const TEST: &str = "per_cpu::without_restartable_sequences_there_is_a_shared_ring_in_the_directory_and_the_sink_says_so";
    const TUNABLES: &str = "GLIBC_TUNABLES";
    if std::env::var_os(TUNABLES).is_none() {
        return run_alone(TEST, TUNABLES, "glibc.pthread.rseq=0");
    }
    // The kernel's own number for a thread that is not registered.
    let area = Box::leak(Box::new(Area([0, u32::MAX, 0, 0, 0, 0, 0, 0])));
    // SAFETY: the kernel writes into the area, which is never freed, and is of the size and alignment that it asks for.
    let done = unsafe { libc::syscall(libc::SYS_rseq, area.0.as_mut_ptr(), 32, 0, 0x5305_3053) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let (_dir, place) = place();
    let open = || Sink::open(&place, &small(), Resource::here()).unwrap();
    let (sink, other) = (open(), open());
    println!("{}", sink.no_cpu_rings().unwrap());
    say(&sink, 1).unwrap();
    say(&other, 2).unwrap();
    assert_eq!(rings(&place), [place.join("shared")]);
    fs::remove_file(place.join("shared")).unwrap();
    sink.check().unwrap();
    say(&sink, 3).unwrap();
    let rows = of_ring(&place.join("shared"));
    assert_eq!(rows, [(Class::Resource, None), (Class::Log, Some(3))]);
    assert_eq!(sink.dropped(), 1);
}
