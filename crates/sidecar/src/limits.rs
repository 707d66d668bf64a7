//! Resource limits of this process.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Descriptors that rings leave to pages, sockets, connections and files of outputs: so many, or a quarter of the limit if
/// that is less. The page of `[health]` and the one of Prometheus take up to 64 connections each.
const SPARE_FILES: u64 = 192;
/// The most descriptors of a ring.
const RING_FILES: u64 = 2;
/// Mappings that rings leave to threads and to the allocator.
const SPARE_MAPPINGS: u64 = 2048;
/// The most mappings of a ring.
const RING_MAPPINGS: u64 = 5;

pub(crate) const RAISE_NOFILE: &str =
    "raise that limit (LimitNOFILE of a systemd unit, `ulimit -n`)";

/// Raises the limit of descriptors as far as allowed: each ring takes two, and the usual limit is
/// 1024. Returns how many descriptors may be open now; `None` for any number.
pub fn raise_limits() -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    }
}

/// A limit that leaves no room for one more ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    Files { limit: u64, spare: u64 },
    Mappings { limit: u64 },
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortage::Files { limit, spare } => write!(
                f,
                "this process may have {limit} files open, and keeps {spare} of them for its pages, sockets and outputs: \
                 {RAISE_NOFILE}"
            ),
            Shortage::Mappings { limit } => write!(
                f,
                "a process may have {limit} mappings, and a ring takes {RING_MAPPINGS}: raise that limit (sysctl \
                 vm.max_map_count)"
            ),
        }
    }
}

/// Returns the limit that leaves no room for one more ring beside so many.
pub(crate) fn shortage(rings: usize) -> Option<Shortage> {
    let files = getrlimit(Resource::Nofile).current;
    // A new descriptor has the lowest number that is free.
    let next = match File::open("/") {
        Ok(probe) => probe.as_raw_fd().unsigned_abs().into(),
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => u64::MAX,
        // The attach reports what is wrong.
        Err(_) => 0,
    };
    let mappings = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let mappings = mappings.ok().and_then(|text| text.trim().parse().ok());
    let rings = u64::try_from(rings).unwrap_or(u64::MAX);
    of_files(next, files).or_else(|| of_mappings(rings, mappings))
}

fn of_files(next: u64, limit: Option<u64>) -> Option<Shortage> {
    let limit = limit?;
    let spare = SPARE_FILES.min(limit / 4);
    (next.saturating_add(RING_FILES).saturating_add(spare) > limit)
        .then_some(Shortage::Files { limit, spare })
}

fn of_mappings(rings: u64, limit: Option<u64>) -> Option<Shortage> {
    let limit = limit?;
    let taken = rings.saturating_add(1).saturating_mul(RING_MAPPINGS);
    (taken.saturating_add(SPARE_MAPPINGS.min(limit / 4)) > limit)
        .then_some(Shortage::Mappings { limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_leave_descriptors_and_mappings_to_others() {
        for (next, limit, spare) in [(832, 1024, 192), (99, 128, 32), (u64::MAX, 524_288, 192)] {
            let found = of_files(next, Some(limit));
            assert_eq!(found, Some(Shortage::Files { limit, spare }), "{next} of {limit}");
        }
        assert_eq!(of_files(830, Some(1024)), None);
        assert_eq!(of_files(u64::MAX, None), None);
        assert_eq!(of_mappings(12_695, Some(65_530)), None);
        assert_eq!(of_mappings(12_696, Some(65_530)), Some(Shortage::Mappings { limit: 65_530 }));
        assert_eq!(of_mappings(u64::MAX, None), None);
    }
}
