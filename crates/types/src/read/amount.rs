//! Sizes and durations, as people write them in configurations, on the command line and in Python.

use std::fmt;
use std::time::Duration;

/// The longest duration that is accepted: with it, every sum of times is a time.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A text that is no size or no duration: says why, and how one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAmount(String);

impl fmt::Display for BadAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadAmount {}

/// Parses a size in bytes: a number, and a unit if there is one. K, KB and KiB are 1024 bytes; M, G and T are multiples of
/// 1024, too. Upper and lower case are equal. With a unit the number may have a fraction if the size is a whole number of
/// bytes.
///
/// ```
/// use perfring_types::read::parse_size;
/// assert_eq!(parse_size("4096"), Ok(4096));
/// assert_eq!(parse_size("64KiB"), Ok(64 << 10));
/// assert_eq!(parse_size("100M"), Ok(100 << 20));
/// assert_eq!(parse_size("1.5G"), Ok(3 << 29));
/// assert!(parse_size("1.5").unwrap_err().to_string().contains("write bytes"));
/// ```
///
/// # Errors
/// [`BadAmount`]: it is no such text, or more than 64 bits can hold.
pub fn parse_size(text: &str) -> Result<u64, BadAmount> {
    let wrong = || {
        BadAmount(format!(
            "{text:?} is no size: write bytes as 65536, or 64K, 16M, 1.5G, 1T (K is 1024, as KB and KiB are)"
        ))
    };
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = trimmed.strip_prefix(digits).unwrap_or_default();
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let digits = digits.trim_end();
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) if shift > 0 => (whole, Some(fraction)),
        _ => (digits, None),
    };
    if !is_number(whole) || !fraction.is_none_or(is_number) {
        return Err(wrong());
    }
    let large = || BadAmount(format!("{text:?} is no size: it is more than 64 bits can hold"));
    let number = whole.replace('_', "").parse::<u64>().map_err(|_| large())?;
    let part = match fraction {
        Some(fraction) => bytes_of(fraction, shift).ok_or_else(|| {
            BadAmount(format!("{text:?} is no size: it is not a whole number of bytes"))
        })?,
        None => 0,
    };
    let bytes = number.checked_mul(1 << shift).and_then(|bytes| bytes.checked_add(part));
    bytes.ok_or_else(large)
}

/// Returns the bytes of a fraction of `1 << shift`, if their number is whole.
fn bytes_of(fraction: &str, shift: u32) -> Option<u64> {
    let digits = fraction.replace('_', "");
    let digits = digits.trim_end_matches('0');
    let parts = if digits.is_empty() { 0 } else { digits.parse::<u128>().ok()? };
    let all = 10_u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let bytes = parts.checked_mul(1 << shift)?;
    let is_whole = bytes.checked_rem(all)? == 0;
    is_whole.then_some(bytes.checked_div(all)?)?.try_into().ok()
}

/// Returns whether these are digits, and `_` after the first.
fn is_number(digits: &str) -> bool {
    !digits.is_empty() && !digits.starts_with('_') && digits.bytes().all(is_digit)
}

/// Digits, and `_` between these as in TOML and Python.
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

/// Parses a duration with its unit, or several of them: at most 100 years. Zero needs no unit.
///
/// ```
/// use perfring_types::read::parse_duration;
/// use std::time::Duration;
/// assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
/// assert!(parse_duration("10").unwrap_err().to_string().contains("with its unit"));
/// ```
///
/// # Errors
/// [`BadAmount`]: it is no such text, or longer.
pub fn parse_duration(text: &str) -> Result<Duration, BadAmount> {
    let no_unit = || {
        BadAmount(format!("{text:?} is no time: write it with its unit, like 250ms, 10s or 1h 30m"))
    };
    let too_long = || BadAmount(format!("{text:?} is too long: the longest is 36500 days"));
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    match humantime::parse_duration(text) {
        Ok(_) if text.trim().parse::<f64>().is_ok() => Err(no_unit()),
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) | Err(humantime::DurationError::NumberOverflow) => Err(too_long()),
        Err(_) => Err(no_unit()),
    }
}
