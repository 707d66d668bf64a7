//! The series of the samples of all rings.

use super::page::Page;
use super::text::{Labels, Sort};
use perfring_events::signal::{BUCKETS_MAX, Buckets, Exponential, Temporality};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// A process in a ring: its sums and counts are added to those of others.
pub(super) type ProcessId = (u32, u64);

/// Everything that is served, except figures of the program itself.
#[derive(Debug, Default)]
pub(super) struct Series {
    limits: Limits,
    families: BTreeMap<String, Family>,
    /// Names of families and of samples, and their owner: if two names become the same, the first
    /// is used.
    names: HashMap<String, String>,
    /// Removed rings, and since when.
    ended_rings: HashMap<u32, Instant>,
    pub(super) figures: Figures,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) series: usize,
    pub(super) bytes: usize,
    pub(super) expire: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) series: usize,
    /// Bytes of names and labels.
    pub(super) bytes: usize,
    parts: usize,
}

#[derive(Debug)]
struct Family {
    sort: Sort,
    /// The name and the unit that it has in rings.
    instrument: (String, String),
    help: String,
    series: BTreeMap<Labels, One>,
}

#[derive(Debug)]
struct One {
    /// Sums of deltas, and the counts of ended processes.
    base: Amount,
    /// The last sample of each process.
    parts: HashMap<ProcessId, Part>,
    /// The process that has set it last: of a gauge.
    set_by: Option<ProcessId>,
    /// The rings that it is from.
    rings: Vec<u32>,
}

#[derive(Debug)]
struct Part {
    amount: Amount,
    /// What it counts from, ns since 1970; 0 if it is unknown.
    start: u64,
    seen: Instant,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Amount {
    Number(f64),
    Counts(Counts),
}

/// A histogram.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) explicit: Buckets,
    /// The same in exponential buckets; `None` if some of it was not measured here.
    pub(super) native: Option<Box<Exponential>>,
}

/// How a sample is combined with earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Replaces it: a gauge.
    Set,
    /// It is added.
    Add,
    /// Replaces the earlier sample of the same process. It grows since this start, or goes up and
    /// down.
    Replace { start: u64, grows: bool },
}

impl How {
    pub(super) fn of(temporality: Temporality, start: Option<u64>, grows: bool) -> Self {
        match temporality {
            Temporality::Delta => How::Add,
            Temporality::Cumulative => How::Replace { start: start.unwrap_or_default(), grows },
        }
    }
}

/// Why a sample was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    TooMany,
    NameTaken,
    OtherBounds,
}

impl LeftOut {
    /// Returns the reason as a word.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            LeftOut::TooMany => "too_many",
            LeftOut::NameTaken => "other_kind",
            LeftOut::OtherBounds => "other_bounds",
        }
    }
}

impl Amount {
    fn zero(like: &Amount) -> Amount {
        match like {
            Amount::Number(_) => Amount::Number(0.0),
            Amount::Counts(Counts { explicit: like, native }) => Amount::Counts(Counts {
                explicit: Buckets {
                    count: 0,
                    sum: Some(0.0),
                    min: None,
                    max: None,
                    bounds: like.bounds.clone(),
                    buckets: vec![0; like.buckets.len()],
                },
                native: native.as_ref().map(|_| Box::default()),
            }),
        }
    }

    fn add(&mut self, other: &Amount) -> bool {
        match (self, other) {
            (Amount::Number(to), Amount::Number(from)) => {
                *to += from;
                true
            }
            (Amount::Counts(to), Amount::Counts(from)) => {
                let added = to.explicit.add(&from.explicit);
                if added {
                    match (&mut to.native, &from.native) {
                        (Some(to), Some(from)) => to.add(from),
                        _ => to.native = None,
                    }
                }
                added
            }
            _ => false,
        }
    }

    fn is_less(&self, other: &Amount) -> bool {
        match (self, other) {
            (Amount::Number(one), Amount::Number(other)) => one < other,
            (Amount::Counts(one), Amount::Counts(other)) => {
                one.explicit.count < other.explicit.count
            }
            _ => false,
        }
    }

    fn fits(&self, other: &Amount) -> bool {
        match (self, other) {
            (
                Amount::Counts(Counts { explicit: one, .. }),
                Amount::Counts(Counts { explicit: other, .. }),
            ) => one.bounds == other.bounds && one.buckets.len() == other.buckets.len(),
            (Amount::Number(_), Amount::Number(_)) => true,
            _ => false,
        }
    }
}

/// A sample, named by Prometheus's rules.
pub(super) struct Sample<'a> {
    pub(super) name: String,
    pub(super) sort: Sort,
    /// Its name and its unit.
    pub(super) instrument: (&'a str, &'a str),
    pub(super) help: &'a str,
    pub(super) labels: Labels,
    pub(super) process: ProcessId,
    pub(super) how: How,
    pub(super) amount: Amount,
}

impl Series {
    pub(super) fn new(limits: Limits) -> Self {
        Series { limits, ..Series::default() }
    }

    pub(super) fn add(&mut self, sample: Sample<'_>, now: Instant) -> Result<(), LeftOut> {
        let Sample { name, sort, instrument, help, labels, process, how, amount } = sample;
        let is_new = !self.families.get(&name).is_some_and(|it| it.series.contains_key(&labels));
        let size = size(&name, &labels, &amount);
        if is_new {
            let figures = &self.figures;
            if figures.series >= self.limits.series || figures.bytes + size > self.limits.bytes {
                return Err(LeftOut::TooMany);
            }
        }
        if !self.families.contains_key(&name) {
            self.claim(&name, sort)?;
        }
        let family = self.families.entry(name).or_insert_with(|| Family {
            sort,
            instrument: (instrument.0.to_owned(), instrument.1.to_owned()),
            help: help.chars().take(1024).collect(),
            series: BTreeMap::new(),
        });
        let of = (family.instrument.0.as_str(), family.instrument.1.as_str());
        if family.sort != sort || of != instrument {
            return Err(LeftOut::NameTaken);
        }
        let one = family.series.entry(labels).or_insert_with(|| One {
            base: Amount::zero(&amount),
            parts: HashMap::new(),
            set_by: None,
            rings: Vec::new(),
        });
        if is_new {
            self.figures.series += 1;
            self.figures.bytes += size;
        }
        if !one.rings.contains(&process.0) {
            one.rings.push(process.0);
        }
        if !one.base.fits(&amount) {
            return Err(LeftOut::OtherBounds);
        }
        match how {
            How::Set => (one.base, one.set_by) = (amount, Some(process)),
            // What a process that ends has added to a counter stays.
            How::Add if sort != Sort::Gauge => {
                one.base.add(&amount);
            }
            How::Add | How::Replace { .. } => {
                if !one.parts.contains_key(&process) {
                    if self.figures.parts >= self.limits.series.saturating_mul(4) {
                        one.fold_oldest().then_some(()).ok_or(LeftOut::TooMany)?;
                        self.figures.parts -= 1;
                    }
                    self.figures.parts += 1;
                }
                match how {
                    How::Replace { start, grows } => {
                        one.replace(process, start, grows, amount, now);
                    }
                    _ => one.add(process, &amount, now),
                }
            }
        }
        Ok(())
    }

    /// Reserves all names that samples of this family have in either format.
    fn claim(&mut self, name: &str, sort: Sort) -> Result<(), LeftOut> {
        let names: Vec<String> = match sort {
            Sort::Gauge => vec![name.into()],
            Sort::Counter => {
                let bare = name.strip_suffix("_total").unwrap_or(name);
                vec![bare.into(), name.into(), format!("{bare}_created")]
            }
            Sort::Histogram => ["", "_bucket", "_sum", "_count", "_created"]
                .map(|suffix| format!("{name}{suffix}"))
                .into(),
        };
        if names.iter().any(|its| self.names.contains_key(its)) {
            return Err(LeftOut::NameTaken);
        }
        self.names.extend(names.into_iter().map(|its| (its, name.to_owned())));
        Ok(())
    }

    /// Handles a removed ring: its series stay for a while.
    pub(super) fn ring_ended(&mut self, ring: u32, now: Instant) {
        self.ended_rings.insert(ring, now);
    }

    /// Forgets the series of rings that were removed long ago, and what gauges have of these dead processes.
    pub(super) fn expire(&mut self, now: Instant, dead: &HashSet<ProcessId>) {
        let limit = self.limits.expire;
        let is_old = |since: &Instant| now.saturating_duration_since(*since) >= limit;
        let old: HashSet<u32> = self
            .ended_rings
            .iter()
            .filter(|(_, since)| is_old(since))
            .map(|(ring, _)| *ring)
            .collect();
        if old.is_empty() && dead.is_empty() {
            return;
        }
        self.ended_rings.retain(|ring, _| !old.contains(ring));
        let figures = &mut self.figures;
        self.families.retain(|name, family| {
            let is_gauge = family.sort == Sort::Gauge;
            family.series.retain(|labels, one| {
                one.rings.retain(|ring| !old.contains(ring));
                let before = one.parts.len();
                let goes = |its: &ProcessId| old.contains(&its.0) || is_gauge && dead.contains(its);
                let parts = std::mem::take(&mut one.parts);
                for (process, part) in parts {
                    if !goes(&process) {
                        one.parts.insert(process, part);
                    } else if !is_gauge {
                        // Other processes are still counted in it, and it must not go back.
                        one.base.add(&part.amount);
                    }
                }
                let is_left = one.parts.len() < before && one.parts.is_empty();
                let is_left = is_gauge && one.set_by.as_ref().map_or(is_left, goes);
                if one.rings.is_empty() || is_left {
                    figures.parts -= before;
                    figures.series -= 1;
                    figures.bytes = figures.bytes.saturating_sub(size(name, labels, &one.base));
                    return false;
                }
                figures.parts -= before - one.parts.len();
                true
            });
            !family.series.is_empty()
        });
        let families = &self.families;
        self.names.retain(|_, family| families.contains_key(family));
    }

    pub(super) fn write(&self, page: &mut Page, is_taken: impl Fn(&str) -> bool) {
        for (name, family) in &self.families {
            if is_taken(name) {
                continue; // the program's own figures use this name
            }
            page.family(name, family.sort, &family.help);
            for (labels, one) in &family.series {
                match one.total() {
                    Amount::Number(value) => page.sample(name, labels, value),
                    Amount::Counts(Counts { explicit, native }) => {
                        page.histogram(name, labels, &explicit, native.as_deref());
                    }
                }
            }
        }
    }
}

/// Returns the approximate bytes of a series.
fn size(name: &str, labels: &Labels, amount: &Amount) -> usize {
    let labels: usize = labels.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
    let amount = match amount {
        Amount::Number(_) => 8,
        Amount::Counts(Counts { explicit, native }) => {
            let native = native.as_ref().map_or(0, |_| 8 * BUCKETS_MAX);
            64 * explicit.buckets.len() + native
        }
    };
    labels + name.len() + 128 + amount
}

impl One {
    fn total(&self) -> Amount {
        let mut total = self.base.clone();
        for part in self.parts.values() {
            total.add(&part.amount);
        }
        total
    }

    /// Adds to what a process has added.
    fn add(&mut self, process: ProcessId, amount: &Amount, now: Instant) {
        let zero = Part { amount: Amount::zero(amount), start: 0, seen: now };
        let part = self.parts.entry(process).or_insert(zero);
        part.amount.add(amount);
        part.seen = now;
    }

    fn replace(
        &mut self,
        process: ProcessId,
        start: u64,
        grows: bool,
        amount: Amount,
        now: Instant,
    ) {
        let Some(part) = self.parts.get_mut(&process) else {
            self.parts.insert(process, Part { amount, start, seen: now });
            return;
        };
        part.seen = now;
        if !grows {
            part.amount = amount;
            return;
        }
        if part.start != start && part.start != 0 && start != 0 {
            if start < part.start {
                return; // it is late, and counted already
            }
            self.base.add(&part.amount);
            (part.amount, part.start) = (amount, start);
            return;
        }
        part.start = part.start.max(start);
        // Samples of two threads may be out of order: the greatest is used.
        if !amount.is_less(&part.amount) {
            part.amount = amount;
        }
    }

    /// Adds the process that was silent for longest to the ended ones.
    fn fold_oldest(&mut self) -> bool {
        let oldest =
            self.parts.iter().min_by_key(|(_, part)| part.seen).map(|(process, _)| *process);
        let Some(part) = oldest.and_then(|oldest| self.parts.remove(&oldest)) else { return false };
        self.base.add(&part.amount);
        true
    }
}
