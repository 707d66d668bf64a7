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
    /// Executes 256 `PAUSE` instructions (some microseconds) before every poll; an observer, 512.
    Throughput,
    /// Keeps its distance from a producer that publishes faster than it reads, and stays close to
    /// one that does not.
    #[default]
    Adaptive,
}

/// An adaptive reader that found less than this many bytes at a poll is too close.
const TOO_CLOSE: u64 = 16 << 10;
/// Bytes that a producer publishes for each `PAUSE`, about 1 GB/s, if it is worth a greater distance than
/// [`Distance::near`]; a quarter of them is too few to keep it.
const FAST: u64 = 16;
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
    /// Up to so many `PAUSE` instructions before a poll, from 0 on, however slow the producer is.
    near: u32,
    /// The most of them.
    far: u32,
    /// At more bytes than this at a poll, the distance is too great.
    most: u64,
    /// The cursor at the last poll.
    cursor: u64,
}

impl Distance {
    /// The distance of a consumer: from 0 up to 64 `PAUSE` instructions, a microsecond or two, and up to four times as many from
    /// a producer that fills them.
    pub(crate) fn of_consumer(data_size: u64) -> Self {
        Distance { pauses: 0, near: 64, far: 256, most: data_size / 8, cursor: 0 }
    }

    /// The distance of an observer, which is to cost a producer little.
    pub(crate) fn of_observer(data_size: u64) -> Self {
        Distance { near: 512, far: 512, ..Distance::of_consumer(data_size) }
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
                let next = self.next(found);
                std::mem::replace(&mut self.pauses, next)
            }
        };
        for _ in 0..pauses {
            spin_loop();
        }
    }

    /// Returns how many pauses are right where these found so many bytes.
    fn next(&self, found: u64) -> u32 {
        let pauses = self.pauses;
        let came = |bytes| found >= bytes * u64::from(pauses);
        if found > self.most || (pauses > self.near && !came(FAST / 4)) {
            pauses / 2
        } else if found < TOO_CLOSE && (pauses < self.near || came(FAST)) {
            (pauses * 2).clamp(1, self.far)
        } else {
            pauses
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

#[cfg(test)]
mod tests {
    use super::{Distance, TOO_CLOSE};

    /// The pauses of a reader that finds what a producer publishes at so many bytes for each, and records of 16.
    fn settled(mut distance: Distance, bytes: u64) -> u32 {
        let mut steps = Vec::new();
        for _ in 0..64 {
            distance.pauses = distance.next((bytes * u64::from(distance.pauses)).max(16));
            steps.push(distance.pauses);
        }
        assert_eq!(steps[62], steps[63], "it goes to and fro: {steps:?}");
        steps[63]
    }

    #[test]
    fn a_consumer_goes_as_far_from_a_producer_as_that_is_fast() {
        let consumer = || Distance::of_consumer(1 << 20);
        assert_eq!([0, 1, 15].map(|bytes| settled(consumer(), bytes)), [64; 3]);
        assert_eq!([16, 63].map(|bytes| settled(consumer(), bytes)), [256; 2]);
        // Until it finds enough at a poll.
        assert_eq!(settled(consumer(), 200), 128);
        const { assert!(200 * 128 >= TOO_CLOSE) };
        // Nearer where the producer becomes slower, but not because records come one at a time.
        let was_fast = |pauses| Distance { pauses, ..consumer() };
        assert_eq!([3, 4].map(|bytes| settled(was_fast(256), bytes)), [64, 256]);
        assert_eq!(was_fast(64).next(16), 64);
        // Before the ring is full.
        assert_eq!(was_fast(256).next((1 << 17) + 1), 128);
    }

    #[test]
    fn an_observer_keeps_the_same_distance_from_all() {
        assert_eq!(
            [0, 15, 16].map(|bytes| settled(Distance::of_observer(1 << 20), bytes)),
            [512; 3]
        );
    }
}
