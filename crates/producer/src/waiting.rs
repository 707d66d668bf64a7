//! How a call of a producer of many waits between two attempts.

use crate::space::{SPINS, spin};
use perfring_ring::Refusal;
use std::time::{Duration, Instant};

/// The first sleep of a producer that waits for the lock, or for an open reservation to end: neither wakes
/// it. The sleep doubles.
const NAP: Duration = Duration::from_micros(20);
const NAP_MAX: Duration = Duration::from_millis(2);

/// For how long a call with rings per CPU waits.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// For a ring's lock.
    pub(crate) lock: Duration,
    /// For space, and for an older reservation to end.
    pub(crate) space: Duration,
}

impl Limits {
    /// For a call without a timeout. The holder of the lock runs on the same core. It runs again after one time slice of
    /// each of the other threads on that core.
    pub(crate) const SHORT: Self =
        Limits { lock: Duration::from_millis(20), space: Duration::ZERO };
}

/// A call that waits, from its first wait on.
pub(crate) struct Waiting {
    since: Instant,
    nap: Duration,
    /// Checks of a full ring, without a sleep between them.
    spun: u32,
}

/// Waits before another attempt of a call that waits for at most `limit`. Where the ring is full, spins for the time that
/// a fast consumer takes, then sleeps by `for_space`. `waiting` is `None` before the first wait of the call.
///
/// # Errors
/// The refusal, if the call is to return it. Without a look at the clock if the limit is zero.
#[cold]
#[inline(never)]
pub(crate) fn wait_once(
    waiting: &mut Option<Waiting>,
    refusal: Refusal,
    limit: Duration,
    for_space: impl FnOnce(Duration),
) -> Result<(), Refusal> {
    if limit.is_zero() {
        return Err(refusal);
    }
    let waiting =
        waiting.get_or_insert_with(|| Waiting { since: Instant::now(), nap: NAP, spun: 0 });
    let left = limit.saturating_sub(waiting.since.elapsed());
    match refusal {
        _ if left.is_zero() => return Err(refusal),
        Refusal::Full if waiting.spun < SPINS => {
            waiting.spun += 1;
            spin();
        }
        Refusal::Full => for_space(left),
        Refusal::Contended { .. } | Refusal::Pending { .. } => {
            std::thread::sleep(waiting.nap.min(left));
            waiting.nap = (waiting.nap * 2).min(NAP_MAX);
        }
        Refusal::TooLarge { .. }
        | Refusal::Forked
        | Refusal::Replaced
        | Refusal::Corrupt { .. } => return Err(refusal),
    }
    Ok(())
}
