//! What a witness found about processes, threads, rings and the machine.

use crate::case::{Coverage, HeldBy};
use crate::gap::Gap;
use crate::samples::Delays;
use crate::stops::{Stopped, Stops};
use std::collections::HashMap;

/// The limit of entries that are kept of a thread, or a ring.
const MOST: usize = 1 << 16;

/// What looks at the system calls of threads, at rings, and at the machine's figures found.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Of each process.
    stopped: HashMap<u32, Stops>,
    throttled: HashMap<u32, Delays>,
    /// Of each thread.
    delayed: HashMap<u32, Delays>,
    /// Of each thread: when a look began and ended that found it in this call.
    calls: HashMap<u32, Vec<(u64, u64, String)>>,
    stolen: HashMap<u32, Delays>,
    stalled: HashMap<u32, Delays>,
    suspended: Delays,
    /// Of each ring: the process for which its producers waited, and when.
    held: HashMap<u32, Vec<(u32, u64, u64)>>,
}

impl Looks {
    /// A look found a process stopped, or running again.
    pub(crate) fn stop(&mut self, pid: u32, stopped: bool, (before, look, time): (u64, u64, u64)) {
        let stops = self.stopped.entry(pid).or_default();
        match stopped {
            true => stops.stopped(before, look, time),
            false => stops.continued(time),
        }
    }

    pub(crate) fn throttle(&mut self, pid: u32, before: u64, time: u64, added: u64) {
        self.throttled.entry(pid).or_default().add(before, time, added);
    }

    pub(crate) fn delay(&mut self, tid: u32, before: u64, time: u64, added: u64) {
        self.delayed.entry(tid).or_default().add(before, time, added);
    }

    pub(crate) fn call(&mut self, tid: u32, look: u64, time: u64, name: String) {
        let calls = self.calls.entry(tid).or_default();
        if calls.len() < MOST {
            calls.push((look, time, name));
        }
    }

    pub(crate) fn steal(&mut self, cpu: u32, before: u64, time: u64, added: u64) {
        self.stolen.entry(cpu).or_default().add(before, time, added);
    }

    pub(crate) fn stall(&mut self, pid: u32, before: u64, time: u64, added: u64) {
        self.stalled.entry(pid).or_default().add(before, time, added);
    }

    pub(crate) fn suspend(&mut self, before: u64, time: u64, added: u64) {
        self.suspended.add(before, time, added);
    }

    /// The ring was held up all the time; what an earlier look said of a part is not said twice.
    pub(crate) fn hold(&mut self, ring: u32, pid: u32, from: u64, until: u64) {
        let held = self.held.entry(ring).or_default();
        let known = held.last().map_or(0, |(_, _, until)| *until);
        if held.len() < MOST && until > known {
            held.push((pid, from.max(known), until));
        }
    }

    /// Returns for how long a process was stopped.
    pub(crate) fn stopped(&self, pid: u32, from: u64, until: u64) -> Stopped {
        self.stopped.get(&pid).map_or(Stopped::default(), |stops| stops.within(from, until))
    }

    /// Returns whether looks on either side of a time found a process stopped.
    pub(crate) fn is_stopped_at(&self, pid: u32, time: u64) -> bool {
        self.stopped.get(&pid).is_some_and(|stops| stops.is_at(time))
    }

    /// Returns for how long a gap's process was stopped.
    pub(crate) fn stopped_of(&self, gap: &Gap, coverage: Coverage) -> Stopped {
        let within = |(begin, end): &(u64, u64)| self.stopped(gap.thread.pid, *begin, *end);
        match coverage {
            // A thread that had a CPU, or could run, was not stopped.
            Coverage::Whole if !gap.parts.contradicted => {
                gap.parts.wait_times.iter().map(within).sum()
            }
            _ => within(&(gap.from, gap.until)),
        }
    }

    /// Returns for how long a gap's cgroup was throttled, at least.
    pub(crate) fn throttled_of(&self, gap: &Gap) -> u64 {
        let throttled = self.throttled.get(&gap.thread.pid);
        throttled.map_or(0, |of| of.within(gap.from, gap.until))
    }

    /// Returns for how long a gap's thread could run and had no CPU, at least.
    pub(crate) fn delayed_of(&self, gap: &Gap) -> u64 {
        self.delayed.get(&gap.thread.tid).map_or(0, |of| of.within(gap.from, gap.until))
    }

    /// Returns the system call in which the thread waited longest, as far as looks found it in one, and for how long it waited.
    pub(crate) fn call_of(&self, gap: &Gap) -> Option<(String, u64)> {
        let calls = self.calls.get(&gap.thread.tid)?;
        let mut sums: HashMap<&str, u64> = HashMap::new();
        for (from, until) in &gap.parts.wait_times {
            let first = calls.partition_point(|(look, _, _)| look < from);
            if let Some((_, _, name)) = calls.get(first).filter(|(_, time, _)| time <= until) {
                *sums.entry(name).or_default() += until.saturating_sub(*from);
            }
        }
        let longest = sums.into_iter().max_by_key(|(name, ns)| (*ns, *name))?;
        Some((longest.0.to_owned(), longest.1))
    }

    /// Returns for how long the hypervisor had the CPU of a gap's thread, at least: of one that stayed on its CPU.
    pub(crate) fn stolen_of(&self, gap: &Gap) -> u64 {
        let stolen =
            gap.cpu.filter(|_| gap.parts.migrations == 0).and_then(|cpu| self.stolen.get(&cpu));
        stolen.map_or(0, |stolen| stolen.within(gap.from, gap.until))
    }

    /// Returns for how long the cgroup of a gap's process waited for memory, at least.
    pub(crate) fn stalled_of(&self, gap: &Gap) -> u64 {
        let stalled = self.stalled.get(&gap.thread.pid);
        stalled.map_or(0, |stalled| stalled.during(gap.from, gap.until))
    }

    /// Returns for how long the machine was suspended, at least.
    pub(crate) fn suspended(&self, from: u64, until: u64) -> u64 {
        self.suspended.during(from, until)
    }

    /// Returns the process for which the producers of a gap's ring waited longest, unless it is the gap's own.
    pub(crate) fn held_by(&self, gap: &Gap) -> Option<HeldBy> {
        let mut sums: HashMap<u32, u64> = HashMap::new();
        let held = self.held.get(&gap.ring)?;
        let first = held.partition_point(|(_, _, until)| *until <= gap.from);
        let within = held[first..].iter().take_while(|(_, from, _)| *from < gap.until);
        let others = within.filter(|(pid, _, _)| *pid != gap.thread.pid);
        for (pid, from, until) in others {
            let within = (*until).min(gap.until).saturating_sub((*from).max(gap.from));
            *sums.entry(*pid).or_default() += within;
        }
        let (pid, least) = sums.into_iter().max_by_key(|(pid, ns)| (*ns, *pid))?;
        (least > 0).then_some(HeldBy { pid, least, why: None })
    }
}
