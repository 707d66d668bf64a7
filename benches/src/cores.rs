//! The processors on which ends run, and the distance between them.

use crate::error::{Result, system};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Serialize;
use std::collections::BTreeSet;

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

    /// Returns the distance of this name.
    pub fn named(name: &str) -> Self {
        let all = [Distance::Near, Distance::Far, Distance::Mixed];
        all.into_iter().find(|distance| distance.name() == name).unwrap_or(Distance::None)
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

fn affinity() -> Result<CpuSet> {
    sched_getaffinity(Pid::from_raw(0)).map_err(system("sched_getaffinity"))
}

/// Keeps the calling thread on one core until dropped.
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread.
    pub fn to(cpu: usize) -> Result<Self> {
        let before = affinity()?;
        let mut set = CpuSet::new();
        set.set(cpu).map_err(system("sched_setaffinity"))?;
        sched_setaffinity(Pid::from_raw(0), &set).map_err(system("sched_setaffinity"))?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Fails only if the cores were taken away meanwhile; then there is nothing to go back to.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

/// The processors that this process may use: one for receivers, with a core of its own where there
/// are two, and one for each sender as far as there are so many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    receivers: usize,
    /// One thread of each core before the second of any.
    senders: Vec<usize>,
}

/// Where the ends of a sample run; unspecified if there is only one processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// Processors of receivers, without repetition.
    pub receivers: Vec<usize>,
    /// The processor of each sender, in their order.
    pub senders: Vec<usize>,
}

impl Places {
    /// Returns those of this process, or `None` if it has only one.
    pub fn here() -> Result<Option<Self>> {
        let set = affinity()?;
        let allowed = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true));
        Ok(Self::among(&allowed.collect::<Vec<_>>(), siblings))
    }

    /// Returns the places among these processors, where `siblings` are those of one core.
    pub fn among(allowed: &[usize], siblings: impl Fn(usize) -> BTreeSet<usize>) -> Option<Self> {
        let (&receivers, rest) = allowed.split_first()?;
        // Two threads of one core share its caches, and its time.
        let near = siblings(receivers);
        let others: Vec<usize> = rest.iter().copied().filter(|cpu| !near.contains(cpu)).collect();
        let mut cores: Vec<BTreeSet<usize>> = Vec::new();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for cpu in others {
            if cores.iter().any(|core| core.contains(&cpu)) {
                second.push(cpu);
            } else {
                first.push(cpu);
                cores.push(siblings(cpu));
            }
        }
        first.append(&mut second);
        if first.is_empty() {
            first.push(*rest.first()?);
        }
        Some(Places { receivers, senders: first })
    }

    /// Returns the receivers' and the first sender's processor.
    pub fn two(&self) -> [usize; 2] {
        [self.receivers, self.sender(0)]
    }

    /// Returns the receivers' processor.
    pub fn receivers(&self) -> usize {
        self.receivers
    }

    /// Returns this sender's processor: its own, or shared in turn if there are too few.
    pub fn sender(&self, index: usize) -> usize {
        self.senders[index % self.senders.len()]
    }

    /// Returns how many senders can have processors of their own.
    pub fn room(&self) -> usize {
        self.senders.len()
    }
}

impl Placed {
    /// Describes it briefly: receivers, and senders.
    pub fn words(&self) -> String {
        if self.receivers.is_empty() && self.senders.is_empty() {
            return "not pinned".to_owned();
        }
        let list = |cpus: &BTreeSet<usize>| {
            let words: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            if words.is_empty() { "-".to_owned() } else { words.join(",") }
        };
        let senders: BTreeSet<usize> = self.senders.iter().copied().collect();
        let shared = if senders.len() < self.senders.len() {
            format!(" ({} on {})", self.senders.len(), senders.len())
        } else {
            String::new()
        };
        let receivers = self.receivers.iter().copied().collect();
        format!("{} | {}{shared}", list(&receivers), list(&senders))
    }
}

/// Returns the hardware threads of this processor's core, as the kernel lists them: `0,64` or
/// `0-1`.
fn siblings(cpu: usize) -> BTreeSet<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    let ranges = list.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse::<usize>().ok()?..=to.parse().ok()?)
    });
    ranges.flatten().chain([cpu]).collect()
}

/// Returns the reader's and the producer's core, or `None` if this process has only one.
pub fn two_cores() -> Result<Option<[usize; 2]>> {
    Ok(Places::here()?.as_ref().map(Places::two))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(cpu: usize) -> BTreeSet<usize> {
        BTreeSet::from([cpu])
    }

    /// Threads `n` and `n + 8` are of one core.
    fn pairs(cpu: usize) -> BTreeSet<usize> {
        BTreeSet::from([cpu % 8, cpu % 8 + 8])
    }

    fn senders(places: &Places, count: usize) -> Vec<usize> {
        (0..count).map(|index| places.sender(index)).collect()
    }

    #[test]
    fn senders_share_a_processor_only_if_there_are_too_few() {
        let all: Vec<usize> = (0..16).collect();
        let places = Places::among(&all, alone).unwrap();
        assert_eq!((places.receivers(), places.room()), (0, 15));
        assert_eq!(senders(&places, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
        // Seven cores are left of eight, then their second threads; the reader's core is not
        // shared.
        let places = Places::among(&all, pairs).unwrap();
        assert_eq!(senders(&places, 9), [1, 2, 3, 4, 5, 6, 7, 9, 10]);
        assert_eq!(places.room(), 14);
        let places = Places::among(&[0, 1], alone).unwrap();
        assert_eq!((places.two(), senders(&places, 3)), ([0, 1], vec![1, 1, 1]));
        // Two threads of one core are better than nothing.
        assert_eq!(Places::among(&[0, 8], pairs).unwrap().two(), [0, 8]);
        assert_eq!(Places::among(&[5], alone), None);
    }

    #[test]
    fn a_row_says_who_shares() {
        let placed = |senders: &[usize]| Placed { receivers: vec![0], senders: senders.to_vec() };
        assert_eq!(placed(&[1, 2]).words(), "0 | 1,2");
        assert_eq!(placed(&[1, 1, 1]).words(), "0 | 1 (3 on 1)");
        assert_eq!(Placed::default().words(), "not pinned");
    }

    #[test]
    fn a_sample_has_a_distance_only_if_it_kept_it() {
        assert_eq!(Distance::of(58.0, 26.0), Distance::Near);
        assert_eq!(Distance::of(280.0, 230.0), Distance::Far);
        assert_eq!(Distance::of(58.0, 280.0), Distance::Mixed);
        assert_eq!(Distance::of(280.0, 58.0), Distance::Mixed);
    }
}
