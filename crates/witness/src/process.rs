//! A process that has a ring open: what was last said of it, and what a look finds.

use crate::calls::call_of;
use crate::tasks::{Scheduled, scheduled};
use crate::voice::Voice;
use perfring_consumer::advanced::MachineClock;
use perfring_figures::cgroup::{CpuStat, MemoryStat};
use perfring_figures::process::Life;
use perfring_kernel::Stopper;
use perfring_why::witness::{Call, Delay, Memory, Stop, Throttle, Turn};
use std::collections::{HashMap, HashSet};

#[derive(Debug)]
pub(crate) struct Process {
    /// The kernel's rings of the process's switches, and of its page faults. `None`: no such ring is of this process alone.
    pub(crate) switches: Option<Vec<Stopper>>,
    pub(crate) faults: Option<Vec<Stopper>>,
    pub(crate) stopped: bool,
    /// The start of the process: another process may get the number.
    began: Option<u64>,
    /// When it was looked at last, ns of the timestamps' clock.
    looked: u64,
    cpu_stat: Option<CpuStat>,
    /// For how long its cgroup was throttled, ns.
    throttled: Option<Reading<u64>>,
    memory: Option<MemoryStat>,
    /// How often its cgroup went over `memory.high`, and for how long it waited for memory, ns.
    stalled: Option<Reading<(u64, u64)>>,
    threads: HashMap<u32, Seen>,
}

/// Totals that grow, and the time of the last look that could read them: the next growth is of the time since then.
#[derive(Clone, Copy, Debug)]
struct Reading<T> {
    time: u64,
    totals: T,
}

impl<T: Copy> Reading<T> {
    /// Notes the totals of this time, and returns those before. The growth before the first look is not known.
    fn replace(last: &mut Option<Self>, time: u64, totals: T) -> Self {
        let new = Reading { time, totals };
        last.replace(new).unwrap_or(new)
    }
}

/// A thread as the last look found it.
#[derive(Debug)]
struct Seen {
    scheduled: Scheduled,
    /// It was found in a system call since it got a CPU last.
    in_call: bool,
}

impl Process {
    /// Begins to look at it.
    pub(crate) fn begin(
        pid: u32,
        looked: u64,
        switches: Option<Vec<Stopper>>,
        faults: Option<Vec<Stopper>>,
    ) -> Self {
        let cpu_stat = CpuStat::of(pid);
        let reading = |totals| Reading { time: looked, totals };
        let throttled = cpu_stat.as_ref().and_then(CpuStat::throttled_ns).map(reading);
        let memory = MemoryStat::of(pid);
        let stalled = memory.as_ref().and_then(|memory| memory.high().zip(memory.stalled_ns()));
        let stalled = stalled.map(|totals| Reading { time: looked, totals });
        let seen = |scheduled: Scheduled| (scheduled.tid, Seen { scheduled, in_call: false });
        Process {
            switches,
            faults,
            stopped: false,
            began: Life::of(pid).map(|life| life.began),
            looked,
            cpu_stat,
            throttled,
            memory,
            stalled,
            threads: scheduled(pid).map(seen).collect(),
        }
    }

    /// Stops the kernel's rings of the process.
    pub(crate) fn stop(&self) {
        let rings = [&self.switches, &self.faults];
        rings.into_iter().flatten().flatten().for_each(|ring| drop(ring.stop()));
    }

    /// Looks at it, and says what has changed. Returns whether it still exists.
    pub(crate) fn look(&mut self, pid: u32, clock: &MachineClock, voice: &Voice) -> bool {
        // Read before the look, and so not later than what the look finds.
        let now = clock.now_ns();
        let found = Life::of(pid).filter(|life| Some(life.began) == self.began);
        // A process that is gone is not stopped any more.
        let is_stopped = found.is_some_and(|life| life.is_stopped);
        let before = std::mem::replace(&mut self.looked, now);
        if is_stopped || self.stopped {
            self.stopped = is_stopped;
            let turn = if is_stopped { Turn::Begin } else { Turn::End };
            voice.say(&Stop { pid, turn: turn.into(), before, look: now });
        }
        if found.is_none() {
            return false;
        }
        if let Some(stat) = &self.cpu_stat
            && let Some(total) = stat.throttled_ns()
        {
            let Reading { time: before, totals } =
                Reading::replace(&mut self.throttled, now, total);
            let (version, added) = (stat.version, total.saturating_sub(totals));
            if added > 0 {
                voice.say(&Throttle { pid, version, before, added });
            }
        }
        if let Some(memory) = &self.memory
            && let Some(total) = memory.high().zip(memory.stalled_ns())
        {
            let Reading { time: before, totals } = Reading::replace(&mut self.stalled, now, total);
            let (high, added) =
                (total.0.saturating_sub(totals.0), total.1.saturating_sub(totals.1));
            if high > 0 && added > 0 {
                let high = u32::try_from(high).unwrap_or(u32::MAX);
                voice.say(&Memory { pid, high, before, added });
            }
        }
        let mut there = HashSet::new();
        for scheduled in scheduled(pid) {
            there.insert(scheduled.tid);
            self.look_at_thread(pid, before, scheduled, clock, voice);
        }
        self.threads.retain(|tid, _| there.contains(tid));
        true
    }

    fn look_at_thread(
        &mut self,
        pid: u32,
        before: u64,
        scheduled: Scheduled,
        clock: &MachineClock,
        voice: &Voice,
    ) {
        let Scheduled { tid, delay, times } = scheduled;
        let now = Seen { scheduled, in_call: false };
        // What it had waited before the first look is not known.
        let last = self.threads.insert(tid, now);
        let added = last.as_ref().map_or(0, |last| delay.saturating_sub(last.scheduled.delay));
        if added > 0 {
            voice.say(&Delay { pid, tid, before, added });
        }
        // Since it got a CPU last, a look has found it in the call in which it still is.
        let mut in_call = last.is_some_and(|last| last.in_call && last.scheduled.times == times);
        if !in_call {
            let look = clock.now_ns();
            if let Some(call) = call_of(pid, tid) {
                let mut name = [0; 32];
                let len = call.len().min(name.len());
                name[..len].copy_from_slice(&call.as_bytes()[..len]);
                voice.say(&Call { pid, tid, look, name });
                in_call = true;
            }
        }
        self.threads.entry(tid).and_modify(|seen| seen.in_call = in_call);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn a_number_that_another_process_got_is_not_the_process() {
        let (clock, me) = (MachineClock::find().unwrap(), std::process::id());
        let (voice, _ring) = Voice::new().unwrap();
        let mut process = Process::begin(me, clock.now_ns(), None, None);
        assert!(process.look(me, &clock, &voice));
        process.began = process.began.map(|began| began - 1);
        assert!(!process.look(me, &clock, &voice));
    }
}
