//! Which BPF ring-buffer map is read, and how.

use perfring_shm::BpfPlace;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// A map to read, as it is written on a command line: `PATH` of a pinned map or `id:N`, and after commas `observe`,
/// `time=OFFSET` or `boottime=OFFSET`.
///
/// ```
/// use perfring_kernel::{BpfOptions, BpfTime};
/// let options: BpfOptions = "/sys/fs/bpf/events,observe,time=8".parse()?;
/// assert!(options.observe);
/// assert_eq!(options.time, Some(BpfTime::Monotonic(8)));
/// assert_eq!("id:7".parse::<BpfOptions>()?.place.to_string(), "id:7");
/// # Ok::<(), perfring_kernel::UnknownBpfOption>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BpfOptions {
    /// Where the map is.
    pub place: BpfPlace,
    /// Leaves the records in a map in normal mode. Without it they are consumed. A map in overwrite mode has no consumer,
    /// and is observed in any case.
    pub observe: bool,
    /// Where a record holds its time. Without it, or in a record that is too short, the time is that at which the reader
    /// found the record: the kernel stores none.
    pub time: Option<BpfTime>,
}

/// Where a record holds its time: eight bytes, in the machine's byte order, at this offset of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BpfTime {
    /// As `bpf_ktime_get_ns` returns it. A record from before a suspend of the machine gets a time that is too late by the
    /// length of the suspend.
    Monotonic(u32),
    /// As `bpf_ktime_get_boot_ns` returns it.
    Boot(u32),
}

impl BpfOptions {
    /// Reads the map at a place as its consumer, if it has consumers.
    #[must_use]
    pub fn of(place: BpfPlace) -> Self {
        BpfOptions { place, observe: false, time: None }
    }
}

/// What is wrong with the text of [`BpfOptions`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} {what}: write PATH or id:N, then ,observe or ,time=OFFSET or ,boottime=OFFSET")]
pub struct UnknownBpfOption {
    text: String,
    what: &'static str,
}

impl FromStr for BpfOptions {
    type Err = UnknownBpfOption;

    fn from_str(text: &str) -> Result<Self, UnknownBpfOption> {
        let error = |what| UnknownBpfOption { text: text.to_owned(), what };
        let mut options = BpfOptions::of(BpfPlace::Pinned(PathBuf::new()));
        let mut place = text;
        // A path may have commas: it ends before the options that are known.
        while let Some((before, last)) = place.rsplit_once(',') {
            let offset = |digits: &str| {
                digits.parse::<u32>().map_err(|_| error("has an offset that is no number"))
            };
            match last.split_once('=') {
                None if last == "observe" => options.observe = true,
                Some(("time", at)) => options.time = Some(BpfTime::Monotonic(offset(at)?)),
                Some(("boottime", at)) => options.time = Some(BpfTime::Boot(offset(at)?)),
                _ => break,
            }
            place = before;
        }
        options.place = match place.strip_prefix("id:") {
            Some(id) => BpfPlace::Id(id.parse().map_err(|_| error("has an id that is no number"))?),
            None if place.is_empty() => return Err(error("has no path")),
            None => BpfPlace::Pinned(place.into()),
        };
        Ok(options)
    }
}

impl fmt::Display for BpfOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn a_place_and_its_options_are_read_from_the_end() {
        let pinned = |path: &str| BpfOptions::of(BpfPlace::Pinned(path.into()));
        let observed = |path: &str| BpfOptions { observe: true, ..pinned(path) };
        for (text, is) in [
            ("/sys/fs/bpf/events", pinned("/sys/fs/bpf/events")),
            ("/sys/fs/bpf/a,b", pinned("/sys/fs/bpf/a,b")),
            ("/sys/fs/bpf/a,b,observe", observed("/sys/fs/bpf/a,b")),
            ("id:12", BpfOptions::of(BpfPlace::Id(12))),
            ("x,time=8", BpfOptions { time: Some(BpfTime::Monotonic(8)), ..pinned("x") }),
            ("x,boottime=0,observe", BpfOptions { time: Some(BpfTime::Boot(0)), ..observed("x") }),
        ] {
            assert_eq!(text.parse::<BpfOptions>().unwrap(), is, "{text}");
        }
        for (text, what) in [
            ("", "no path"),
            (",observe", "no path"),
            ("id:", "id that is no number"),
            ("id:x", "id that is no number"),
            ("x,time=", "offset that is no number"),
            ("x,boottime=-1", "offset that is no number"),
        ] {
            let error = text.parse::<BpfOptions>().unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("write PATH or id:N"), "{error}");
        }
    }
}
