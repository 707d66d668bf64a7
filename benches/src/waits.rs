//! How ends wait: for each other, for room, and between two polls.

use crate::error::{BenchError, Result, failed};
use serde::{Deserialize, Serialize};
use std::hint::spin_loop;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How a reader that found nothing polls again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitStrategy {
    /// Polls all the time.
    Latency,
    /// Polls after 64 `PAUSE` instructions.
    Throughput,
    /// Keeps its distance from a producer that is faster than it polls, and stays close to a slower
    /// one.
    #[default]
    Adaptive,
}

impl WaitStrategy {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            WaitStrategy::Latency => "latency",
            WaitStrategy::Throughput => "throughput",
            WaitStrategy::Adaptive => "adaptive",
        }
    }

    /// Describes the polls of a reader that waits by [`Waits`] or by [`Polls`].
    pub fn polls(self) -> String {
        match self {
            WaitStrategy::Latency => "busy, 1 PAUSE between polls",
            WaitStrategy::Throughput => "busy, 64 PAUSE between polls",
            WaitStrategy::Adaptive => "busy, 1 to 64 PAUSE between polls, by the shared rule",
        }
        .to_owned()
    }

    /// Returns the `PAUSE` instructions before a poll, where `adapted` are those of the adaptive
    /// one.
    fn pauses(self, adapted: u32) -> u32 {
        match self {
            WaitStrategy::Latency => 0,
            WaitStrategy::Throughput => FAR,
            WaitStrategy::Adaptive => adapted,
        }
    }
}

impl From<WaitStrategy> for perfring_consumer::WaitStrategy {
    fn from(wait_strategy: WaitStrategy) -> Self {
        match wait_strategy {
            WaitStrategy::Latency => perfring_consumer::WaitStrategy::Latency,
            WaitStrategy::Throughput => perfring_consumer::WaitStrategy::Throughput,
            WaitStrategy::Adaptive => perfring_consumer::WaitStrategy::Adaptive,
        }
    }
}

impl FromStr for WaitStrategy {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self> {
        [WaitStrategy::Latency, WaitStrategy::Throughput, WaitStrategy::Adaptive]
            .into_iter()
            .find(|wait_strategy| wait_strategy.name() == text)
            .ok_or_else(|| BenchError::Usage(format!("no such reader: {text}")))
    }
}

/// How long an end waits for the other one to appear.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long it polls without naps.
const PROMPT: Duration = Duration::from_millis(5);

/// Tries again until there is something, for at most [`PATIENCE`]. Not on a fast path.
///
/// # Errors
/// Those of `ready`, and `what` if there is nothing for so long.
pub fn until<T>(
    contestant: &'static str,
    what: &'static str,
    mut ready: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
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
pub struct Room(u32);

impl Room {
    /// Spins, and yields the core from time to time: the reader may need it.
    #[cold]
    #[inline(never)]
    pub fn wait(&mut self) {
        spin_loop();
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(4096) {
            std::thread::yield_now();
        }
    }
}

/// `PAUSE` instructions of a reader that keeps its distance.
const FAR: u32 = 64;
/// Empty polls after which an adaptive reader comes close again.
const NEAR_AFTER: u32 = 8;
/// Polls after which the caller gets control.
const POLLS: u32 = 64;

/// The same three wait strategies, by the same rules, as perfring's.
pub struct Waits {
    wait_strategy: WaitStrategy,
    pauses: u32,
}

impl Waits {
    /// Waits according to this strategy.
    pub fn new(wait_strategy: WaitStrategy) -> Self {
        Waits { wait_strategy, pauses: 0 }
    }

    /// Waits until `is_behind`, or for some microseconds.
    #[inline]
    pub fn wait(&mut self, is_behind: impl Fn() -> bool) {
        let pauses = self.wait_strategy.pauses(self.pauses);
        for poll in 0..POLLS {
            for _ in 0..pauses {
                spin_loop();
            }
            if is_behind() {
                // Something arrived at the first polls: the sender is the faster one.
                self.pauses = if poll < NEAR_AFTER { (self.pauses * 2).clamp(1, FAR) } else { 0 };
                return;
            }
            spin_loop();
        }
        self.pauses = 0;
    }
}

/// The rules of [`Waits`] for a reader that can poll only by reading: a wait is a number of `PAUSE`
/// instructions, and the caller's next read is the poll.
pub struct Polls {
    pace: WaitStrategy,
    pauses: u32,
    empty: u32,
}

impl Polls {
    /// Waits according to this strategy.
    pub fn new(pace: WaitStrategy) -> Self {
        Polls { pace, pauses: 0, empty: 0 }
    }

    /// Waits after a read that found nothing.
    #[inline]
    pub fn wait(&mut self) {
        for _ in 0..=self.pace.pauses(self.pauses) {
            spin_loop();
        }
        self.empty += 1;
        if self.empty == POLLS {
            (self.pauses, self.empty) = (0, 0);
        }
    }

    /// Adapts after a read that found something.
    #[inline(always)]
    pub fn found(&mut self) {
        if self.empty != 0 {
            let near = self.empty <= NEAR_AFTER;
            self.pauses = if near { (self.pauses * 2).clamp(1, FAR) } else { 0 };
            self.empty = 0;
        }
    }
}
