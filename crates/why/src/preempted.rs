//! Threads that were preempted: the reasons why their processes held others up.

use crate::finding::{Finding, Kind};
use crate::gap::Parts;
use std::collections::VecDeque;

/// The limit of gaps that are remembered.
const RECENT: usize = 64;

/// The last gaps with the cause "preempted".
#[derive(Debug, Default)]
pub(crate) struct Preempted(VecDeque<Gap>);

#[derive(Debug)]
struct Gap {
    pid: u32,
    from: u64,
    until: u64,
    /// For how long of it the thread was not preempted.
    rest: u64,
    /// Why, in words.
    why: String,
}

impl Preempted {
    /// Notes a finding, if it is one.
    pub(crate) fn note(&mut self, finding: &Finding) {
        let Some(thread) = finding.thread else { return };
        if finding.kind != Kind::Gap || finding.cause != "preempted" {
            return;
        }
        if self.0.len() >= RECENT {
            self.0.pop_front();
        }
        let why = match &finding.by {
            Some((_, by)) => format!("preempted by {by}"),
            None => "preempted".to_owned(),
        };
        let (pid, from) = (thread.pid, finding.time);
        let until = from.saturating_add(finding.length);
        let preempted = finding.parts.as_ref().map_or(0, Parts::preempted_in_all);
        let rest = finding.length.saturating_sub(preempted);
        self.0.push_back(Gap { pid, from, until, rest, why });
    }

    /// Returns in words that a process was surely preempted for more than `least` of a time.
    pub(crate) fn within(&self, of: u32, from: u64, until: u64, least: u64) -> Option<String> {
        let is_it = |gap: &&Gap| {
            let overlap = gap.until.min(until).saturating_sub(gap.from.max(from));
            gap.pid == of && overlap.saturating_sub(gap.rest) > least
        };
        self.0.iter().rev().find(is_it).map(|gap| gap.why.clone())
    }
}
