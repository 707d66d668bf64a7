//! Durations, as `10s`, `500ms` or `1m 30s`.

use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// Parses a duration with its unit.
///
/// ```
/// use perfring_export::duration;
/// use std::time::Duration;
/// assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
/// assert!(duration("10").is_err());
/// ```
///
/// # Errors
/// A sentence that says how it is written.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = |_| format!("{text:?} is no time: write it with a unit, like 10s, 500ms or 1m");
    match text {
        "0" => Ok(Duration::ZERO),
        _ => humantime::parse_duration(text).map_err(wrong),
    }
}

/// Reads a duration of a file, for serde's `deserialize_with`.
///
/// # Errors
/// That it has no unit.
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
    duration(&text).map_err(serde::de::Error::custom)
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
