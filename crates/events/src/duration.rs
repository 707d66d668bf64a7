//! Times that do not overflow, and the durations and sizes of a configuration.

use perfring_types::read::{parse_duration, parse_size};
use serde::Deserializer;
use serde::de::{Error, Visitor};
use std::fmt;
use std::time::{Duration, Instant};

/// What is added to a time, at most: 100 years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Returns the time so long after another, and 100 years after it at most.
///
/// ```
/// use perfring_events::later;
/// use std::time::{Duration, Instant};
/// assert!(later(Instant::now(), Duration::MAX) > Instant::now());
/// ```
#[must_use]
#[expect(clippy::arithmetic_side_effects, reason = "no clock ends within that time")]
pub fn later(time: Instant, by: Duration) -> Instant {
    time + bounded(by)
}

/// Returns a duration that can be added to any time: 100 years at most.
pub fn bounded(duration: Duration) -> Duration {
    duration.min(LONGEST)
}

/// Reads a duration of a file, for serde's `deserialize_with`.
///
/// # Errors
/// As [`parse_duration`].
pub fn read_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = from.deserialize_any(Written("a duration with its unit, like \"10s\""))?;
    parse_duration(&text).map_err(Error::custom)
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

/// Reads a size in bytes of a file, for serde's `deserialize_with`: a number, or a text with a unit.
///
/// # Errors
/// As [`parse_size`].
pub fn read_size<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let text = from.deserialize_any(Written("a size in bytes, like 65536 or \"64K\""))?;
    let bytes = parse_size(&text).map_err(Error::custom)?;
    T::try_from(bytes).map_err(|_| Error::custom(format!("{text:?} is too large")))
}

/// A text, or a whole number as its digits; the text says what is expected.
struct Written(&'static str);

impl Visitor<'_> for Written {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
