//! How ends wait: for each other, for room, and between two polls.

use crate::CompareError;
use crate::contestant::{Setup, failed};
use perfring_bench::WaitStrategy;
use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// How long an end waits for the other one to appear.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How long it polls without naps.
const PROMPT: Duration = Duration::from_millis(5);

/// Tries again until there is something, for at most [`PATIENCE`]. Not on a fast path.
pub(crate) fn until<T>(
    contestant: &'static str,
    what: &'static str,
    mut ready: impl FnMut() -> Result<Option<T>, CompareError>,
) -> Result<T, CompareError> {
    let start = Instant::now();
    loop {
        if let Some(found) = ready()? {
            return Ok(found);
        }
        let waited = start.elapsed();
        if waited > PATIENCE {
            return Err(failed(contestant)(what));
        }
        // A cold start is measured, too: it should not end with a nap.
        if waited < PROMPT {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Waits of a sender that finds no room.
#[derive(Default)]
pub(crate) struct Room(u32);

impl Room {
    /// Spins, and yields the core from time to time: the reader may need it.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&mut self) {
        spin_loop();
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(4096) {
            std::thread::yield_now();
        }
    }
}

/// Waits until `attempt` succeeds.
#[inline(always)]
pub(crate) fn wait_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut room = Room::default();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        room.wait();
    }
}

/// The rules of [`perfring_bench::contest::Waits`] for a reader that can poll only by reading: a
/// wait is a number of `PAUSE` instructions, and the caller's next read is the poll.
pub(crate) struct Polls {
    pace: WaitStrategy,
    pauses: u32,
    empty: u32,
}

/// The values of [`perfring_bench::contest::Waits`].
const FAR: u32 = 64;
const NEAR_AFTER: u32 = 8;
const POLLS: u32 = 64;

impl Polls {
    pub(crate) fn new(pace: WaitStrategy) -> Self {
        Polls { pace, pauses: 0, empty: 0 }
    }

    /// Waits after a read that found nothing.
    #[inline]
    pub(crate) fn wait(&mut self) {
        let pauses = match self.pace {
            WaitStrategy::Latency => 0,
            WaitStrategy::Throughput => FAR,
            WaitStrategy::Adaptive => self.pauses,
        };
        for _ in 0..=pauses {
            spin_loop();
        }
        self.empty += 1;
        if self.empty == POLLS {
            (self.pauses, self.empty) = (0, 0);
        }
    }

    /// Adapts after a read that found something.
    #[inline(always)]
    pub(crate) fn found(&mut self) {
        if self.empty != 0 {
            let near = self.empty <= NEAR_AFTER;
            self.pauses = if near { (self.pauses * 2).clamp(1, FAR) } else { 0 };
            self.empty = 0;
        }
    }

    /// Describes the polls, or how the reader sleeps.
    pub(crate) fn or_asleep(setup: &Setup, how: &str) -> String {
        if setup.sleeping { how.to_owned() } else { Self::about(setup.pace) }
    }

    /// Describes the polls.
    pub(crate) fn about(pace: WaitStrategy) -> String {
        match pace {
            WaitStrategy::Latency => "busy, 1 PAUSE between polls".to_owned(),
            WaitStrategy::Throughput => "busy, 64 PAUSE between polls".to_owned(),
            WaitStrategy::Adaptive => {
                "busy, 1 to 64 PAUSE between polls, by the shared rule".to_owned()
            }
        }
    }
}
