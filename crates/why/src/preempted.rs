//! Threads that were preempted: the reasons why their processes held others up.

use crate::finding::{Finding, Kind};
use std::collections::VecDeque;

/// The limit of gaps that are remembered.
const RECENT: usize = 64;

/// The last gaps with the cause "preempted": the process, from when until when, and why in words.
#[derive(Debug, Default)]
pub(crate) struct Preempted(VecDeque<(u32, u64, u64, String)>);

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
        let until = finding.time.saturating_add(finding.length);
        self.0.push_back((thread.pid, finding.time, until, why));
    }

    /// Returns in words that a process was preempted for more than `least` of a time.
    pub(crate) fn within(&self, of: u32, from: u64, until: u64, least: u64) -> Option<String> {
        let is_it = |(pid, begun, ended, _): &&(u32, u64, u64, String)| {
            *pid == of && (*ended).min(until).saturating_sub((*begun).max(from)) > least
        };
        self.0.iter().rev().find(is_it).map(|(_, _, _, why)| why.clone())
    }
}
