//! The positions of events in time.

use crate::event::{Event, What};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;
/// How far a timestamp may be ahead of this machine's clock.
const AHEAD: u64 = SECOND;
/// How far the wall-clock times of another machine may be ahead of this one's.
const WALL_AHEAD: u64 = 60 * SECOND;
/// How far a timestamp of an unknown clock may be after the newest one.
const GAP: u64 = 30 * DAY;
/// An upper limit of a machine's uptime.
const LONGEST: u64 = 3650 * DAY;

/// Assigns each event a time on the timestamps' clock: that of its timestamp, or else the newest
/// one before it, as events arrive in the order of time.
///
/// A timestamp in the future is ignored: a ring is not trusted, and one such timestamp would shift
/// other events to it.
#[derive(Debug, Default)]
pub struct Timeline {
    newest: u64,
    /// The machine's clock when it was last read.
    now: u64,
}

impl Timeline {
    /// Returns the event's time, ns of `CLOCK_BOOTTIME`; 0 before the first timestamp.
    pub fn time_of(&mut self, event: &Event<'_>) -> u64 {
        let (timestamp, wall) = match &event.what {
            What::Record(record) => (record.time, record.wall),
            What::Lost(loss) => (loss.time, loss.wall),
            What::Began | What::Ended => (None, None),
        };
        match timestamp {
            Some(timestamp) if self.can_be(timestamp, wall) => {
                self.newest = self.newest.max(timestamp);
                timestamp
            }
            _ => self.newest,
        }
    }

    fn can_be(&mut self, timestamp: u64, wall: Option<u64>) -> bool {
        if timestamp <= self.now.saturating_add(AHEAD) {
            return true;
        }
        self.now = nanos(clock_gettime(ClockId::Boottime));
        if timestamp <= self.now.saturating_add(AHEAD) {
            return true;
        }
        // It may be from a recording of a machine with a longer uptime.
        match wall {
            _ if timestamp > LONGEST => false,
            Some(wall) => wall <= nanos(clock_gettime(ClockId::Realtime)) + WALL_AHEAD,
            None => self.newest == 0 || timestamp <= self.newest.saturating_add(GAP),
        }
    }
}

/// Returns the wall clock, ns since 1970.
pub fn wall_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn nanos(time: Timespec) -> u64 {
    (time.tv_sec as u64).saturating_mul(SECOND).saturating_add(time.tv_nsec as u64)
}

/// Formats ns since 1970 in UTC, in the format of RFC 3339, to the ns.
///
/// ```
/// use perfring_events::utc;
/// assert_eq!(utc(1_782_907_200_000_000_001).to_string(), "2026-07-01T12:00:00.000000001Z");
/// ```
#[must_use]
pub fn utc(ns: u64) -> impl fmt::Display {
    // The sum is in the year 2554 at most.
    let time = UNIX_EPOCH.checked_add(Duration::from_nanos(ns)).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_nanos(time)
}

/// Formats ns since 1970 in UTC, in the format of RFC 3339, to the µs: for people.
#[must_use]
pub fn utc_micros(ns: u64) -> impl fmt::Display {
    let time = UNIX_EPOCH.checked_add(Duration::from_nanos(ns)).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_micros(time)
}

/// Formats the time of a record for people: that of the wall clock, ns since 1970, or without it the time since the machine
/// started.
///
/// ```
/// use perfring_events::moment;
/// assert_eq!(moment(61_000_002_000, None), "boot+61.000002s");
/// assert_eq!(moment(61_000_002_000, Some(1_782_907_200_000_001_000)), "2026-07-01T12:00:00.000001Z");
/// ```
#[must_use]
pub fn moment(timestamp: u64, wall: Option<u64>) -> String {
    match wall {
        Some(ns) => utc_micros(ns).to_string(),
        None => format!("boot+{}.{:06}s", timestamp / 1_000_000_000, timestamp / 1000 % 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::{utc, utc_micros};

    #[test]
    fn a_time_has_nine_digits_after_the_second_whatever_it_is() {
        assert_eq!(utc(0).to_string(), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(utc(1_782_907_199_999_999_999).to_string(), "2026-07-01T11:59:59.999999999Z");
        assert_eq!(utc(u64::MAX).to_string(), "2554-07-21T23:34:33.709551615Z");
        assert_eq!(utc_micros(u64::MAX).to_string(), "2554-07-21T23:34:33.709551Z");
    }
}
