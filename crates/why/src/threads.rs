//! What threads do, from one record to the next: the kernel's switches, added up.

use crate::evidence::{Switch, Thread};
use crate::gap::{Gap, Parts};
use std::collections::{BTreeSet, HashMap};

/// How far a record's timestamp and the kernel's may differ, ns: they read one clock in two ways.
const CLOCKS_DIFFER: u64 = 20_000;
/// The limit of threads whose gaps are followed, and of threads that are known.
const MOST: usize = 1 << 16;

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// On a CPU since then.
    Cpu(u64),
    /// It could run, and has no CPU. This task has run there since then.
    Queue { cpu: u32, by: Option<Thread>, since: u64 },
    /// It waits since then.
    Waits(u64),
}

#[derive(Debug)]
struct Tracked {
    thread: Thread,
    /// The time of its last record, and its ring.
    last: u64,
    ring: u32,
    place: Place,
    /// The CPU that it had last, if known.
    cpu: Option<u32>,
    parts: Parts,
    /// Its last gap was returned while the kernel's switches said that it had no CPU: it must come to one at once.
    early: Option<u64>,
}

impl Tracked {
    /// Returns what the thread did until now: what follows is counted from now on.
    fn upto(&mut self, now: u64) -> Parts {
        let mut parts = std::mem::take(&mut self.parts);
        parts.end_faults();
        match &mut self.place {
            Place::Cpu(since) => {
                parts.ran = parts.ran.saturating_add(now.saturating_sub(*since));
                *since = now.max(*since);
            }
            Place::Waits(since) => {
                parts.add_wait(*since, now);
                *since = now.max(*since);
            }
            Place::Queue { by, since, .. } => {
                add_queued(&mut parts, self.thread, *by, now.saturating_sub(*since));
                *since = now.max(*since);
            }
        }
        parts
    }
}

/// Adds a time for which a thread could run, and its CPU ran this task. The kernel reports first that a task leaves for the
/// thread, and then that the thread has come: in between, the CPU is the thread's own.
fn add_queued(parts: &mut Parts, thread: Thread, by: Option<Thread>, ns: u64) {
    match by {
        Some(task) if task.tid == thread.tid => parts.ran = parts.ran.saturating_add(ns),
        by => parts.add_preempted(by, ns),
    }
}

/// All threads of which anything is known.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Those that have written a record.
    tracked: HashMap<u32, Tracked>,
    /// The task that each CPU runs.
    runners: HashMap<u32, Thread>,
    /// Threads that were preempted on a CPU, and have not come back.
    queues: HashMap<u32, Vec<u32>>,
    /// Threads of a process that were seen.
    of_process: HashMap<u32, BTreeSet<u32>>,
    /// Records that turned out to be written while their thread had no CPU, as far as the switches say.
    broken: Vec<(Thread, u64)>,
}

impl Threads {
    /// Notes that a thread exists.
    pub(crate) fn know(&mut self, thread: Thread) {
        if !thread.is_idle() && self.of_process.len() < MOST {
            let known = self.of_process.entry(thread.pid).or_default();
            if known.len() < MOST {
                known.insert(thread.tid);
            }
        }
    }

    /// Notes that a thread has ended.
    pub(crate) fn ended(&mut self, thread: Thread) {
        if let Some(known) = self.of_process.get_mut(&thread.pid) {
            known.remove(&thread.tid);
            if known.is_empty() {
                self.of_process.remove(&thread.pid);
            }
        }
        self.tracked.remove(&thread.tid);
    }

    /// Returns the thread of a process that has only one.
    pub(crate) fn only_thread_of(&self, pid: u32) -> Option<Thread> {
        let known = self.of_process.get(&pid).filter(|known| known.len() == 1)?;
        known.first().map(|tid| Thread { pid, tid: *tid })
    }

    /// Returns the thread of a process that writes now: its only one, or the only one that has a CPU.
    pub(crate) fn writer_of(&self, pid: u32) -> Option<Thread> {
        let only = self.only_thread_of(pid);
        if only.is_some() {
            return only;
        }
        let mut running = self.runners.values().filter(|thread| thread.pid == pid);
        running.next().copied().filter(|_| running.next().is_none())
    }

    /// Adds a switch.
    pub(crate) fn switched(
        &mut self,
        time: u64,
        thread: Thread,
        cpu: u32,
        how: Switch,
        next: Option<Thread>,
    ) {
        self.know(thread);
        let runner = match how {
            Switch::In => Some(thread),
            Switch::Out | Switch::Preempted => next,
        };
        self.run(time, cpu, runner);
        match how {
            Switch::In => self.came(time, thread, cpu),
            Switch::Out | Switch::Preempted => self.left(time, thread, cpu, how, next),
        }
    }

    /// A CPU runs this task from now on: the time until now is the former one's.
    fn run(&mut self, time: u64, cpu: u32, runner: Option<Thread>) {
        for tid in self.queues.get(&cpu).into_iter().flatten() {
            let Some(tracked) = self.tracked.get_mut(tid) else { continue };
            if let Place::Queue { by, since, .. } = &mut tracked.place {
                let ns = time.saturating_sub(*since);
                add_queued(&mut tracked.parts, tracked.thread, *by, ns);
                (*by, *since) = (runner, time.max(*since));
            }
        }
        match runner {
            Some(thread) => drop(self.runners.insert(cpu, thread)),
            None => drop(self.runners.remove(&cpu)),
        }
    }

    fn came(&mut self, time: u64, thread: Thread, cpu: u32) {
        let Some(tracked) = self.tracked.get_mut(&thread.tid) else { return };
        match tracked.place {
            Place::Cpu(_) => tracked.parts.contradicted = true,
            Place::Waits(since) => tracked.parts.add_wait(since, time),
            Place::Queue { cpu, by, since } => {
                add_queued(&mut tracked.parts, thread, by, time.saturating_sub(since));
                if let Some(queue) = self.queues.get_mut(&cpu) {
                    queue.retain(|tid| *tid != thread.tid);
                }
            }
        }
        if tracked.cpu.is_some_and(|before| before != cpu) {
            tracked.parts.migrations += 1;
        }
        (tracked.cpu, tracked.place) = (Some(cpu), Place::Cpu(time));
        if let Some(record) = tracked.early.take()
            && time > record.saturating_add(CLOCKS_DIFFER)
        {
            tracked.parts.contradicted = true;
            self.broken.push((thread, record));
        }
    }

    fn left(&mut self, time: u64, thread: Thread, cpu: u32, how: Switch, next: Option<Thread>) {
        let Some(tracked) = self.tracked.get_mut(&thread.tid) else { return };
        let since = match tracked.place {
            Place::Cpu(since) => since,
            Place::Queue { .. } | Place::Waits(_) => {
                tracked.parts.contradicted = true;
                self.broken.extend(tracked.early.take().map(|record| (thread, record)));
                time
            }
        };
        tracked.parts.ran = tracked.parts.ran.saturating_add(time.saturating_sub(since));
        tracked.parts.end_faults();
        tracked.cpu = Some(cpu);
        // A record's timestamp may be a little later than the switch behind it.
        let since = time.max(since);
        tracked.place = match how {
            Switch::Preempted => {
                tracked.parts.preemptions += 1;
                self.queues.entry(cpu).or_default().push(thread.tid);
                Place::Queue { cpu, by: next, since }
            }
            _ => Place::Waits(since),
        };
    }

    pub(crate) fn fault(&mut self, time: u64, thread: Thread) {
        self.know(thread);
        if let Some(tracked) = self.tracked.get_mut(&thread.tid) {
            tracked.parts.add_fault(time);
        }
    }

    /// Adds a record of this thread, which the thread wrote while it had a CPU. Returns the gap that the record ends: `None` for
    /// the thread's first one, and for one that came too late for the order of time.
    pub(crate) fn wrote(&mut self, time: u64, thread: Thread, ring: u32) -> Option<Gap> {
        self.know(thread);
        let full = self.tracked.len() >= MOST;
        let Some(tracked) = self.tracked.get_mut(&thread.tid) else {
            if !full {
                let (place, parts) = (Place::Cpu(time), Parts::default());
                let new =
                    Tracked { thread, last: time, ring, place, cpu: None, parts, early: None };
                self.tracked.insert(thread.tid, new);
            }
            return None;
        };
        if time < tracked.last || tracked.thread != thread {
            return None;
        }
        let mut parts = std::mem::take(&mut tracked.parts);
        parts.end_faults();
        let (Place::Cpu(since) | Place::Waits(since) | Place::Queue { since, .. }) = tracked.place;
        if since > time.saturating_add(CLOCKS_DIFFER) {
            // The record came late: what the thread did after it is among the parts before it.
            parts.contradicted = true;
            tracked.parts.contradicted = true;
        }
        self.broken.extend(tracked.early.take().map(|record| (thread, record)));
        match tracked.place {
            Place::Cpu(since) => {
                parts.ran = parts.ran.saturating_add(time.saturating_sub(since));
                tracked.place = Place::Cpu(time.max(since));
            }
            // It has just left, or just comes; a longer difference is a contradiction, which the next switch shows.
            Place::Waits(since) if time.saturating_sub(since) > CLOCKS_DIFFER => {
                parts.add_wait(since, time);
                (tracked.place, tracked.early) = (Place::Waits(time), Some(time));
            }
            Place::Queue { cpu, by, since } if time.saturating_sub(since) > CLOCKS_DIFFER => {
                add_queued(&mut parts, thread, by, time.saturating_sub(since));
                (tracked.place, tracked.early) =
                    (Place::Queue { cpu, by, since: time }, Some(time));
            }
            Place::Waits(_) | Place::Queue { .. } => {}
        }
        let (from, cpu) = (tracked.last, tracked.cpu);
        let gap = Gap { thread, ring, from, until: time, cpu, is_open: false, parts };
        (tracked.last, tracked.ring) = (time, ring);
        Some(gap)
    }

    /// Returns the times since the last records of all threads, each up to its end.
    pub(crate) fn open(&mut self, end: impl Fn(u32) -> u64) -> Vec<Gap> {
        let open = |tracked: &mut Tracked| {
            let (thread, ring, from) = (tracked.thread, tracked.ring, tracked.last);
            let until = end(thread.pid).max(from);
            let (parts, cpu) = (tracked.upto(until), tracked.cpu);
            Gap { thread, ring, from, until, cpu, is_open: true, parts }
        };
        let mut gaps: Vec<Gap> = self.tracked.values_mut().map(open).collect();
        gaps.sort_by_key(|gap| (gap.from, gap.thread));
        gaps
    }

    /// Returns what a thread did since the last look, and when that was. From the first look on, the thread is followed.
    pub(crate) fn looked(&mut self, time: u64, thread: Thread) -> Option<(u64, Parts)> {
        match self.tracked.get_mut(&thread.tid) {
            Some(tracked) if tracked.thread == thread && time >= tracked.last => {
                let parts = tracked.upto(time);
                Some((std::mem::replace(&mut tracked.last, time), parts))
            }
            _ => {
                self.wrote(time, thread, 0);
                // Whether it has a CPU is not known yet.
                self.tracked.get_mut(&thread.tid)?.parts.contradicted = true;
                None
            }
        }
    }

    /// Returns the records since the last call that turned out to be written while their thread had no CPU: switches are
    /// missing.
    pub(crate) fn take_broken(&mut self) -> Vec<(Thread, u64)> {
        std::mem::take(&mut self.broken)
    }

    /// Returns whether this record of the thread was written while it had no CPU, as far as the switches since then say.
    pub(crate) fn is_early(&self, thread: Thread, record: u64) -> bool {
        self.tracked.get(&thread.tid).is_some_and(|tracked| tracked.early == Some(record))
    }

    /// Forgets where the threads of a process are, or all threads (0): their switches were not watched until now.
    pub(crate) fn forget_places(&mut self, pid: u32) {
        if pid == 0 {
            self.runners.clear();
            self.queues.clear();
        }
        let of = |tracked: &&mut Tracked| pid == 0 || tracked.thread.pid == pid;
        for tracked in self.tracked.values_mut().filter(of) {
            tracked.place = Place::Cpu(tracked.last);
            tracked.parts = Parts::default();
            tracked.parts.contradicted = true;
            (tracked.cpu, tracked.early) = (None, None);
        }
    }
}
