//! Two cores, and the distance between them.

use crate::error::BenchError;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Serialize;
use std::fs;

/// One-way hops below this are between near cores: 26 to 58 ns were measured there, and 230 to 280
/// between far ones.
const NEAR_BELOW_NS: f64 = 120.0;

/// The distance of two cores while a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distance {
    /// Near before and after.
    Near,
    /// Far before and after.
    Far,
    /// Near before and far after, or the reverse: the sample is not compared.
    Mixed,
    /// One process alone, or both on one core.
    None,
}

impl Distance {
    /// Returns the distance of a sample with these hops around it.
    pub fn of(before_ns: f64, after_ns: f64) -> Self {
        match (before_ns < NEAR_BELOW_NS, after_ns < NEAR_BELOW_NS) {
            (true, true) => Distance::Near,
            (false, false) => Distance::Far,
            _ => Distance::Mixed,
        }
    }

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
            Distance::Mixed => "mixed",
            Distance::None => "-",
        }
    }
}

/// Returns the reader's and the producer's core, or `None` if this process has only one.
pub fn two_cores() -> Result<Option<[usize; 2]>, BenchError> {
    let set = affinity()?;
    let mut allowed = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true));
    let Some(first) = allowed.next() else { return Ok(None) };
    let rest: Vec<usize> = allowed.collect();
    // Two threads of one core share its caches: those are not two cores.
    let siblings = siblings(first);
    let other = rest.iter().find(|cpu| !siblings.contains(cpu)).or(rest.first());
    Ok(other.map(|&other| [first, other]))
}

/// Returns the hardware threads of this core, as the kernel lists them: `0,64` or `0-1`.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = fs::read_to_string(path).unwrap_or_default();
    list.trim()
        .split(',')
        .filter_map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some(from.parse().ok()?..=to.parse().ok()?)
        })
        .flatten()
        .collect()
}

fn affinity() -> Result<CpuSet, BenchError> {
    sched_getaffinity(Pid::from_raw(0))
        .map_err(|source| BenchError::System { what: "sched_getaffinity", source })
}

/// Keeps the calling thread on one core until dropped.
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread.
    pub fn to(cpu: usize) -> Result<Self, BenchError> {
        let system = |source| BenchError::System { what: "sched_setaffinity", source };
        let before = affinity()?;
        let mut set = CpuSet::new();
        set.set(cpu).map_err(system)?;
        sched_setaffinity(Pid::from_raw(0), &set).map_err(system)?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Fails only if the cores were taken away meanwhile; then there is nothing to go back to.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_a_distance_only_if_it_kept_it() {
        assert_eq!(Distance::of(58.0, 26.0), Distance::Near);
        assert_eq!(Distance::of(280.0, 230.0), Distance::Far);
        assert_eq!(Distance::of(58.0, 280.0), Distance::Mixed);
        assert_eq!(Distance::of(280.0, 58.0), Distance::Mixed);
    }
}
