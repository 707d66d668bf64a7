//! How a reader waits: a choice between latency and throughput.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// How often a reader polls the ring.
///
/// A reader that polls all the time sees a record soonest, and takes the cache line of the head
/// from the producer for every record. A reader that keeps its distance lets records accumulate for
/// a moment, which moves several times as many small records a second (`benches/RESULTS.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Polls all the time.
    Latency,
    /// Executes 64 `PAUSE` instructions (a microsecond or two) before every poll; an observer, 512.
    Throughput,
    /// Keeps its distance from a producer that publishes faster than it reads, and stays close to
    /// one that does not.
    #[default]
    Adaptive,
}

/// An adaptive reader that found less than this many bytes at a poll is too close.
const TOO_CLOSE: u64 = 16 << 10;
/// How long a waiting reader spins before it sleeps.
pub(crate) const SPIN: Duration = Duration::from_micros(50);

/// The distance from which a reader polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// Continuously: the next record is wanted as soon as it is published.
    Near,
    /// Now and then: the producer is disturbed least.
    Far,
}

/// The state of a wait strategy.
#[derive(Debug)]
pub(crate) struct Distance {
    pauses: u32,
    /// `PAUSE` instructions before a poll of a reader that keeps its distance.
    far: u32,
    /// At more bytes than this at a poll, the distance is too great.
    most: u64,
    /// The cursor at the last poll.
    cursor: u64,
}

impl Distance {
    /// The distance of a consumer: 64 `PAUSE` instructions, a microsecond or two.
    pub(crate) fn of_consumer(data_size: u64) -> Self {
        Distance { pauses: 0, far: 64, most: data_size / 8, cursor: 0 }
    }

    /// The distance of an observer, which is to cost a producer little: eight times a consumer's.
    pub(crate) fn of_observer(data_size: u64) -> Self {
        Distance { far: 512, ..Distance::of_consumer(data_size) }
    }

    /// Waits before a reader that has read all it knows of, up to `cursor`, polls the head again.
    #[cold]
    #[inline(never)]
    pub(crate) fn keep(&mut self, wait_strategy: WaitStrategy, cursor: u64) {
        let found = cursor.wrapping_sub(self.cursor);
        self.cursor = cursor;
        if found == 0 {
            return; // it has polled and found nothing: waiting is done elsewhere
        }
        let pauses = match wait_strategy {
            WaitStrategy::Latency => 0,
            WaitStrategy::Throughput => self.far,
            WaitStrategy::Adaptive => {
                let pauses = self.pauses;
                if found > self.most {
                    self.pauses /= 2;
                } else if found < TOO_CLOSE {
                    self.pauses = (pauses * 2).clamp(1, self.far);
                }
                pauses
            }
        };
        for _ in 0..pauses {
            spin_loop();
        }
    }

    /// Spins until `ready` returns true or the time is over. Returns whether it was ready.
    #[inline]
    pub(crate) fn spin(
        &mut self,
        wait_strategy: WaitStrategy,
        limit: Duration,
        mut ready: impl FnMut(Poll) -> bool,
    ) -> bool {
        let pauses = match wait_strategy {
            WaitStrategy::Latency => 0,
            WaitStrategy::Throughput => self.far,
            WaitStrategy::Adaptive => self.pauses,
        };
        let mut since = None;
        let mut polls = 0u32;
        loop {
            for _ in 0..pauses {
                spin_loop();
            }
            let poll = if pauses == 0 { Poll::Near } else { Poll::Far };
            if ready(poll) {
                if polls > 0 {
                    self.pauses = 0; // the reader is the faster one
                }
                return true;
            }
            spin_loop();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(64) {
                self.pauses = 0;
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() >= limit {
                    return false;
                }
            }
        }
    }
}

/// Returns the time that is left until the deadline, or for ever; `None` once it is over.
pub(crate) fn left(deadline: Option<Instant>) -> Option<Duration> {
    let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
    (!left.is_zero()).then_some(left)
}
