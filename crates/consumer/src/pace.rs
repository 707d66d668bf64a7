//! How a reader waits: the choice between latency and throughput.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// How a reader that found nothing looks again.
///
/// A reader that looks at once sees a record soonest, and takes the cache line of the head from
/// the producer for every record. One that keeps its distance lets records pile up for a moment:
/// that moved two to four times as many small records a second where it was measured
/// (`benches/RESULTS.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Looks all the time.
    Latency,
    /// 64 `PAUSE` instructions (a microsecond or two) between two looks.
    Throughput,
    /// Keeps its distance from a producer that publishes faster than it looks, and comes close to
    /// one that does not.
    #[default]
    Adaptive,
}

/// `PAUSE` instructions between two looks of a reader that keeps its distance.
const FAR: u32 = 64;
/// Empty looks after which an adaptive reader comes close again.
const NEAR_AFTER: u32 = 8;
/// How long a waiting reader spins before it sleeps.
pub(crate) const SPIN: Duration = Duration::from_micros(50);

/// The state of a pace.
#[derive(Debug, Default)]
pub(crate) struct Distance {
    pauses: u32,
}

impl Distance {
    /// Spins until `ready` says so or the time is over. Returns whether it was ready.
    #[inline]
    pub(crate) fn spin(
        &mut self,
        pace: Pace,
        limit: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        let pauses = match pace {
            Pace::Latency => 0,
            Pace::Throughput => FAR,
            Pace::Adaptive => self.pauses,
        };
        let mut since = None;
        let mut looks = 0u32;
        loop {
            for _ in 0..pauses {
                spin_loop();
            }
            if ready() {
                // Something came at the first looks: the producer is the faster one.
                self.pauses = if looks < NEAR_AFTER { (self.pauses * 2).clamp(1, FAR) } else { 0 };
                return true;
            }
            spin_loop();
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(64) {
                self.pauses = 0;
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() >= limit {
                    return false;
                }
            }
        }
    }
}
