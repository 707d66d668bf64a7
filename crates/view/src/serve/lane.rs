//! What happened in a span of time, ring by ring: how many records in each part of it, and the records themselves
//! where they are few.

use super::clock::Clock;
use super::shown::RecordJson;
use perfring_events::{Loss, Rec};
use serde::Serialize;

/// Parts of a span, at most.
const BINS: usize = 4_000;
/// Records of a ring that are few.
const FEW: usize = 240;
/// Losses of a ring that are shown.
const LOSSES: usize = 500;

/// A span of the page's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: i64,
    pub(super) to: i64,
    bins: usize,
}

/// A ring in a span.
#[derive(Debug, Serialize)]
pub(super) struct Lane {
    id: u32,
    name: String,
    /// Records in each part of the span.
    bins: Vec<u32>,
    /// All of its records, if they are few.
    records: Option<Vec<RecordJson>>,
    /// Losses: when, how many, why.
    lost: Vec<(i64, u64, &'static str)>,
    /// Records that were overwritten, or read and freed, before they could be looked at.
    pub(super) missed: u64,
    /// Whether the rest was not looked at, as there were too many.
    pub(super) more: bool,
}

impl Span {
    pub(super) fn new(from: i64, to: i64, bins: usize) -> Option<Self> {
        (from < to).then(|| Span { from, to, bins: bins.clamp(1, BINS) })
    }

    pub(super) fn has(&self, t: i64) -> bool {
        (self.from..self.to).contains(&t)
    }

    pub(super) fn bin(&self, t: i64) -> usize {
        let [t, from, to] = [t, self.from, self.to].map(i128::from);
        let part = (t - from) * self.bins as i128 / (to - from);
        usize::try_from(part).unwrap_or(0).min(self.bins - 1)
    }
}

impl Lane {
    pub(super) fn new(id: u32, name: &str, span: &Span) -> Self {
        Lane {
            id,
            name: name.to_owned(),
            bins: vec![0; span.bins],
            records: Some(Vec::new()),
            lost: Vec::new(),
            missed: 0,
            more: false,
        }
    }

    pub(super) fn record(&mut self, seq: u64, record: &Rec<'_>, span: &Span, clock: &Clock) {
        let Some(t) = record.wall.map(|wall| clock.of_wall(wall)).filter(|t| span.has(*t)) else {
            return;
        };
        if let Some(count) = self.bins.get_mut(span.bin(t)) {
            *count += 1;
        }
        match &mut self.records {
            Some(few) if few.len() < FEW => {
                few.push(RecordJson::of(seq, self.id, &self.name, record, clock));
            }
            few => *few = None,
        }
    }

    pub(super) fn loss(&mut self, loss: &Loss, span: &Span, clock: &Clock) {
        let t = loss.wall.map(|wall| clock.of_wall(wall)).filter(|t| span.has(*t));
        if let Some(t) = t
            && self.lost.len() < LOSSES
        {
            self.lost.push((t, loss.records, loss.cause.name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_of_a_span_is_in_one_part_of_it() {
        let span = Span::new(-10, 10, 4).expect("a span");
        let bins: Vec<usize> = [-10, -6, -5, -1, 0, 9].map(|t| span.bin(t)).into();
        assert_eq!(bins, [0, 0, 1, 1, 2, 3]);
        assert!(span.has(-10) && !span.has(10));
        let far = Span::new(i64::MIN, i64::MAX, 10).expect("a span");
        assert_eq!((far.bin(i64::MIN), far.bin(0), far.bin(i64::MAX - 1)), (0, 5, 9));
        assert!(Span::new(5, 5, 10).is_none());
    }
}
