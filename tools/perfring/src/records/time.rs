//! The times of records, and `--since`.

use crate::failure::Failure;
use perfring_consumer::{Anchors, Item, Location, RecordRef, Snapshot, advanced::MachineClock};
use perfring_export::moment;
use perfring_types::read::parse_duration;
use std::time::{Duration, UNIX_EPOCH};

/// When a record was published, from its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    /// ns of the ring's clock.
    pub(crate) timestamp: u64,
    /// The wall clock's ns since 1970 then, if it is known.
    pub(crate) wall: Option<u64>,
}

impl When {
    /// Returns `None` if the record has no timestamp.
    pub(crate) fn of(record: &RecordRef<'_>, anchors: &Anchors) -> Option<Self> {
        Some(When { timestamp: record.time?, wall: record.wall(anchors) })
    }

    /// Formats the wall-clock time, or the time since the machine started.
    pub(crate) fn text(&self) -> String {
        moment(self.timestamp, self.wall)
    }
}

/// Formats a time of `CLOCK_REALTIME` in UTC, to the nanosecond.
pub(crate) fn exact_utc(ns: u64) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(ns)).to_string()
}

/// The value of `--since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// This long before some moment.
    Ago(Duration),
    /// A wall-clock time, ns since 1970.
    At(u64),
}

/// Parses a length of time, or a time.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(Since::Ago(ago));
    }
    let time = humantime::parse_rfc3339_weak(text).map_err(
        |_| "write a length of time, like 5s or 2h 30m, or a UTC time, like 2026-07-01T12:00:00Z",
    )?;
    let ns = time.duration_since(UNIX_EPOCH).map_err(|_| "a time before 1970".to_owned())?;
    Ok(Since::At(ns.as_nanos().try_into().unwrap_or(u64::MAX)))
}

/// The first moment that is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// By the ring's clock, which cannot be set.
    Timestamp(u64),
    /// By the wall clock, ns since 1970.
    Wall(u64),
}

impl Bound {
    /// Returns whether a time is selected; `None` if that is unknown.
    pub(crate) fn takes(self, when: Option<When>) -> Option<bool> {
        match self {
            Bound::Timestamp(first) => when.map(|when| when.timestamp >= first),
            Bound::Wall(first) => when.and_then(|when| when.wall).map(|wall| wall >= first),
        }
    }
}

impl Since {
    /// Counts a length of time back from this timestamp.
    pub(crate) fn before(self, timestamp: u64) -> Bound {
        match self {
            Since::At(ns) => Bound::Wall(ns),
            Since::Ago(ago) => {
                let ago = ago.as_nanos().try_into().unwrap_or(u64::MAX);
                Bound::Timestamp(timestamp.saturating_sub(ago))
            }
        }
    }

    /// Counts a length of time back from now: for records still to come.
    pub(crate) fn before_now(self) -> Result<Bound, Failure> {
        let clock = MachineClock::find().map_err(Failure::general)?;
        Ok(self.before(clock.now_ns()))
    }

    /// Counts a length of time back from the newest record: for a snapshot.
    pub(crate) fn before_newest(self, snapshot: &Snapshot) -> Bound {
        let newest = snapshot.iter().filter_map(|item| match item {
            Ok(Item::Record(record)) => record.time,
            _ => None,
        });
        self.before(newest.last().unwrap_or(0))
    }
}

/// The failure of `--since` for a ring without timestamps.
pub(crate) fn untimed(location: &Location) -> Failure {
    Failure::Usage(format!(
        "{location} has no timestamps, so --since cannot be applied: create rings with `perfring \
         create --time`"
    ))
}

/// The failure of `--since` for a recording without timestamps.
pub(crate) fn untimed_recording(path: &std::path::Path) -> Failure {
    Failure::Usage(format!(
        "{} has no timestamps, so --since cannot be applied: record rings that were created with \
         `perfring create --time`",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_and_formatted() {
        assert_eq!(since("5s"), Ok(Since::Ago(Duration::from_secs(5))));
        assert_eq!(since("2h 30m"), Ok(Since::Ago(Duration::from_secs(9000))));
        assert_eq!(since("1970-01-01T00:00:01.5Z"), Ok(Since::At(1_500_000_000)));
        assert_eq!(since("1970-01-01 00:00:02"), Ok(Since::At(2_000_000_000)));
        assert!(since("5").is_err() && since("yesterday").is_err());
        assert_eq!(exact_utc(1_500_000_001), "1970-01-01T00:00:01.500000001Z");
    }
}
