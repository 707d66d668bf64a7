//! Samples of metrics.

use perfring_events::Rec;
use perfring_events::signal::{Common, Histogram, HistogramData, Instrument, Signal, Temporality};
use perfring_figures::escape::one_line;
use perfring_types::Class;
use serde::Serialize;

/// Characters of a name or a value.
const TEXT: usize = 120;

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
pub(super) struct Sample<'a> {
    what: Instrument<'a>,
    pub(super) kind: Kind,
    pub(super) common: &'a Common<'a>,
    pub(super) value: f64,
    /// Whether it is all since a start, and only grows.
    pub(super) cumulative: bool,
    pub(super) monotonic: bool,
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

/// Returns what a page shows of a name or a value.
pub(super) fn short(text: &str) -> String {
    one_line(&text.chars().take(TEXT).collect::<String>())
}

/// Returns the signal of a record if it is a sample of a metric.
pub(super) fn signal<'a>(record: &'a Rec<'_>) -> Option<Signal<'a>> {
    let class = record.kind_of()?.class.known()?;
    matches!(class, Class::Gauge | Class::Sum | Class::Histogram).then(|| Signal::of(record))
}

/// Returns the sample in a signal.
pub(super) fn sample<'a>(signal: &'a Signal<'a>) -> Option<Sample<'a>> {
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
                HistogramData::Exponential(of) => (Kind::Buckets, of.count as f64),
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
    pub(super) fn metric(&self) -> Metric {
        let (name, unit) = (short(self.what.name), short(self.what.unit));
        Metric { name, unit, kind: self.kind }
    }
}
