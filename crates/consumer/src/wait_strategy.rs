//! How a reader waits: a choice between latency and throughput.

use perfring_ring::Count;
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
    /// Polls all the time while records come one at a time, and keeps its distance from a producer
    /// that publishes several meanwhile.
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
    /// The count of passed records at the beginning of the last poll for more.
    passed: Count,
    /// Whether the poll before the last successful poll found nothing.
    waited: bool,
}

impl Distance {
    /// The distance of a consumer: from 0 up to 64 `PAUSE` instructions, a microsecond or two, and
    /// up to four times as many from a producer that fills them.
    pub(crate) fn of_consumer(data_size: u64) -> Self {
        let passed = Count::default();
        Distance { pauses: 0, near: 64, far: 256, most: data_size / 8, passed, waited: false }
    }

    /// The distance of an observer, which is to cost a producer little.
    pub(crate) fn of_observer(data_size: u64) -> Self {
        Distance { near: 512, far: 512, ..Distance::of_consumer(data_size) }
    }

    /// Waits before a reader that has read all it knows of, and passed so much, polls the head again.
    #[cold]
    #[inline(never)]
    pub(crate) fn keep(&mut self, wait_strategy: WaitStrategy, passed: Count) {
        let found = passed.since(self.passed);
        self.passed = passed;
        if found.records == 0 {
            return self.found_nothing(); // waiting is done elsewhere
        }
        let pauses = match wait_strategy {
            WaitStrategy::Latency => 0,
            WaitStrategy::Throughput => self.far,
            WaitStrategy::Adaptive => {
                let next = self.next(found);
                std::mem::replace(&mut self.pauses, next)
            }
        };
        self.waited = false;
        for _ in 0..pauses {
            spin_loop();
        }
    }

    /// The reader is the faster one: it comes close, and stays there while each record comes after a
    /// poll that found nothing.
    #[inline]
    fn found_nothing(&mut self) {
        (self.pauses, self.waited) = (0, true);
    }

    /// Returns how many pauses are right where these found so much.
    fn next(&self, found: Count) -> u32 {
        let (pauses, bytes) = (self.pauses, found.bytes);
        let came = |each| bytes >= each * u64::from(pauses);
        if self.waited && found.records == 1 {
            0 // records come one at a time
        } else if bytes > self.most || (pauses > self.near && !came(FAST / 4)) {
            pauses / 2
        } else if bytes < TOO_CLOSE && (pauses < self.near || came(FAST)) {
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
        // An adaptive reader that has found nothing at its distance is the faster one.
        let (poll, pauses) = match wait_strategy {
            WaitStrategy::Latency | WaitStrategy::Adaptive => (Poll::Near, 0),
            WaitStrategy::Throughput => (Poll::Far, self.far),
        };
        let mut since = None;
        let mut polls = 0u32;
        loop {
            for _ in 0..pauses {
                spin_loop();
            }
            if ready(poll) {
                return true;
            }
            self.found_nothing();
            spin_loop();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(64) {
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
    use super::{Count, Distance, Poll, TOO_CLOSE, WaitStrategy};
    use std::time::Duration;

    fn of_16(records: u64) -> Count {
        Count { records, bytes: 16 * records }
    }

    /// The pauses of a reader whose producer publishes so many bytes in each pause. A poll finds at least two records of 16
    /// bytes.
    fn settled(mut distance: Distance, bytes: u64) -> u32 {
        let mut steps = Vec::new();
        for _ in 0..64 {
            let bytes = (bytes * u64::from(distance.pauses)).max(32);
            distance.pauses = distance.next(Count { records: 2, bytes });
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
        // Nearer where the producer becomes slower, but not because a poll finds one record.
        let was_fast = |pauses| Distance { pauses, ..consumer() };
        assert_eq!([3, 4].map(|bytes| settled(was_fast(256), bytes)), [64, 256]);
        assert_eq!(was_fast(64).next(of_16(1)), 64);
        // Before the ring is full.
        let bytes = (1 << 17) + 1;
        assert_eq!(was_fast(256).next(Count { records: 2, bytes }), 128);
    }

    #[test]
    fn an_observer_keeps_the_same_distance_from_all() {
        assert_eq!(
            [0, 15, 16].map(|bytes| settled(Distance::of_observer(1 << 20), bytes)),
            [512; 3]
        );
    }

    /// A reader, and how many records it has passed.
    struct TestReader {
        distance: Distance,
        passed: u64,
    }

    impl TestReader {
        fn new() -> Self {
            TestReader { distance: Distance::of_consumer(1 << 20), passed: 0 }
        }

        /// Looks at the ring after the last look found so many records. Returns the pauses of the next look.
        fn found(&mut self, records: u64) -> u32 {
            self.passed += records;
            self.distance.keep(WaitStrategy::Adaptive, of_16(self.passed));
            self.distance.pauses
        }

        /// Waits, and gets the next record at the nth look.
        fn wait(&mut self, looks: u32) {
            let mut look = 0;
            let ready = |poll| {
                assert_eq!(poll, Poll::Near);
                look += 1;
                look == looks
            };
            assert!(self.distance.spin(WaitStrategy::Adaptive, Duration::MAX, ready));
        }
    }

    #[test]
    fn a_reader_stays_close_while_records_come_one_at_a_time() {
        let (mut waits, mut polls) = (TestReader::new(), TestReader::new());
        for _ in 0..1000 {
            waits.wait(3);
            assert_eq!(waits.found(1), 0);
            // Without a wait.
            assert_eq!([0, 0, 1].map(|records| polls.found(records)), [0; 3]);
        }
    }

    #[test]
    fn a_burst_does_not_take_a_reader_away_from_the_next_record() {
        let mut reader = TestReader::new();
        for _ in 0..1000 {
            // One that it has waited for, then the rest, and nothing.
            reader.wait(2);
            assert_eq!([1, 4, 5].map(|records| reader.found(records)), [0, 1, 2]);
            reader.wait(2);
            assert_eq!(reader.distance.pauses, 0);
            // All at once; it polls instead of waiting.
            assert_eq!([10, 0, 0].map(|records| reader.found(records)), [1, 0, 0]);
        }
    }

    #[test]
    fn a_flood_is_recognized_at_the_eighth_look() {
        let mut reader = TestReader::new();
        reader.wait(2);
        let pauses = [1, 2, 2, 2, 2, 2, 2, 2].map(|records| reader.found(records));
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 64]);
        // Also if each look finds one record, and none finds nothing.
        let mut reader = TestReader::new();
        assert_eq!([1; 7].map(|records| reader.found(records)), [1, 2, 4, 8, 16, 32, 64]);
        // A wait that need not wait changes nothing.
        reader.wait(1);
        assert_eq!(reader.distance.pauses, 64);
    }
}
