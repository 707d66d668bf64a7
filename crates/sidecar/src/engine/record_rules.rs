//! What rules leave out of an output.

use super::bucket::Bucket;
use super::randomness::{of_record, of_value};
use super::ring::Quick;
use crate::config::record_rule::{RecordAction, RecordRule};
use perfring_export::{Event, Loss, LossCause, Rec, later};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::mem::take;
use std::time::{Duration, Instant};

/// How long what rules leave out is summed up before it is reported as lost.
const REPORT: Duration = Duration::from_secs(1);

/// The figures of a rule for one output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleStatus {
    /// Its name.
    pub name: &'static str,
    /// Records that it kept.
    pub kept: u64,
    /// Records that it left out.
    pub left_out: u64,
    /// Their bytes, headers included.
    pub left_out_bytes: u64,
}

/// The rules for an output, in their order.
#[derive(Default)]
pub(super) struct RecordRules {
    all: Vec<Ruling>,
    /// What was left out and is not reported: by the numbers of ring and rule.
    left_out: HashMap<(u32, u32), Loss, BuildHasherDefault<Quick>>,
    /// The first event of these, and when they are to be reported.
    since: Option<(u64, Instant)>,
    /// The last record that was kept: if the output had no room for it, it is offered again, and not judged twice.
    kept: Option<(u32, u64)>,
    /// The present: no record is newer, whatever its ring says.
    now: u64,
}

struct Ruling {
    rule: RecordRule,
    bucket: Option<Bucket>,
    status: RuleStatus,
}

impl Ruling {
    fn new(rule: &RecordRule) -> Self {
        let bucket = match rule.action {
            RecordAction::Rate { records, period, burst } => {
                Some(Bucket::new(records, period, burst))
            }
            _ => None,
        };
        let name = rule.name.as_str();
        let status = RuleStatus { name, kept: 0, left_out: 0, left_out_bytes: 0 };
        Ruling { rule: rule.clone(), bucket, status }
    }

    #[inline]
    fn keeps(&mut self, event: &Event<'_>, record: &Rec<'_>, now: u64) -> bool {
        match &self.rule.action {
            RecordAction::Keep => true,
            RecordAction::Drop => false,
            RecordAction::Sample { threshold, by } => {
                let value = || of_value(&*record.get(by.as_deref()?)?);
                let number = value().unwrap_or_else(|| of_record(event.origin, record.pos));
                number >= *threshold
            }
            RecordAction::Rate { .. } => {
                let time = record.time.map_or(now, |time| time.min(now));
                self.bucket.as_mut().is_none_or(|bucket| bucket.takes(time))
            }
        }
    }
}

impl RecordRules {
    /// Replaces the rules. One that stays the same goes on, with its figures.
    pub(super) fn set<'a>(&mut self, rules: impl Iterator<Item = &'a RecordRule>) {
        let mut before = take(&mut self.all);
        self.all = rules
            .map(|rule| match before.iter().position(|ruling| ruling.rule.is_as(rule)) {
                Some(at) => before.swap_remove(at),
                None => Ruling::new(rule),
            })
            .collect();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Returns whether a rule leaves this record out. It is counted then, and reported later.
    #[inline(never)]
    pub(super) fn leaves_out(&mut self, event: &Event<'_>, record: &Rec<'_>) -> bool {
        let key = (event.origin.id, record.pos);
        if self.kept == Some(key) {
            return false;
        }
        let mut rulings = self.all.iter_mut().enumerate();
        if let Some((nth, ruling)) = rulings.find(|(_, ruling)| ruling.rule.filter.takes(record)) {
            if !ruling.keeps(event, record, self.now) {
                let bytes = record.ring_bytes();
                ruling.status.left_out += 1;
                ruling.status.left_out_bytes += bytes;
                let cause = LossCause::Rule(ruling.rule.name);
                self.add(event, record, cause, nth as u32, bytes);
                return true;
            }
            ruling.status.kept += 1;
        }
        self.kept = Some(key);
        false
    }

    fn add(&mut self, event: &Event<'_>, record: &Rec<'_>, cause: LossCause, nth: u32, bytes: u64) {
        if self.since.is_none() {
            self.since = Some((event.seq, later(Instant::now(), REPORT)));
        }
        let none = Loss::new(0, 0, 0, cause);
        let loss = self.left_out.entry((event.origin.id, nth)).or_insert(none);
        loss.records += 1;
        loss.bytes += bytes;
        // As of those that an output was too busy for.
        loss.pos = record.pos + 1;
        (loss.time, loss.wall) = (record.time, record.wall);
    }

    /// Returns the first event that was left out and is not reported.
    pub(super) fn since(&self) -> Option<u64> {
        self.since.map(|(first, _)| first)
    }

    /// Returns whether something of this ring was left out that is not reported.
    pub(super) fn has(&self, ring: u32) -> bool {
        (0..self.all.len()).any(|nth| self.left_out.contains_key(&(ring, nth as u32)))
    }

    /// Has what was left out reported without further delay.
    pub(super) fn hurry(&mut self) {
        if let Some((_, due)) = &mut self.since {
            *due = Instant::now();
        }
    }

    /// Takes what was left out, by the numbers of rings, if it is to be reported now.
    pub(super) fn take_due(&mut self) -> impl Iterator<Item = (u32, Loss)> {
        let due = self.since.take_if(|(_, due)| *due <= Instant::now()).is_some();
        let taken = if due { take(&mut self.left_out) } else { HashMap::default() };
        taken.into_iter().map(|((ring, _), loss)| (ring, loss))
    }

    /// Takes what was left out of one ring.
    pub(super) fn take_of(&mut self, ring: u32) -> impl Iterator<Item = Loss> {
        let Self { all, left_out, .. } = self;
        (0..all.len()).filter_map(move |nth| left_out.remove(&(ring, nth as u32)))
    }

    /// Returns the rules that no record has met.
    pub(super) fn unmatched(&self) -> impl Iterator<Item = &RecordRule> {
        let unmatched = |ruling: &&Ruling| ruling.status.kept == 0 && ruling.status.left_out == 0;
        self.all.iter().filter(unmatched).map(|ruling| &ruling.rule)
    }

    pub(super) fn status(&self) -> impl Iterator<Item = RuleStatus> {
        self.all.iter().map(|ruling| ruling.status)
    }
}
