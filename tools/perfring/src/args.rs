//! Value parsers for the command line: rings, sizes, times, modes, record types.

#[cfg(any(feature = "top", feature = "view"))]
use crate::failure::Failure;
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use perfring_consumer::{Location, Start};
use perfring_producer::RecordType;
pub(crate) use perfring_types::read::{parse_duration, parse_size};
use std::path::PathBuf;
use std::time::Duration;

/// Parses a ring's name: a path, of any bytes, or `shm:NAME`.
pub(crate) fn location() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().try_map(|name| match name.into_string() {
        Ok(name) if name.is_empty() => Err("a ring needs a name"),
        Ok(name) => Ok(Location::from(name)),
        Err(bytes) => Ok(Location::from(PathBuf::from(bytes))),
    })
}

/// Parses one of these choices into the value that stands beside it.
pub(crate) fn one_of<T, const N: usize>(
    choices: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    let words = choices.each_ref().map(|(word, _)| *word);
    PossibleValuesParser::new(words).try_map(move |said| {
        let chosen = choices.iter().find(|(word, _)| *word == said);
        chosen.map(|(_, choice)| choice.clone()).ok_or("write one of the possible values")
    })
}

pub(crate) fn start() -> impl TypedValueParser<Value = Start> {
    one_of([("oldest", Start::Oldest), ("latest", Start::Latest)])
}

/// Parses the name that a producer attaches with.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text.len() {
        1..=64 => Ok(text.to_owned()),
        _ => Err("a name has 1 to 64 bytes".to_owned()),
    }
}

/// Formats a size with the largest unit that divides it.
pub(crate) fn show_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} bytes")
}

/// Parses a length of time greater than zero.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("it must be longer than 0s".to_owned()),
        interval => Ok(interval),
    }
}

/// Returns what to watch: these paths, which must be there, or else this user's directory of rings, which may come later.
#[cfg(any(feature = "top", feature = "view"))]
pub(crate) fn watched(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if paths.is_empty() {
        return Ok(vec![perfring_set::RingSet::default_dir()]);
    }
    for path in paths {
        if !path.try_exists().map_err(|error| cannot_read(path, &error))? {
            let path = path.display();
            let advice =
                "check the path; rings that come later are shown, so the directory is enough";
            return Err(Failure::NotFound(format!("there is no {path}: {advice}")));
        }
        if path.is_dir() {
            std::fs::read_dir(path).map_err(|error| cannot_read(path, &error))?;
        }
    }
    Ok(paths.to_vec())
}

#[cfg(any(feature = "top", feature = "view"))]
fn cannot_read(path: &std::path::Path, error: &std::io::Error) -> Failure {
    let (path, advice) = (path.display(), "its owner may read it, or let you");
    Failure::Forbidden(format!("cannot read {path}: {error}; {advice}"))
}

pub(crate) fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text.strip_prefix("0o").unwrap_or(text), 8)
        .map_err(|_| "write octal mode bits, like 0600 or 0640".to_owned())
}

/// Parses a record type, decimal or 0x.
pub(crate) fn record_type(text: &str) -> Result<RecordType, String> {
    let raw = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let raw = raw.map_err(|_| "write a 32-bit number, like 5000 or 0x1388")?;
    RecordType::new(raw).ok_or_else(|| {
        "types below 64 belong to the kernel and 0x5046.... to perfring: use another".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_with_the_largest_unit_that_divides_them() {
        assert_eq!(show_size(64 << 10), "64 KiB");
        assert_eq!(show_size(4097), "4097 bytes");
    }

    #[test]
    fn intervals_modes_and_types_are_parsed() {
        assert!(interval("0s").is_err() && interval("0").is_err() && interval("1ms").is_ok());
        assert_eq!(mode("0640"), Ok(0o640));
        assert_eq!(mode("0o600"), Ok(0o600));
        assert!(mode("rw").is_err());
        assert_eq!(record_type("0x1388").map(RecordType::get), Ok(5000));
        assert!(record_type("2").is_err());
    }
}
