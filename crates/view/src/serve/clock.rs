//! Times as the page has them: ns since this server was started, so that a number of JavaScript holds them exactly.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The beginning of the page's time, ns since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    wall: u64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Clock { wall: wall_now() }
    }

    /// Counts from this time, ns since 1970: for a recording.
    pub(super) fn of(wall: u64) -> Self {
        Clock { wall }
    }

    /// Returns the beginning, ns since 1970.
    pub(super) fn wall(&self) -> u64 {
        self.wall
    }

    /// Converts a moment, by the clock of now: an `Instant` does not count while the machine sleeps, and records' times do.
    pub(super) fn at(&self, at: Instant) -> i64 {
        let now = self.of_wall(wall_now());
        now.saturating_sub_unsigned(nanos(Instant::now().saturating_duration_since(at)))
    }

    /// Converts a moment, to 10 ms: it is the same number whenever that is asked, but for few moments.
    pub(super) fn near(&self, at: Instant) -> i64 {
        const STEP: i64 = 10_000_000;
        self.at(at).saturating_add(STEP / 2).div_euclid(STEP) * STEP
    }

    /// Converts a time that is in ns since 1970.
    pub(super) fn of_wall(&self, wall: u64) -> i64 {
        wall.wrapping_sub(self.wall) as i64
    }
}

/// Returns how much of a processor this thread has had: less than the time that has gone by, where others wanted it.
pub(super) fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn wall_now() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
