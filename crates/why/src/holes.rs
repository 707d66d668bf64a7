//! Times of which records of the kernel are lost: it had no room for them in a ring.

use crate::evidence::Events;
use std::collections::HashMap;

/// The limit of times that are kept; beyond it the last one grows.
const MOST: usize = 1 << 16;

/// A time of which records of a kernel's ring are lost.
#[derive(Clone, Copy, Debug)]
struct Hole {
    of: Events,
    /// 0: of all processes.
    pid: u32,
    from: u64,
    until: u64,
    records: u64,
}

/// All such times.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    all: Vec<Hole>,
    /// Of each ring of the kernel, the time since its last record, and what was lost since then.
    open: HashMap<u32, Hole>,
}

impl Holes {
    /// A ring of the kernel has a record: what was lost before that is from the time since the record before.
    pub(crate) fn heard(&mut self, source: u32, time: u64) {
        let hole = self.open.entry(source).or_insert_with(|| new(time));
        if hole.records > 0 {
            let over = Hole { until: time, ..*hole };
            let full = self.all.len() >= MOST;
            match self.all.last_mut() {
                Some(last) if full => {
                    (last.until, last.pid) = (time, 0);
                    last.records = last.records.saturating_add(over.records);
                }
                _ => self.all.push(over),
            }
        }
        (hole.from, hole.records) = (time.max(hole.from), 0);
    }

    /// A ring of the kernel had no room for so many records.
    pub(crate) fn lost(&mut self, source: u32, time: u64, of: Events, pid: u32, records: u64) {
        let hole = self.open.entry(source).or_insert_with(|| new(time));
        (hole.of, hole.pid) = (of, pid);
        hole.records = hole.records.saturating_add(records);
    }

    /// Returns how many records about a process may be missing in a time.
    pub(crate) fn missing(&self, of: Events, pid: u32, from: u64, until: u64) -> u64 {
        let open = self.open.values().filter(|hole| hole.records > 0);
        let about = |hole: &&Hole| hole.of == of && (hole.pid == 0 || hole.pid == pid);
        let holes = self.all.iter().chain(open).filter(about);
        let touching = holes.filter(|hole| hole.from <= until && hole.until >= from);
        touching.map(|hole| hole.records).fold(0, u64::saturating_add)
    }

    /// Returns for how long switches were lost, ns.
    pub(crate) fn length(&self) -> u64 {
        let switches = self.all.iter().filter(|hole| hole.of == Events::Switches);
        let lengths = switches.map(|hole| hole.until.saturating_sub(hole.from));
        lengths.fold(0, u64::saturating_add)
    }
}

fn new(time: u64) -> Hole {
    Hole { of: Events::Switches, pid: 0, from: time, until: u64::MAX, records: 0 }
}
