//! Rings per CPU whose lock a live producer has, for as long as a test wants: no call waits longer than its caller has
//! allowed, and a record that is refused without the lock does not wait for the lock.

use crate::cpu_rings::{cpus, move_to};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, gettid};
use perfring_abi::FIELDS;
use perfring_consumer::{Consumer, Item, stat::Stat};
use perfring_producer::{CpuProducer, Options, ReserveError};
use perfring_ring::Refusal;
use perfring_shm::{CpuWindow, Trust};
use perfring_testkit::wait::{WATCHDOG, sleeps, until};
use perfring_tests::{NUMBERED, numbered, ring_dir, skip};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// For how long a call waits for the lock whose caller says nothing.
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// The ring of this thread's CPU, and two producers of it: slot 0 and slot 1.
struct Ring {
    path: PathBuf,
    own: CpuProducer,
    other: CpuProducer,
}

impl Ring {
    fn new(dir: &Path, options: &Options) -> Self {
        let cpu = cpus()[0];
        move_to(cpu);
        let dir = dir.join("set");
        let own = CpuProducer::create(&dir, options).unwrap();
        let other = CpuProducer::attach_as(&dir, "other").unwrap();
        for producer in [&own, &other] {
            producer.attach_to(cpu as u32).unwrap();
        }
        Ring { path: dir.join(format!("cpu{cpu}")), own, other }
    }

    /// Writes the lock's holder into the ring.
    fn locked_by(&self, slot: Option<u64>) {
        let ring = File::options().write(true).open(&self.path).unwrap();
        let lock = FIELDS.iter().find(|field| field.name == "shared_lock").unwrap();
        let word = slot.map_or(0, |slot| slot + 1);
        ring.write_all_at(&word.to_ne_bytes(), lock.offset as u64).unwrap();
    }
}

/// How often this thread has gone to sleep.
fn naps() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).unwrap().voluntary_context_switches()
}

/// Runs `waits` in a thread on this thread's CPU. Once that thread sleeps, runs `then`, which ends the wait. Returns the
/// result of `waits`.
fn waiting<T: Send>(waits: impl FnOnce() -> T + Send, then: impl FnOnce()) -> T {
    let thread = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            thread.store(gettid().as_raw(), Ordering::Relaxed);
            waits()
        });
        until("it waits", || waits.is_finished() || sleeps(thread.load(Ordering::Relaxed)));
        assert!(!waits.is_finished(), "it does not wait");
        then();
        waits.join().unwrap()
    })
}

#[test]
fn a_call_waits_for_the_lock_for_as_long_as_its_caller_has_said() {
    let dir = ring_dir();
    let ring = Ring::new(dir.path(), &Options::per_cpu());
    let long = numbered(0, 1000); // takes the lock
    let held = Err(ReserveError::Contended { slot: 1 });
    ring.locked_by(Some(1));
    let before = naps();
    assert_eq!(ring.own.publish_timeout(NUMBERED, &long, Duration::ZERO), held);
    assert_eq!(naps() - before, 0, "it did not wait");
    let since = Instant::now();
    assert_eq!(ring.own.publish_as(NUMBERED, &long), held);
    assert!(since.elapsed() >= LOCK_WAIT, "it waited for a while");
    let limits = [WATCHDOG, Duration::MAX];
    for limit in limits {
        ring.locked_by(Some(1));
        let waits = || ring.own.publish_timeout(NUMBERED, &long, limit);
        assert_eq!(waiting(waits, || ring.locked_by(None)), Ok(()), "{limit:?}");
    }
    let totals = Stat::read(&ring.path).unwrap().totals.unwrap().producer;
    assert_eq!((totals.refused.contended.records, totals.written.records), (2, 2));
}

#[test]
fn a_full_ring_refuses_the_next_records_without_its_lock() {
    let dir = ring_dir();
    let options = Options { size: 4096, ..Options::per_cpu() };
    let ring = Ring::new(dir.path(), &options);
    let publish = |number| ring.own.publish_as(NUMBERED, &numbered(number, 40));
    let written = (0..).find(|number| publish(*number).is_err()).unwrap();
    assert_eq!(publish(written), Err(ReserveError::Full));
    ring.locked_by(Some(1));
    let before = naps();
    for number in 0..100 {
        assert_eq!(publish(number), Err(ReserveError::Full), "{number}");
    }
    // There is no room for a shorter one either: the marker of the losses would come before it.
    assert_eq!(
        ring.own.publish_timeout(NUMBERED, &numbered(0, 8), Duration::ZERO),
        Err(ReserveError::Full)
    );
    assert_eq!(naps() - before, 0, "nothing was waited for");
    ring.locked_by(None);
    // Space for a record is waited for without an end.
    let waits = || ring.own.publish_timeout(NUMBERED, &numbered(0, 40), Duration::MAX);
    let mut consumer = Consumer::attach(&ring.path).unwrap();
    let (mut records, mut lost) = (0, 0);
    let mut drain = || {
        while let Some(item) = consumer.read().unwrap() {
            match item {
                Item::Record(_) => records += 1,
                Item::Lost(item) => lost += item.records,
            }
        }
        consumer.release();
    };
    assert_eq!(waiting(waits, &mut drain), Ok(()));
    drain();
    assert_eq!((records, lost), (written + 1, 2 + 100 + 1));
}

#[test]
fn a_ring_that_cannot_be_attached_to_is_waited_for_as_its_caller_has_said() {
    let Some(&elsewhere) = cpus().get(1) else {
        return skip("one CPU: there is no ring that a producer has not attached to");
    };
    let dir = ring_dir();
    let ring = Ring::new(dir.path(), &Options::per_cpu());
    move_to(elsewhere);
    let own = CpuProducer::attach(dir.path().join("set")).unwrap();
    let cpu = ring.own.cpus().next().unwrap();
    move_to(cpu as usize);
    ring.locked_by(Some(1));
    let none = Err(ReserveError::NoRing { cpu });
    let publish = |limit| own.publish_timeout(NUMBERED, &numbered(0, 40), limit);
    let lives = || Stat::read(&ring.path).unwrap().epoch();
    let before = (naps(), lives());
    assert_eq!(publish(Duration::ZERO), none);
    // Most records do without an attempt, which waits several times.
    let records = 10_000;
    for number in 0..records {
        assert_eq!(own.publish_as(NUMBERED, &numbered(number, 40)), none);
    }
    let naps = naps() - before.0;
    println!("{naps} naps for {records} records");
    assert!(0 < naps && naps < records as i64 / 2, "{naps}");
    assert_eq!(lives(), before.1, "attempts in vain leave no trace");
    assert_eq!(own.lost_without_ring(), records + 1);
    assert_eq!(waiting(|| publish(WATCHDOG), || ring.locked_by(None)), Ok(()));
    drop(ring.other);
}

/// Another thread of the parent had the window's mutex at the fork, and does not exist in the child.
#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    let dir = ring_dir();
    let ring = Ring::new(dir.path(), &Options::per_cpu());
    let window = CpuWindow::attach(&ring.path, "window", Trust::Auto).unwrap();
    let (inside, end) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            window.with_attached(|_| {
                inside.wait();
                end.wait();
            })
        });
        inside.wait();
        // SAFETY: the child asks the window alone, which allocates nothing there, and ends.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                window.refuse(Refusal::Full, 8);
                window.sleep_for_space(8, Duration::MAX);
                let refused = window.totals().is_none() && window.with_attached(|_| ()).is_none();
                // SAFETY: ends the child, and runs nothing of the parent's.
                unsafe { nix::libc::_exit(i32::from(!refused)) }
            }
            ForkResult::Parent { child } => {
                let ended = || waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap();
                let mut status = WaitStatus::StillAlive;
                until("the child ends", || {
                    status = ended();
                    status != WaitStatus::StillAlive
                });
                end.wait();
                assert_eq!(status, WaitStatus::Exited(child, 0));
            }
        }
    });
}
