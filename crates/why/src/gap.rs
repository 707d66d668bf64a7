//! What a thread did between two of its records, in parts of time.

use crate::evidence::Thread;
use std::collections::VecDeque;

/// The limit of waits whose times are kept: more are counted and added up.
const WAITS: usize = 256;
/// The limit of tasks that are told apart among those that ran while a thread was preempted.
const TASKS: usize = 64;
/// Two page faults of one run are this far apart at most, ns. A fault takes half a microsecond to a few, and up to 100 µs in a
/// virtual machine whose host has to provide the page.
const FAULTS_APART: u64 = 128_000;
/// The faults of a run are this far apart on average at most, ns: the code between them would be most of the time otherwise.
const FAULTS_MEAN: u64 = 10_000;
/// Of this many faults, each may be the reason for the time up to the next one,
const FAULTS_MANY: u64 = 16;
/// if that is at most this long, ns: a huge page, or one that the host has to fetch, takes milliseconds.
const FAULT_LONGEST: u64 = 30_000_000;

/// What a thread did in a time that the kernel's switches cover, ns of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// It had a CPU.
    pub ran: u64,
    /// Within that time: page faults followed each other, 10 µs apart on average, and 128 µs at most.
    pub faulting: u64,
    /// Within the rest of it: the times between two page faults.
    between_faults: u64,
    /// How many page faults there were.
    pub faults: u64,
    /// It could run, and others did: these tasks.
    pub preempted: Vec<(Thread, u64)>,
    /// It could run, and the kernel does not say which tasks did.
    pub preempted_by_unknown: u64,
    /// It could run, and the CPU that it had left had no task to run.
    pub kept: u64,
    /// How often it was preempted.
    pub preemptions: u64,
    /// It did not want to run: it slept or waited, or it was stopped.
    pub waited: u64,
    /// How often it did so.
    pub waits: u64,
    /// When it did so, of the first waits.
    pub wait_times: Vec<(u64, u64)>,
    /// How often it continued on another CPU than before.
    pub migrations: u64,
    /// The kernel's switches and the records contradict each other: something is missing, or came late.
    pub contradicted: bool,
    /// The page faults that follow each other now.
    run: Option<Run>,
}

/// Page faults that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    last: u64,
    faults: u64,
}

impl Run {
    /// Returns for how long the faults followed each other, and whether that was so close that they took the time.
    fn length(self) -> (u64, bool) {
        let length = self.last.saturating_sub(self.first);
        (length, length <= (self.faults - 1).saturating_mul(FAULTS_MEAN))
    }
}

impl Parts {
    /// Returns the time for which it could run, and had no CPU.
    #[must_use]
    pub fn off_cpu(&self) -> u64 {
        self.preempted_in_all().saturating_add(self.kept)
    }

    /// Returns the time for which it had a CPU, and page faults took that, or its own code did: the kernel does not say when a
    /// fault ends.
    #[must_use]
    pub fn faulting_or_own(&self) -> u64 {
        if self.faults >= FAULTS_MANY { self.between_faults } else { 0 }
    }

    /// Returns the time for which its own code ran, without the times that page faults took or may have taken.
    pub(crate) fn own_code(&self) -> u64 {
        self.ran.saturating_sub(self.faulting).saturating_sub(self.faulting_or_own())
    }

    /// Returns the time for which other tasks ran in its place.
    #[must_use]
    pub fn preempted_in_all(&self) -> u64 {
        let by = self.preempted.iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        by.saturating_add(self.preempted_by_unknown)
    }

    /// Returns the task that ran longest in its place.
    #[must_use]
    pub fn preempted_most(&self) -> Option<(Thread, u64)> {
        self.preempted.iter().copied().max_by_key(|(_, ns)| *ns)
    }

    /// Adds a time for which this task ran in its place.
    pub(crate) fn add_preempted(&mut self, by: Option<Thread>, ns: u64) {
        let sum = match by {
            _ if ns == 0 => return,
            Some(task) if task.is_idle() => &mut self.kept,
            Some(task) => match self.preempted.iter().position(|(known, _)| *known == task) {
                Some(at) => &mut self.preempted[at].1,
                None if self.preempted.len() < TASKS => {
                    self.preempted.push((task, ns));
                    return;
                }
                None => &mut self.preempted_by_unknown,
            },
            None => &mut self.preempted_by_unknown,
        };
        *sum = sum.saturating_add(ns);
    }

    pub(crate) fn add_wait(&mut self, from: u64, until: u64) {
        self.waited = self.waited.saturating_add(until.saturating_sub(from));
        self.waits += 1;
        if self.wait_times.len() < WAITS {
            self.wait_times.push((from, until));
        }
    }

    pub(crate) fn add_fault(&mut self, time: u64) {
        self.faults += 1;
        let mut new = Run { first: time, last: time, faults: 1 };
        if let Some(run) = self.run {
            let since = time.saturating_sub(run.last);
            if since <= FAULTS_APART {
                new = Run { last: time, faults: run.faults + 1, ..run };
            } else {
                self.end_faults();
                self.between_faults += if since <= FAULT_LONGEST { since } else { 0 };
            }
        }
        self.run = Some(new);
    }

    /// Adds what the thread did after that.
    pub(crate) fn add(&mut self, later: Parts) {
        let sums = [
            (&mut self.ran, later.ran),
            (&mut self.faulting, later.faulting),
            (&mut self.between_faults, later.between_faults),
            (&mut self.faults, later.faults),
            (&mut self.preempted_by_unknown, later.preempted_by_unknown),
            (&mut self.kept, later.kept),
            (&mut self.preemptions, later.preemptions),
            (&mut self.waited, later.waited),
            (&mut self.waits, later.waits),
            (&mut self.migrations, later.migrations),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        for (task, ns) in later.preempted {
            self.add_preempted(Some(task), ns);
        }
        let room = WAITS.saturating_sub(self.wait_times.len());
        self.wait_times.extend(later.wait_times.into_iter().take(room));
        self.contradicted |= later.contradicted;
    }

    /// Ends a run of faults: the thread left its CPU, or the time that is looked at ends.
    pub(crate) fn end_faults(&mut self) {
        match self.run.take().map(Run::length) {
            Some((length, true)) => self.faulting += length,
            Some((length, false)) => self.between_faults += length,
            None => {}
        }
    }
}

/// A time between two records of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The thread.
    pub thread: Thread,
    /// The number of the ring with the record after the gap.
    pub ring: u32,
    /// The time of the record before, ns.
    pub from: u64,
    /// The time of the record after, ns.
    pub until: u64,
    /// The CPU that the thread had last, if known.
    pub cpu: Option<u32>,
    /// No record came after: it ends where the evidence ends.
    pub is_open: bool,
    /// What the thread did meanwhile, if the kernel's switches say.
    pub parts: Parts,
}

impl Gap {
    /// Returns how long it is, ns.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.until.saturating_sub(self.from)
    }
}

/// A record came after a later one of its thread: what was called a gap may have been two. What the thread did in them is not
/// known. Those shorter than `least` are none.
pub(crate) fn split_at(gaps: &mut VecDeque<Gap>, thread: Thread, at: u64, least: u64) {
    let around = |gap: &Gap| gap.thread == thread && gap.from < at && at < gap.until;
    let Some(mut gap) = gaps.iter().position(around).and_then(|at| gaps.remove(at)) else { return };
    gap.parts.contradicted = true;
    let both = [Gap { until: at, is_open: false, ..gap.clone() }, Gap { from: at, ..gap }];
    gaps.extend(both.into_iter().filter(|gap| gap.length() >= least));
}
