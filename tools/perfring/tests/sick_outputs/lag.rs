//! How far an output is behind: what its records took, without the time that it could not deliver them.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From a time to another, ns since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Returns ns since 1970.
pub(crate) fn now() -> u64 {
    ns_of(SystemTime::now())
}

pub(crate) fn ns_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// How long the processes' threads have waited for a processor that others had.
#[derive(Default)]
pub(crate) struct Starved {
    /// By process and thread, ns.
    threads: HashMap<String, u64>,
    sum: u64,
    /// The sums, with their times.
    samples: Vec<(u64, u64)>,
}

impl Starved {
    pub(crate) fn sample(&mut self, pids: impl IntoIterator<Item = u32>) {
        for pid in pids {
            // A process may end at any time.
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for task in tasks {
                let schedstat = fs::read_to_string(task.path().join("schedstat"));
                let waited = schedstat.unwrap_or_default();
                let waited = waited.split(' ').nth(1).and_then(|waited| waited.parse().ok());
                let Some(waited) = waited else { continue };
                let name = task.path().to_str().unwrap().to_owned();
                let before: u64 = self.threads.insert(name, waited).unwrap_or(0);
                self.sum += waited.saturating_sub(before);
            }
        }
        self.samples.push((now(), self.sum));
    }

    /// Returns how long they have waited between two times, at most.
    fn between(&self, from: u64, to: u64) -> u64 {
        let first = self.samples.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let last = self.samples.partition_point(|(at, _)| *at < to).min(self.samples.len() - 1);
        self.samples[last].1 - self.samples[first].1
    }
}

/// The lags of an output's records.
pub(crate) struct Lags<'a> {
    /// When nothing was expected of it: in order, and apart.
    without: Vec<Span>,
    starved: &'a Starved,
    all: Vec<u64>,
    worst: u64,
}

impl<'a> Lags<'a> {
    pub(crate) fn new(mut without: Vec<Span>, starved: &'a Starved) -> Self {
        without.sort_by_key(|span| span.from);
        without.dedup_by(|next, before| {
            let touches = next.from <= before.to;
            if touches {
                before.to = before.to.max(next.to);
            }
            touches
        });
        Lags { without, starved, all: Vec::new(), worst: 0 }
    }

    pub(crate) fn add(&mut self, written: u64, came: u64) {
        let overlap = |span: &Span| span.to.min(came).saturating_sub(span.from.max(written));
        let excused: u64 = self.without.iter().map(overlap).sum();
        let lag = came.saturating_sub(written).saturating_sub(excused);
        self.all.push(lag);
        let starved = self.starved.between(written, came);
        self.worst = self.worst.max(lag.saturating_sub(starved));
    }

    /// Prints the lags: how long they are depends on the machine.
    pub(crate) fn report(mut self, name: &str) {
        self.all.sort_unstable();
        let at = |share: f64| {
            let at = ((self.all.len() - 1) as f64 * share) as usize;
            Duration::from_nanos(self.all[at])
        };
        let worst = Duration::from_nanos(self.worst);
        println!(
            "{name}: behind {:?} (median), {:?} (99 %), {:?} (99.9 %), {:?} (most); {worst:?} at most by itself",
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
}
