//! Sleeping and waking across processes, and the heavy side of the asymmetric fence.

use perfring_ring::{Fences, Ring, full_fence};
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::thread::{MembarrierCommand, Timespec, membarrier};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The longest single sleep of a thread that may miss a wake: a producer waiting for a foreign perf
/// reader, which wakes nobody, and any thread where `membarrier` is forbidden.
pub const SLICE: Duration = Duration::from_millis(20);
/// The longest single sleep of all other threads. A process that dies or is stopped between taking a
/// sleeper's flag and `FUTEX_WAKE` leaves it asleep with nobody to wake it, so it looks by itself.
const LONG: Duration = Duration::from_secs(1);

/// Registers this process for the heavy fences of sleepers, once.
pub(crate) fn fences() -> Fences {
    static FENCES: OnceLock<Fences> = OnceLock::new();
    *FENCES.get_or_init(|| match membarrier(MembarrierCommand::RegisterGlobalExpedited) {
        Ok(()) => Fences::Asymmetric,
        Err(_) => Fences::Full,
    })
}

/// Executes a fence in every thread of every registered process, and in this one. Returns how long
/// the caller may sleep after it.
pub(crate) fn heavy() -> Duration {
    let fenced = membarrier(MembarrierCommand::GlobalExpedited).is_ok();
    full_fence();
    if fenced { LONG } else { SLICE }
}

/// Sleeps while the word holds `value`, for at most `limit`. The futex is not private: the word is
/// in a file mapping through which other processes wake.
pub(crate) fn sleep(word: &AtomicU32, value: u32, limit: Duration) {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match futex::wait(word, futex::Flags::empty(), value, Some(&timeout)) {
        // Whatever ended it, the caller polls again.
        Ok(()) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => {}
        // No other error is possible on a mapped word; if there were one, do not spin at full
        // speed.
        Err(_) => std::thread::sleep(limit.min(Duration::from_millis(1))),
    }
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

/// Wakes all threads that sleep on the word, if `owed`.
#[inline(always)]
pub(crate) fn wake_if(owed: bool, word: &AtomicU32) {
    if owed {
        wake(word);
    }
}

/// Wakes a ring's consumer, if it sleeps, without asking its flag, which a process may have taken and
/// then died. For the moments at which that may have happened, none of which is on the path of a
/// record: an attach, a recovery, the first refusal of several. One that is about to sleep has yet to
/// look for records.
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
