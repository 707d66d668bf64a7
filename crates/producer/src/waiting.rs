//! How a call waits between two attempts.

use perfring_ring::Refusal;
use std::time::{Duration, Instant};

/// Checks of a full ring before a waiting producer sleeps: some 50 µs in all, with the pauses
/// between them.
const SPINS: u32 = 64;
const SPIN_PAUSES: u32 = 32;

/// The sleeps of a producer that waits for the lock, or for an open reservation to end: neither wakes it. Each takes an
/// eighth of the wait so far, within these limits. The shortest is long enough for others to use the core.
const NAP: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(2);

/// For how long a call of a shared ring's producer waits for the lock by default. A holder that the scheduler takes off its
/// core comes back after a slice of those that share it: about 3 ms each by default (`base_slice_ns` of EEVDF, on machines
/// with eight cores or more). This is one slice, and time to be woken.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(5);
/// The same for rings per CPU. The holder of the lock runs on the same core. It runs again after one time slice of each of
/// the other threads on that core.
pub(crate) const CPU_LOCK_WAIT: Duration = Duration::from_millis(20);

/// For how long a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For a ring's lock.
    pub(crate) lock: Duration,
    /// For space, and for an older reservation to end.
    pub(crate) space: Duration,
}

impl Limits {
    /// For one limit of all that it may wait for.
    pub(crate) const fn all(limit: Duration) -> Self {
        Limits { lock: limit, space: limit }
    }

    /// For a call that waits for the lock only.
    pub(crate) const fn lock(limit: Duration) -> Self {
        Limits { lock: limit, space: Duration::ZERO }
    }

    /// Returns for how long a call waits after this refusal.
    #[inline]
    pub(crate) fn of(self, refusal: Refusal) -> Duration {
        match refusal {
            Refusal::Contended { .. } => self.lock,
            Refusal::Full | Refusal::Pending { .. } => self.space,
            Refusal::TooLarge { .. }
            | Refusal::Forked
            | Refusal::Replaced
            | Refusal::Corrupt { .. } => Duration::ZERO,
        }
    }
}

/// A call that waits, from its first wait on.
pub(crate) struct Waiting {
    since: Instant,
    /// Checks of a full ring, without a sleep between them.
    spun: u32,
}

/// Waits before another attempt. In a full ring it spins for the time that a fast consumer takes, and then
/// sleeps by `for_space`. `waiting` is `None` before the first wait of the call.
///
/// # Errors
/// The refusal, if the call is to return it. Without a look at the clock if the limit is zero.
#[inline]
pub(crate) fn wait_once(
    waiting: &mut Option<Waiting>,
    refusal: Refusal,
    limits: Limits,
    for_space: impl FnOnce(Duration),
) -> Result<(), Refusal> {
    let limit = limits.of(refusal);
    if limit.is_zero() {
        return Err(refusal);
    }
    let waiting = waiting.get_or_insert_with(|| Waiting { since: Instant::now(), spun: 0 });
    let waited = waiting.since.elapsed();
    let left = limit.saturating_sub(waited);
    if left.is_zero() {
        return Err(refusal);
    }
    if refusal != Refusal::Full {
        std::thread::sleep((waited / 8).clamp(NAP, NAP_MAX).min(left));
    } else if waiting.spun < SPINS {
        waiting.spun += 1;
        // Each check takes a cache line from the consumer, so they are not too frequent.
        for _ in 0..SPIN_PAUSES {
            std::hint::spin_loop();
        }
    } else {
        for_space(left);
    }
    Ok(())
}
