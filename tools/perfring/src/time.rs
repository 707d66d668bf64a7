//! Times, for people and for programs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time of `CLOCK_REALTIME` in UTC, to the microsecond: for people.
pub(crate) fn utc(ns: u64) -> String {
    humantime::format_rfc3339_micros(time(ns)).to_string()
}

fn time(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}
