//! The processors on which the ends of a sample run.

use crate::CompareError;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The processors that this process may use: one for receivers, with a core of its own where there
/// are two, and one for each sender as far as there are so many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    receivers: usize,
    /// One thread of each core before the second of any.
    senders: Vec<usize>,
}

/// Where the ends of a sample run; unspecified if there is only one processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Processors of receivers, without repetition.
    pub receivers: Vec<usize>,
    /// The processor of each sender, in their order.
    pub senders: Vec<usize>,
}

impl Places {
    /// Returns those of this process, or `None` if it has only one.
    ///
    /// # Errors
    /// If the kernel does not provide the information.
    pub fn here() -> Result<Option<Self>, CompareError> {
        let set = sched_getaffinity(Pid::from_raw(0))
            .map_err(|source| CompareError::System { what: "sched_getaffinity", source })?;
        let allowed = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true));
        Ok(Self::among(&allowed.collect::<Vec<_>>(), siblings))
    }

    pub(crate) fn among(
        allowed: &[usize],
        siblings: impl Fn(usize) -> BTreeSet<usize>,
    ) -> Option<Self> {
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
    /// Returns whether no two senders share a processor, and none shares the receivers'.
    pub fn is_apart(&self) -> bool {
        let senders: BTreeSet<&usize> = self.senders.iter().collect();
        !senders.is_empty()
            && senders.len() == self.senders.len()
            && !self.receivers.iter().any(|cpu| senders.contains(cpu))
    }

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
        assert!(placed(&[1, 2]).is_apart());
        assert_eq!(placed(&[1, 1, 1]).words(), "0 | 1 (3 on 1)");
        assert!(!placed(&[1, 1]).is_apart());
        assert!(!placed(&[0]).is_apart());
        assert_eq!(Placed::default().words(), "not pinned");
        assert!(!Placed::default().is_apart());
    }
}
