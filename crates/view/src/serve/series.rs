//! The metrics of which rings hold samples, and the series of one over a span of time.

use super::clock::Clock;
use super::filter::Filter;
use super::lane::Span;
use super::walk::Seen;
use crate::escape::escaped;
use perfring_export::Rec;
use perfring_export::signal::{Common, Histogram, HistogramData, Instrument, Signal, Temporality};
use perfring_types::Class;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Parts of a span, at most: a series has a point in each.
pub(super) const BINS: usize = 600;
/// Metrics, series of one, and losses of one answer.
const METRICS: usize = 500;
const SERIES: usize = 48;
const LOSSES: usize = 500;
/// Characters of a name or a value, and attributes of a series.
const TEXT: usize = 120;
const ATTRIBUTES: usize = 16;

/// A metric: what a page asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Metric {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Gauge,
    Sum,
    /// Single measurements: points are percentiles.
    Histogram,
    /// A histogram in buckets: points are its number of measurements, as those of a sum.
    Buckets,
}

/// A sample of a metric.
struct Sample<'a> {
    what: Instrument<'a>,
    kind: Kind,
    common: &'a Common<'a>,
    value: f64,
    /// Whether it is all since a start, and only grows.
    cumulative: bool,
    monotonic: bool,
}

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

impl Kind {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "gauge" => Kind::Gauge,
            "sum" => Kind::Sum,
            "histogram" => Kind::Histogram,
            "buckets" => Kind::Buckets,
            _ => return None,
        })
    }
}

fn short(text: &str) -> String {
    escaped(text.chars().take(TEXT).collect::<String>().as_bytes())
}

/// Returns the signal of a record if it is a sample of a metric.
fn signal<'a>(record: &'a Rec<'_>) -> Option<Signal<'a>> {
    let class = record.kind_of()?.class.known()?;
    matches!(class, Class::Gauge | Class::Sum | Class::Histogram).then(|| Signal::of(record))
}

fn sample<'a>(signal: &'a Signal<'a>) -> Option<Sample<'a>> {
    let is = |temporality| temporality == Temporality::Cumulative;
    Some(match signal {
        Signal::Gauge(of) => Sample {
            what: of.what,
            kind: Kind::Gauge,
            common: &of.common,
            value: of.value.as_f64(),
            cumulative: true,
            monotonic: false,
        },
        Signal::Sum(of) => Sample {
            what: of.what,
            kind: Kind::Sum,
            common: &of.common,
            value: of.value.as_f64(),
            cumulative: is(of.temporality),
            monotonic: of.monotonic,
        },
        Signal::Histogram(Histogram { common, what, temporality, data, .. }) => {
            let (kind, value) = match data {
                HistogramData::One(value) => (Kind::Histogram, *value),
                HistogramData::State(state) => (Kind::Buckets, state.count as f64),
            };
            let cumulative = is(*temporality);
            Sample { what: *what, kind, common, value, cumulative, monotonic: true }
        }
        _ => return None,
    })
}

impl Metric {
    /// Returns the metric of which a record is a sample.
    pub(super) fn of(record: &Rec<'_>) -> Option<Self> {
        sample(&signal(record)?).map(|sample| sample.metric())
    }
}

impl Sample<'_> {
    fn metric(&self) -> Metric {
        let (name, unit) = (short(self.what.name), short(self.what.unit));
        Metric { name, unit, kind: self.kind }
    }
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
