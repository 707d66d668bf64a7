//! The lists of contestants.

use crate::contest::calls::{Calls, Publish, PublishPod, PublishTimeout, ReserveTimeout};
use crate::contest::perfring::{InPlace, Ring};
use crate::contest::{Floor, rings, ways};
use crate::contestant::{Contestant, Role};
use crate::error::{BenchError, Result};
use crate::options::Options;
use crate::player::{Entry, LINE, MEMCPY};
use crate::workload::Workload;

/// The contestants of a program, and what it measures unless it is asked for something else.
pub struct Entrants {
    /// In the order of the report.
    pub lists: &'static [&'static [Entry]],
    /// Those that take part only where they are named.
    pub named_only: &'static [Entry],
    /// The usual workloads.
    pub workloads: &'static [Workload],
    /// The commit of which the program was built, if it is known.
    pub commit: Option<&'static str>,
}

/// The limits that need no library.
pub const LIMITS: &[Entry] = &[MEMCPY, LINE, Entry::of::<Floor>("floor", Role::Limit)];

const fn ours<C: Contestant>(name: &'static str) -> Entry {
    Entry::of::<C>(name, Role::Ours)
}

/// perfring in each way. To add one, add its line.
pub const WAYS: &[Entry] = &[
    ours::<Ring<Calls<Publish>>>("perfring publish"),
    ours::<Ring<Calls<PublishTimeout>>>("perfring publish_timeout"),
    ours::<Ring<Calls<ReserveTimeout>>>("perfring reserve_timeout"),
    ours::<Ring<Calls<PublishPod>>>("perfring publish_pod"),
    ours::<Ring<Calls<PublishTimeout, true>>>("perfring default reader"),
    ours::<Ring<ways::Copied>>("perfring copied"),
    ours::<Ring<InPlace<false>>>("perfring in place"),
    ours::<Ring<ways::Batched>>("perfring batch"),
    ours::<Ring<ways::Values>>("perfring values"),
    ours::<Ring<InPlace<true>>>("perfring half"),
    ours::<Ring<ways::Shared>>("perfring shared"),
    ours::<Ring<ways::SharedBatched>>("perfring shared batch"),
    ours::<Ring<ways::Named<false>>>("perfring named"),
    ours::<Ring<ways::Named<true>>>("perfring named batch"),
    ours::<Ring<rings::Cpu>>("perfring cpu"),
    ours::<Ring<rings::Fullest>>("perfring rings"),
    ours::<Ring<rings::InTurn>>("perfring rings in turn"),
    ours::<Ring<rings::InOrder>>("perfring rings merged"),
];

/// Those of `perfring bench`.
pub static OURS: Entrants = Entrants {
    lists: &[LIMITS, WAYS],
    named_only: &[],
    workloads: &[Workload::Throughput, Workload::Latency, Workload::Producers, Workload::Overwrite],
    commit: None,
};

impl Entrants {
    /// Returns all that take part where none is named.
    pub fn all(&self) -> impl Iterator<Item = &'static Entry> {
        self.lists.iter().copied().flatten()
    }

    /// Returns the contestant of this name.
    pub fn by_name(&self, name: &str) -> Option<Entry> {
        self.all().chain(self.named_only).find(|entry| entry.name == name).copied()
    }

    /// Returns the chosen contestants. Limits always take part: without them a figure says little.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if a name is unknown.
    pub fn chosen(&self, options: &Options) -> Result<Vec<Entry>> {
        if let Some(name) = options.contestants.iter().find(|name| self.by_name(name).is_none()) {
            return Err(BenchError::Usage(format!("no contestant {name:?}; --list has all")));
        }
        let named = |entry: &&Entry| options.contestants.iter().any(|name| name == entry.name);
        let wanted = |entry: &&Entry| {
            options.contestants.is_empty() || named(entry) || entry.role == Role::Limit
        };
        let named_only = self.named_only.iter().filter(named);
        Ok(self.all().filter(wanted).chain(named_only).copied().collect())
    }
}
