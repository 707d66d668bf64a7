//! Durations, as `10s`, `500ms` or `1m 30s`.

use serde::{Deserialize, Deserializer};
use std::time::{Duration, Instant};

/// The longest duration that is accepted: with it, every sum of times is a time.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Parses a duration with its unit, or several: at most 100 years.
///
/// ```
/// use perfring_export::duration;
/// use std::time::Duration;
/// assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
/// assert!(duration("10").unwrap_err().contains("with its unit"));
/// assert!(duration("101 years").unwrap_err().contains("too long"));
/// ```
///
/// # Errors
/// A sentence that says how it is written.
pub fn duration(text: &str) -> Result<Duration, String> {
    let no_unit =
        || format!("{text:?} is no time: write it with its unit, like 250ms, 10s or 1h 30m");
    let too_long = || format!("{text:?} is too long: the longest is 36500 days");
    match humantime::parse_duration(text) {
        Ok(_) if text.trim().parse::<f64>().is_ok() => Err(no_unit()),
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) | Err(humantime::DurationError::NumberOverflow) => Err(too_long()),
        Err(_) => Err(no_unit()),
    }
}

/// Returns the time so long after another, and 100 years after it at most.
///
/// ```
/// use perfring_export::later;
/// use std::time::{Duration, Instant};
/// assert!(later(Instant::now(), Duration::MAX) > Instant::now());
/// ```
#[must_use]
#[expect(clippy::arithmetic_side_effects, reason = "no clock ends within that time")]
pub fn later(time: Instant, by: Duration) -> Instant {
    time + bounded(by)
}

/// Returns a duration that can be added to any time: 100 years at most.
pub(crate) fn bounded(duration: Duration) -> Duration {
    duration.min(LONGEST)
}

/// Reads a duration of a file, for serde's `deserialize_with`.
///
/// # Errors
/// As [`duration`]. A bare 0 needs no unit.
pub fn read_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(u64),
    }
    let text = match Written::deserialize(from)? {
        Written::Text(text) => text,
        Written::Number(number) => number.to_string(),
    };
    match &*text {
        "0" => Ok(Duration::ZERO),
        text => duration(text).map_err(serde::de::Error::custom),
    }
}

/// Reads the value of a key that may be left out.
///
/// # Errors
/// As [`read_duration`].
pub fn read_some_duration<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    read_duration(from).map(Some)
}
