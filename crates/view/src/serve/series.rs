//! The metrics of which rings hold samples, and the series of one over a span of time.

use super::clock::Clock;
use super::filter::Filter;
use super::lane::Span;
use super::sample::{Kind, Metric, sample, short, signal};
use super::seen::Seen;
use perfring_events::Rec;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Parts of a span, at most: a series has a point in each.
pub(super) const BINS: usize = 600;
/// Metrics, series of one, and losses of one answer.
const METRICS: usize = 500;
const SERIES: usize = 48;
const LOSSES: usize = 500;
/// Attributes of a series.
const ATTRIBUTES: usize = 16;

/// What a part of a span has of a series.
#[derive(Debug, Default)]
struct Bin {
    /// When the last sample was, and the value so far.
    t: i64,
    value: f64,
    all: Vec<f64>,
}

/// A series of a metric: of one process in one ring, with the same attributes.
#[derive(Debug, Serialize)]
struct Series {
    ring: u32,
    ring_name: String,
    pid: Option<u64>,
    attributes: Vec<(String, String)>,
    cumulative: bool,
    monotonic: bool,
    /// When, and a value; of single measurements the median, p99, and how many there are.
    points: Vec<(i64, f64, Option<f64>, usize)>,
    #[serde(skip)]
    bins: BTreeMap<usize, Bin>,
}

/// The metrics, and the series of the one that is asked for.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    metrics: BTreeSet<Metric>,
    series: Vec<Series>,
    /// Losses: when, how many, why, and of which ring.
    lost: Vec<(i64, u64, &'static str, String)>,
    /// Series that are left out, samples of them as they are found; and records that were gone before.
    more_samples: u64,
    missed: u64,
    /// Whether rings have more records than are looked at.
    more: bool,
    pub(super) left_out: usize,
    #[serde(skip)]
    wanted: Option<Metric>,
    #[serde(skip)]
    places: HashMap<String, usize>,
}

impl Answer {
    pub(super) fn new(wanted: Option<Metric>, left_out: usize) -> Self {
        Answer {
            metrics: BTreeSet::new(),
            series: Vec::new(),
            lost: Vec::new(),
            more_samples: 0,
            missed: 0,
            more: false,
            left_out,
            wanted,
            places: HashMap::new(),
        }
    }

    /// Takes what is found in a ring.
    pub(super) fn see(
        &mut self,
        (ring, name): (u32, &str),
        seen: &Seen<'_>,
        (span, filter, clock): (&Span, &Filter, &Clock),
    ) {
        match seen {
            Seen::Record(_, record) => self.record((ring, name), record, (span, filter, clock)),
            Seen::Lost(loss) => {
                let t = loss.wall.map(|wall| clock.of_wall(wall)).filter(|t| span.has(*t));
                if let Some(t) = t
                    && self.lost.len() < LOSSES
                {
                    self.lost.push((t, loss.records, loss.cause.name(), name.to_owned()));
                }
            }
            Seen::Missed(records) => self.missed = self.missed.saturating_add(*records),
            Seen::More => self.more = true,
            Seen::Ring { .. } => {}
        }
    }

    fn record(
        &mut self,
        (ring, name): (u32, &str),
        record: &Rec<'_>,
        (span, filter, clock): (&Span, &Filter, &Clock),
    ) {
        let Some(signal) = signal(record) else { return };
        let Some(sample) = sample(&signal) else { return };
        let metric = sample.metric();
        let is_wanted = self.wanted.as_ref() == Some(&metric);
        if self.metrics.len() < METRICS {
            self.metrics.insert(metric);
        }
        let t = sample.common.time.map(|time| clock.of_wall(time)).filter(|t| span.has(*t));
        let Some(t) = t.filter(|_| is_wanted && sample.value.is_finite()) else { return };
        if !filter.takes(record) {
            return;
        }
        let common = sample.common;
        let mut attributes: Vec<_> = common
            .attributes
            .iter()
            .take(ATTRIBUTES)
            .map(|(name, value)| (short(name), short(&value.to_string())))
            .collect();
        attributes.sort();
        let key = format!("{ring} {:?} {attributes:?}", common.pid);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.series.len() >= SERIES => {
                self.more_samples += 1;
                return;
            }
            None => {
                self.series.push(Series {
                    ring,
                    ring_name: name.to_owned(),
                    pid: common.pid,
                    attributes,
                    cumulative: sample.cumulative,
                    monotonic: sample.monotonic,
                    points: Vec::new(),
                    bins: BTreeMap::new(),
                });
                self.places.insert(key, self.series.len() - 1);
                self.series.len() - 1
            }
        };
        let Some(series) = self.series.get_mut(place) else { return };
        let is_new = !series.bins.contains_key(&span.bin(t));
        let bin = series.bins.entry(span.bin(t)).or_default();
        match sample.kind {
            Kind::Histogram => bin.all.push(sample.value),
            Kind::Sum | Kind::Buckets if !sample.cumulative => bin.value += sample.value,
            // Threads publish a sum that only grows out of order: the greatest of neighbours counts.
            Kind::Sum | Kind::Buckets if sample.monotonic && !is_new => {
                bin.value = bin.value.max(sample.value);
            }
            _ if is_new || t >= bin.t => bin.value = sample.value,
            _ => {}
        }
        bin.t = if is_new { t } else { bin.t.max(t) };
    }

    /// Returns the answer, with the points of all series.
    pub(super) fn finish(mut self) -> Self {
        for series in &mut self.series {
            let bins = std::mem::take(&mut series.bins).into_values();
            series.points = bins.map(Bin::point).collect();
        }
        self.series
            .sort_by(|a, b| (a.ring, a.pid, &a.attributes).cmp(&(b.ring, b.pid, &b.attributes)));
        self
    }
}

impl Bin {
    fn point(mut self) -> (i64, f64, Option<f64>, usize) {
        self.all.sort_unstable_by(f64::total_cmp);
        match self.all.len() {
            0 => (self.t, self.value, None, 0),
            len => (self.t, rank(&self.all, 50), Some(rank(&self.all, 99)), len),
        }
    }
}

/// Returns a percentile of sorted values: the least one that at least so many of 100 do not exceed.
fn rank(sorted: &[f64], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_measurement() {
        let all: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((rank(&all, 50), rank(&all, 99), rank(&all[..1], 99)), (100.0, 198.0, 1.0));
        assert_eq!(rank(&all[..2], 50), 1.0);
    }
}
