//! What tasks and rings are called.

use crate::evidence::{Holder, SeatNow, Thread};
use std::collections::HashMap;

/// The limit of tasks whose names are kept.
const MOST: usize = 1 << 18;

/// The names of tasks and of rings.
#[derive(Debug, Default)]
pub(crate) struct Names {
    tasks: HashMap<u32, String>,
    /// Processes that have seats, by the names that these give them.
    owners: HashMap<u32, String>,
    rings: HashMap<u32, String>,
}

impl Names {
    pub(crate) fn add(&mut self, thread: Thread, name: &str) {
        if self.tasks.len() < MOST || self.tasks.contains_key(&thread.tid) {
            self.tasks.insert(thread.tid, printable(name));
        }
    }

    /// The name of a seat says more about its process than the kernel's name. The number of a process that has ended, or that is in
    /// another container, may be another process's here.
    pub(crate) fn add_owner(&mut self, seat: &SeatNow) {
        let is_known = seat.here && !matches!(seat.holder, Holder::Dead | Holder::Gone);
        if is_known && self.owners.len() < MOST && !seat.name.is_empty() {
            self.owners.insert(seat.pid, printable(&seat.name));
        }
    }

    /// A task has the name of the one that started it.
    pub(crate) fn inherit(&mut self, thread: Thread, parent: Thread) {
        if thread.pid == thread.tid {
            self.owners.remove(&thread.pid); // a new process with the number of an old one
        }
        if let Some(name) = self.tasks.get(&parent.tid).cloned() {
            self.add(thread, &name);
        }
    }

    pub(crate) fn add_ring(&mut self, ring: u32, name: &str) {
        self.rings.insert(ring, printable(name));
    }

    /// Returns a ring's name.
    pub(crate) fn ring(&self, ring: u32) -> String {
        self.rings.get(&ring).cloned().unwrap_or_else(|| format!("number {ring}"))
    }

    /// Returns the name of a task, if it is known.
    pub(crate) fn of(&self, thread: Thread) -> Option<&str> {
        self.tasks.get(&thread.tid).map(String::as_str)
    }

    /// Describes a task: `stress (123)`, or `worker (124 of shop 120)`. A process with a seat has the name of that, as in
    /// sentences about the seat.
    pub(crate) fn task(&self, thread: Thread) -> String {
        let Thread { pid, tid } = thread;
        let process = self.owners.get(&pid).or_else(|| self.tasks.get(&pid));
        let own = process.filter(|_| pid == tid).map(String::as_str);
        match (own.or_else(|| self.of(thread)), process) {
            (Some(name), _) if pid == tid || pid == 0 => format!("{name} ({tid})"),
            (Some(name), Some(process)) => format!("{name} ({tid} of {process} {pid})"),
            (Some(name), None) => format!("{name} ({tid} of process {pid})"),
            (None, _) if pid == tid => format!("process {pid}"),
            (None, _) => format!("thread {tid} of process {pid}"),
        }
    }
}

/// Returns a text without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Formats a length of time to three digits: `850 ns`, `420 µs`, `3.10 ms`, `1.25 s`.
#[must_use]
pub fn span(ns: u64) -> String {
    let scaled = |unit: f64, name: &str| {
        let value = ns as f64 / unit;
        match value {
            ..10.0 => format!("{value:.2} {name}"),
            ..100.0 => format!("{value:.1} {name}"),
            _ => format!("{value:.0} {name}"),
        }
    };
    // A time that rounds to 1000 of a unit is 1.00 of the next.
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => scaled(1e3, "µs"),
        999_500..999_500_000 => scaled(1e6, "ms"),
        _ => scaled(1e9, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Role;

    #[test]
    fn tasks_and_times_are_described() {
        let mut names = Names::default();
        let (shop, worker) = (Thread { pid: 120, tid: 120 }, Thread { pid: 120, tid: 124 });
        assert_eq!(names.task(shop), "process 120");
        assert_eq!(names.task(worker), "thread 124 of process 120");
        names.add(shop, "sh\u{1b}op");
        names.inherit(worker, shop);
        assert_eq!(names.task(worker), "sh?op (124 of sh?op 120)");
        names.add(worker, "worker");
        assert_eq!(
            [names.task(shop), names.task(worker)],
            ["sh?op (120)", "worker (124 of sh?op 120)"]
        );
        let (role, holder) = (Role::Producer, Holder::Alive);
        let name = "shop publish".to_owned();
        let (holds_up, here) = (false, false);
        let seat = SeatNow { role, number: 0, pid: 120, name, holder, holds_up, here };
        names.add_owner(&seat);
        names.add_owner(&SeatNow { holder: Holder::Dead, here: true, ..seat.clone() });
        assert_eq!(names.task(shop), "sh?op (120)", "it may be another process's number here");
        names.add_owner(&SeatNow { here: true, ..seat });
        assert_eq!(
            [names.task(shop), names.task(worker)],
            ["shop publish (120)", "worker (124 of shop publish 120)"]
        );
        assert_eq!(names.of(shop), Some("sh?op"), "the thread's own name");
        names.inherit(shop, Thread { pid: 1, tid: 1 });
        assert_eq!(names.task(shop), "sh?op (120)");
        let times = [7, 1_500, 420_000, 3_100_000, 99_960_000, 1_250_000_000];
        assert_eq!(times.map(span), ["7 ns", "1.50 µs", "420 µs", "3.10 ms", "100.0 ms", "1.25 s"]);
        let times = [999_499, 999_500, 999_499_999, 999_500_000];
        assert_eq!(times.map(span), ["999 µs", "1.00 ms", "999 ms", "1.00 s"]);
    }
}
