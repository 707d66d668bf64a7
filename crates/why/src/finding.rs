//! What is found: a sentence, with its cause, its certainty and its evidence.

use crate::evidence::Thread;
use crate::gap::Parts;
use std::collections::BTreeMap;

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The kernel or the ring says it.
    Certain,
    /// The evidence fits, and nothing contradicts it; another cause would have to look alike.
    Likely,
    /// The cause is unknown.
    Unknown,
}

impl Certainty {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Certain => "certain",
            Certainty::Likely => "likely",
            Certainty::Unknown => "unknown",
        }
    }
}

/// What is out of the ordinary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A process that has a seat of a ring is dead or stopped, or holds others up.
    Owner,
    /// Records were lost.
    Loss,
    /// A consumer read records late.
    Read,
    /// A thread wrote nothing for a while between two records.
    Gap,
    /// Something happened to the whole machine.
    Machine,
}

impl Kind {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Owner => "owner",
            Kind::Loss => "loss",
            Kind::Gap => "gap",
            Kind::Read => "late read",
            Kind::Machine => "machine",
        }
    }
}

/// The cause of what is not known.
pub const UNKNOWN: &str = "unknown";

/// Something out of the ordinary, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is out of the ordinary.
    pub kind: Kind,
    /// When it began: ns of `CLOCK_BOOTTIME`.
    pub time: u64,
    /// How long it took, ns; 0 for a moment.
    pub length: u64,
    /// The ring; empty if none is concerned.
    pub ring: String,
    /// The thread, or the process with its first thread, if one is concerned.
    pub thread: Option<Thread>,
    /// The name of the thread, or of the process that has the seat, if known.
    pub name: Option<String>,
    /// How many records were lost.
    pub records: u64,
    /// The cause, a word or two from the table of rules; `unknown` if no rule applies.
    pub cause: &'static str,
    /// How sure the cause is.
    pub certainty: Certainty,
    /// The system call in which the thread waited longest in a gap, as far as looks found it in one.
    pub call: Option<String>,
    /// The task that had the CPU instead, or the holder for which others waited.
    pub by: Option<(Thread, String)>,
    /// All of it in words.
    pub sentence: String,
    /// The parts of a gap, where the kernel's switches are known for all of it.
    pub parts: Option<Parts>,
    /// The tasks that ran in the thread's place, with their names: the longest first.
    pub preempted_by: Vec<(Thread, String, u64)>,
    /// For how long of a gap the process was stopped, at least, ns.
    pub stopped: u64,
    /// For how long its cgroup was throttled in that time, at least, ns.
    pub throttled: u64,
}

/// The findings of one kind with one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub findings: u64,
    /// How long they took together, ns.
    pub length: u64,
    /// How many records were lost.
    pub records: u64,
}

/// All findings, and what they rest on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The worst findings: owners first, then losses by their number, then late reads and gaps by their length.
    pub findings: Vec<Finding>,
    /// How many there were, by kind and cause.
    pub sums: BTreeMap<(Kind, &'static str), Sum>,
    /// From the first record or event to the last, ns.
    pub length: u64,
    /// For how much of that the kernel's switches of the whole machine are known, ns.
    pub covered: u64,
    /// Whether the switches of some processes are known, and those of the whole machine are not.
    pub in_part: bool,
    /// How many of the kernel's records were lost.
    pub missing: u64,
    /// How many records name no thread, and no process that is their ring's only producer.
    pub anonymous: u64,
    /// How many times between two records of a thread are no findings because records were lost within them: the thread may
    /// have written all the time.
    pub hidden: u64,
    /// How many records there were.
    pub records: u64,
}

impl Report {
    /// Returns how many findings there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sums.values().map(|sum| sum.findings).sum()
    }

    /// Returns how many of them have no known cause.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        let unknown = self.sums.iter().filter(|((_, cause), _)| *cause == UNKNOWN);
        unknown.map(|(_, sum)| sum.findings).sum()
    }
}
