//! For which times the kernel's events are known.

use crate::case::Coverage;
use crate::evidence::Events;
use crate::gap::Gap;
use crate::holes::Holes;
use crate::times::Times;
use std::collections::HashMap;

/// When which events of the kernel are known.
#[derive(Debug, Default)]
pub(crate) struct Cover {
    /// When events of a process are recorded; 0: of the machine.
    watched: HashMap<(Events, u32), Times>,
    pub(crate) holes: Holes,
    late: Times,
}

impl Cover {
    /// A record of the kernel's came, the newest one being of this time.
    pub(crate) fn heard(&mut self, source: u32, time: u64, newest: u64) {
        self.holes.heard(source, time);
        if time < newest {
            self.late.add(time, newest);
        }
    }

    /// These events are recorded from now on. Returns whether that is new: it is said again from time to time.
    pub(crate) fn begin(&mut self, time: u64, of: Events, pid: u32) -> bool {
        let times = self.watched.entry((of, pid)).or_default();
        let is_new = !times.is_open();
        times.begin(time);
        is_new
    }

    /// They are recorded no more.
    pub(crate) fn end(&mut self, time: u64, of: Events, pid: u32) {
        self.watched.entry((of, pid)).or_default().end(time);
    }

    /// Returns whether switches were ever recorded, of whatever process.
    pub(crate) fn has_switches(&self) -> bool {
        self.watched.keys().any(|(of, _)| *of == Events::Switches)
    }

    /// Returns when the switches of a process were recorded last, unless they still are, or never were.
    pub(crate) fn last_end(&self, pid: u32) -> Option<u64> {
        let end = |pid| self.watched.get(&(Events::Switches, pid))?.last_end();
        end(0).max(end(pid))
    }

    /// Returns for how long the machine's switches are known between two moments.
    pub(crate) fn within(&self, from: u64, until: u64) -> u64 {
        let machine = self.watched.get(&(Events::Switches, 0));
        let covered = machine.map_or(0, |times| times.within(from, until));
        covered.saturating_sub(self.holes.length())
    }

    /// Returns whether all page faults of a gap's process are known.
    pub(crate) fn has_faults(&self, gap: &Gap) -> bool {
        self.is_watched(Events::Faults, gap)
            && self.holes.missing(Events::Faults, gap.thread.pid, gap.from, gap.until) == 0
    }

    /// Returns whether the switches of a gap's process are known.
    pub(crate) fn of(&self, gap: &Gap) -> Coverage {
        match self.holes.missing(Events::Switches, gap.thread.pid, gap.from, gap.until) {
            _ if !self.is_watched(Events::Switches, gap) => Coverage::None,
            0 if self.late.touches(gap.from, gap.until) => Coverage::Late,
            0 => Coverage::Whole,
            lost => Coverage::Lost(lost),
        }
    }

    fn is_watched(&self, of: Events, gap: &Gap) -> bool {
        let mut watches =
            [0, gap.thread.pid].into_iter().filter_map(|pid| self.watched.get(&(of, pid)));
        watches.any(|times| times.covers(gap.from, gap.until))
    }
}
