//! Sleeping and waking across processes, and the heavy side of the asymmetric fence.

use perfring_ring::{Fences, Owed, Ring, full_fence};
use rustix::io::Errno;
use rustix::thread::futex::{self, Wait, WaitFlags, WaitPtr, WaitvFlags};
use rustix::thread::{ClockId, MembarrierCommand, Timespec, membarrier};
use rustix::time::clock_gettime;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The longest single sleep of a thread that may miss a wake: a producer that waits for a foreign perf
/// reader, which wakes no producer, and any thread if `membarrier` is forbidden.
pub const SLICE: Duration = Duration::from_millis(20);
/// The interval at which every sleeper wakes by itself. A process that dies or is stopped between taking a
/// sleeper's flag and `FUTEX_WAKE` leaves the sleeper without a waker. A removal of a ring's file does not wake its
/// readers.
const TICK: Duration = Duration::from_secs(1);
/// The interval for a ring that another user may read. A process of that user can move a sleeper to its own futex
/// (`FUTEX_REQUEUE`), and the next wake does not reach the sleeper.
const EXPOSED_TICK: Duration = Duration::from_millis(100);

/// Returns the time until the clock's next full second, or tenth of a second for a ring that another
/// user may read (`exposed`): the longest sleep of a thread that should miss no wake. All sleepers of a machine end theirs at the same
/// moments, so that a process which sleeps on thousands of rings is woken once for all of them.
#[must_use]
pub fn until_tick(exposed: bool) -> Duration {
    let tick = if exposed { EXPOSED_TICK } else { TICK };
    let now = Duration::from_nanos(clock_gettime(ClockId::Monotonic).tv_nsec.unsigned_abs());
    let since = now.as_nanos() % tick.as_nanos();
    tick.saturating_sub(Duration::from_nanos(since as u64))
}

/// Registers this process with `membarrier(2)`, so that a publish needs no full fence (some 5 ns).
/// Returns whether it is registered: some containers forbid the call.
///
/// The first attach does this by itself in a process with one thread, where it costs a microsecond.
/// With more threads the kernel first waits for each processor, 9 to 20 ms. No first record
/// should wait that long. Therefore a program that has threads before it attaches (an async runtime) either calls
/// this at its start, or pays the full fences. Any thread may call this at any time. From then on, rings that are
/// already attached need no full fences either.
///
/// ```
/// if !perfring_shm::register_process() {
///     eprintln!("membarrier(2) is forbidden here: each record costs a full fence");
/// }
/// ```
///
/// Source: `membarrier_register_global_expedited` in Linux's `kernel/sched/membarrier.c`, which waits
/// for an RCU grace period unless the address space has one user.
pub fn register_process() -> bool {
    if Fences::now() == Fences::Full
        && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
    {
        Fences::registered();
    }
    Fences::now() == Fences::Asymmetric
}

/// Returns the fences of a ring that is being attached, and registers this process for the heavy
/// fences of sleepers if that takes no time.
pub(crate) fn fences() -> Fences {
    if Fences::now() == Fences::Full && has_one_thread() {
        register_process();
    }
    Fences::now()
}

/// Returns whether this process is known to have one thread: a directory's links are its
/// subdirectories and two.
fn has_one_thread() -> bool {
    rustix::fs::stat("/proc/self/task").is_ok_and(|tasks| tasks.st_nlink == 3)
}

/// Executes a fence in every thread of every registered process, and in this one. Returns whether it did, so that no wake of
/// a sleeper is missed.
pub(crate) fn heavy() -> bool {
    let fenced = membarrier(MembarrierCommand::GlobalExpedited).is_ok();
    full_fence();
    fenced
}

/// Sleeps while the word holds `value`, for at most `limit`. The futex is not private: the word is
/// in a file mapping through which other processes wake.
pub(crate) fn sleep(word: &AtomicU32, value: u32, limit: Duration) {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match futex::wait(word, futex::Flags::empty(), value, Some(&timeout)) {
        // After any of these, the caller polls again.
        Ok(()) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => {}
        // No other error is possible on a mapped word; if there were one, do not spin at full
        // speed.
        Err(_) => std::thread::sleep(limit.min(Duration::from_millis(1))),
    }
}

/// Sleeps while each of these words holds the value beside it, for at most `limit`: on all of them in one call
/// (`futex_waitv`, Linux 5.16). Returns false, and has not slept, where that cannot be.
pub(crate) fn sleep_on_any(words: impl Iterator<Item = (*mut u32, u32)>, limit: Duration) -> bool {
    /// Found once: an older kernel, or a seccomp filter. Relaxed: it guards nothing.
    static MISSING: AtomicBool = AtomicBool::new(false);
    if MISSING.load(Ordering::Relaxed) {
        return false;
    }
    let waits: Vec<Wait> =
        words.map(|(word, value)| wait_for(word, value, WaitFlags::empty())).collect();
    let until = Instant::now().checked_add(limit).map(on_the_clock);
    match futex::waitv(&waits, WaitvFlags::empty(), until.as_ref(), ClockId::Monotonic) {
        // As in `sleep`.
        Ok(_) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => true,
        Err(Errno::NOSYS | Errno::PERM) => {
            MISSING.store(true, Ordering::Relaxed);
            false
        }
        Err(_) => false,
    }
}

/// Describes one futex of several that a thread waits for.
pub(crate) fn wait_for(word: *mut u32, value: u32, private: WaitFlags) -> Wait {
    let mut wait = Wait::new();
    wait.val = value.into();
    wait.uaddr = WaitPtr::new(word.cast());
    wait.flags = WaitFlags::SIZE_U32 | private;
    wait
}

/// Converts an instant to the kernel's monotonic clock.
pub(crate) fn on_the_clock(at: Instant) -> Timespec {
    let left = Timespec::try_from(at.saturating_duration_since(Instant::now())).ok();
    let then = left.and_then(|left| clock_gettime(ClockId::Monotonic).checked_add(left));
    then.unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Sleeps as a producer until the consumer's tail has reached `target`, for at most `limit` or a
/// slice.
pub(crate) fn sleep_for_space(ring: Ring<'_>, target: u64, limit: Duration) {
    let armed = ring.prepare_space_sleep(target, || {
        heavy();
    });
    if let Some(value) = armed {
        sleep(ring.space_word(), value, limit.min(SLICE));
    }
}

/// Wakes all threads that sleep on the word, if they are owed a wake.
#[inline(always)]
pub(crate) fn wake_if(owed: Owed, word: &AtomicU32) {
    if owed.is_due() {
        wake(word);
    }
}

/// Wakes a ring's consumer, if it sleeps, without a look at its flag: a process may have taken the flag and
/// then died. Called at the moments at which this may have happened. None is on the path of a
/// record: an attach, a recovery, the first refusal of several. A consumer that is only about to sleep is not
/// woken. The promise rests on its sleep of at most a second.
#[cold]
pub(crate) fn rouse(ring: Ring<'_>) {
    wake(ring.wait_word());
}

/// Wakes all threads that sleep on the word.
#[cold]
pub(crate) fn wake(word: &AtomicU32) {
    // Fails only on an unmapped word; a sleeper wakes by itself after a slice.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
