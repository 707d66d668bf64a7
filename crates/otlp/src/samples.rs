//! Collects samples of metrics into data points.

use super::batch::Credit;
use super::mapping::Mapping;
use super::wire;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{
    self as proto, AggregationTemporality, ExponentialHistogramDataPoint, HistogramDataPoint,
    Metric, NumberDataPoint, metric,
};
use perfring_events::signal::{
    Buckets, Exponential, Gauge, Histogram, HistogramData, Histograms, Number, Reported, Sum,
    Temporality,
};
use prost::Message as _;
use std::collections::HashMap;
use std::sync::Arc;

/// The limit of instruments with attributes that are remembered.
const SERIES: usize = 10_000;
/// The approximate limit of bytes of samples' names and attributes.
const BYTES: usize = 16 << 20;
/// The limit of data points in one metric.
const POINTS: usize = 1000;

/// A sample that owns its data.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) description: String,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) time: u64,
    /// 0 if it is unknown.
    pub(super) start: u64,
    pub(super) data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Gauge(Number),
    Sum(Number, Sort),
    Histogram(Buckets, Temporality),
    /// Measurements: a delta.
    Exponential(Exponential, Temporality),
}

/// The aggregation of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sort {
    pub(super) monotonic: bool,
    pub(super) temporality: Temporality,
}

/// What two samples of one series have in common, besides resource and scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Gauge,
    Sum(Sort),
    Histogram(Temporality),
    Exponential(Temporality),
}

impl Sample {
    pub(super) fn gauge(gauge: &Gauge<'_>, now: u64) -> Self {
        Self::new(&gauge.common, gauge.what, None, Data::Gauge(gauge.value), now)
    }

    pub(super) fn sum(sum: &Sum<'_>, now: u64) -> Self {
        let sort = Sort { monotonic: sum.monotonic, temporality: sum.temporality };
        Self::new(&sum.common, sum.what, sum.start, Data::Sum(sum.value, sort), now)
    }

    pub(super) fn histogram(histogram: &Histogram<'_>, now: u64, mapping: &Mapping) -> Self {
        let temporality = histogram.temporality;
        let data = match (&histogram.data, mapping.histograms) {
            (HistogramData::One(value), Histograms::Exponential) => {
                Data::Exponential(Exponential::one(*value), temporality)
            }
            (HistogramData::One(value), Histograms::Explicit) => {
                let bounds = mapping.buckets.of(&histogram.what);
                Data::Histogram(Buckets::one(*value, bounds), temporality)
            }
            (HistogramData::State(state), _) => Data::Histogram(state.clone(), temporality),
            (HistogramData::Exponential(of), _) => Data::Exponential((**of).clone(), temporality),
        };
        Self::new(&histogram.common, histogram.what, histogram.start, data, now)
    }

    fn new(
        common: &perfring_events::signal::Common<'_>,
        what: perfring_events::signal::Instrument<'_>,
        start: Option<u64>,
        data: Data,
        now: u64,
    ) -> Self {
        let mut attributes = wire::attributes(&common.attributes);
        attributes.sort_by(|a, b| a.key.cmp(&b.key));
        Sample {
            name: what.name.to_owned(),
            unit: what.unit.to_owned(),
            description: what.description.to_owned(),
            attributes,
            time: common.time.unwrap_or(now),
            start: start.unwrap_or_default(),
            data,
        }
    }

    fn shape(&self) -> Shape {
        match self.data {
            Data::Gauge(_) => Shape::Gauge,
            Data::Sum(_, sort) => Shape::Sum(sort),
            Data::Histogram(_, temporality) => Shape::Histogram(temporality),
            Data::Exponential(_, temporality) => Shape::Exponential(temporality),
        }
    }

    pub(super) fn size(&self) -> usize {
        let attributes: usize = self.attributes.iter().map(|pair| pair.encoded_len() + 64).sum();
        self.name.len() + self.unit.len() + self.description.len() + attributes + 256
    }
}

/// Samples of all series since the last time that they were sent: the newest of gauges, the
/// greatest of cumulative sums, the sum of deltas and of measurements.
#[derive(Debug, Default)]
pub(super) struct Samples {
    series: HashMap<Series, Gathered>,
    credit: Option<Credit>,
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Series {
    /// The address of the resource, which [`Gathered`] keeps alive.
    resource: usize,
    scope: String,
    name: String,
    unit: String,
    shape: Shape,
    /// In their encoded form.
    attributes: Vec<u8>,
}

#[derive(Debug)]
struct Gathered {
    reported: Arc<Reported>,
    attributes: Vec<KeyValue>,
    description: String,
    /// Points with another start or other bounds than the one that is being filled.
    done: Vec<Point>,
    point: Option<Point>,
    /// Start, time and value of the last point that was sent.
    sent: Option<Point>,
}

#[derive(Clone, Debug)]
struct Point {
    start: u64,
    time: u64,
    data: Data,
}

/// A metric, and the number of its data points.
pub(super) type Points = (Arc<Reported>, String, Metric, u64);

impl Samples {
    /// Returns the oldest event in it.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.credit.map(|credit| credit.seq)
    }

    /// Adds a sample. Returns `false` if there are so many now that they should be sent.
    pub(super) fn add(
        &mut self,
        reported: &Arc<Reported>,
        scope: &str,
        sample: Sample,
        credit: Credit,
    ) -> bool {
        self.credit = Some(self.credit.map_or(credit, |before| before.and(credit)));
        let mut attributes = Vec::new();
        for pair in &sample.attributes {
            let _ = pair.encode_length_delimited(&mut attributes); // a Vec never fails
        }
        let size = sample.size();
        let series = Series {
            resource: Arc::as_ptr(reported).addr(),
            scope: scope.to_owned(),
            shape: sample.shape(),
            name: sample.name,
            unit: sample.unit,
            attributes,
        };
        let bytes = &mut self.bytes;
        let gathered = self.series.entry(series).or_insert_with(|| {
            *bytes += 2 * size;
            Gathered {
                reported: Arc::clone(reported),
                attributes: sample.attributes,
                description: String::new(),
                done: Vec::new(),
                point: None,
                sent: None,
            }
        });
        if !sample.description.is_empty() {
            gathered.description = sample.description;
        }
        let start =
            if sample.start == 0 { reported.start.unwrap_or_default() } else { sample.start };
        // A delta without a start of its own counts from the previous sample.
        let start = match sample.data {
            Data::Sum(_, Sort { temporality: Temporality::Delta, .. })
            | Data::Histogram(_, Temporality::Delta)
            | Data::Exponential(_, Temporality::Delta)
                if sample.start == 0 =>
            {
                gathered.sent.as_ref().map_or(start, |sent| sent.time)
            }
            _ => start,
        };
        let new = Point { start, time: sample.time, data: sample.data };
        let before = bytes_of(&gathered.point);
        match &mut gathered.point {
            Some(point) => {
                if let Some(other) = point.merge(new) {
                    gathered.done.extend(gathered.point.replace(other));
                    *bytes += 512;
                }
            }
            none => *none = Some(new),
        }
        *bytes += bytes_of(&gathered.point).saturating_sub(before);
        self.series.len() < SERIES && self.bytes < BYTES
    }

    /// Takes all samples as metrics; later samples follow them.
    pub(super) fn take(&mut self) -> (Vec<Points>, Option<Credit>) {
        let full = self.series.len() >= SERIES || self.bytes >= BYTES;
        let mut metrics: HashMap<(usize, String, String, String, Shape), Vec<Points>> =
            HashMap::new();
        for (series, gathered) in &mut self.series {
            let mut points = std::mem::take(&mut gathered.done);
            points.extend(gathered.point.take());
            let last = points.last().cloned();
            for mut point in points {
                if let Some(sent) = &gathered.sent {
                    point.not_below(sent);
                }
                let Series { resource, scope, name, unit, shape, .. } = series;
                let key = (*resource, scope.clone(), name.clone(), unit.clone(), *shape);
                let list = metrics.entry(key).or_default();
                if list.last().is_none_or(|(.., points)| *points >= POINTS as u64) {
                    let metric = Metric {
                        name: name.clone(),
                        unit: unit.clone(),
                        description: gathered.description.clone(),
                        data: Some(empty(*shape)),
                        ..Metric::default()
                    };
                    list.push((Arc::clone(&gathered.reported), scope.clone(), metric, 0));
                }
                if let Some((_, _, metric, points)) = list.last_mut() {
                    point.write(metric, gathered.attributes.clone());
                    *points += 1;
                }
            }
            gathered.sent = last.or(gathered.sent.take());
        }
        if full {
            // What was sent of each series is forgotten with it: a late sample may then go back.
            self.series.clear();
        }
        self.bytes = self.series.len() * 512;
        (metrics.into_values().flatten().collect(), self.credit.take())
    }

    /// Forgets the state of ended processes.
    pub(super) fn forget_idle(&mut self) {
        self.series.retain(|_, gathered| {
            gathered.point.is_some() || Arc::strong_count(&gathered.reported) > 1
        });
    }
}

fn bytes_of(point: &Option<Point>) -> usize {
    match point {
        Some(Point { data: Data::Histogram(buckets, _), .. }) => 16 * buckets.buckets.len(),
        Some(Point { data: Data::Exponential(of, _), .. }) => {
            16 * (of.positive.counts.len() + of.negative.counts.len())
        }
        _ => 0,
    }
}

impl Point {
    /// Adds a later sample; returns it if it does not fit into one point with this.
    fn merge(&mut self, new: Point) -> Option<Point> {
        let later = new.time >= self.time;
        let same_start = new.start == self.start;
        let data = new.data.clone();
        match (&mut self.data, data) {
            (Data::Gauge(value), Data::Gauge(newer)) => {
                if later {
                    *value = newer;
                }
            }
            (Data::Sum(sum, sort), Data::Sum(more, _)) => match sort.temporality {
                Temporality::Delta => *sum = sum.plus(more),
                Temporality::Cumulative if !same_start => return Some(new),
                // Samples of two threads may be out of order.
                Temporality::Cumulative if sort.monotonic => {
                    if more.as_f64() > sum.as_f64() {
                        *sum = more;
                    }
                }
                Temporality::Cumulative if later => *sum = more,
                Temporality::Cumulative => {}
            },
            (Data::Histogram(sum, temporality), Data::Histogram(more, _)) => match temporality {
                Temporality::Delta => {
                    if !sum.add(&more) {
                        return Some(new);
                    }
                }
                Temporality::Cumulative if !same_start => return Some(new),
                Temporality::Cumulative => {
                    if more.count >= sum.count {
                        *sum = more;
                    }
                }
            },
            (Data::Exponential(sum, temporality), Data::Exponential(more, _)) => {
                match temporality {
                    Temporality::Delta => sum.add(&more),
                    Temporality::Cumulative if !same_start => return Some(new),
                    Temporality::Cumulative => {
                        if more.count >= sum.count {
                            *sum = more;
                        }
                    }
                }
            }
            _ => return Some(new),
        }
        self.time = self.time.max(new.time);
        self.start = if same_start { self.start } else { self.start.min(new.start) };
        None
    }

    /// Keeps a sum that only grows from falling below the value that was sent.
    fn not_below(&mut self, sent: &Point) {
        if self.start == 0 || self.start != sent.start {
            return;
        }
        match (&mut self.data, &sent.data) {
            (
                Data::Sum(now, Sort { monotonic: true, temporality: Temporality::Cumulative }),
                Data::Sum(before, _),
            ) if now.as_f64() < before.as_f64() => {
                *now = *before;
            }
            (Data::Histogram(now, Temporality::Cumulative), Data::Histogram(before, _))
                if now.count < before.count =>
            {
                *now = before.clone();
            }
            (Data::Exponential(now, Temporality::Cumulative), Data::Exponential(before, _))
                if now.count < before.count =>
            {
                *now = before.clone();
            }
            _ => {}
        }
    }

    fn write(self, metric: &mut Metric, attributes: Vec<KeyValue>) {
        let (start_time_unix_nano, time_unix_nano) = (self.start, self.time);
        let number = |value| NumberDataPoint {
            attributes: attributes.clone(),
            start_time_unix_nano,
            time_unix_nano,
            value: Some(wire::number(value)),
            ..NumberDataPoint::default()
        };
        match (&mut metric.data, self.data) {
            (Some(metric::Data::Gauge(gauge)), Data::Gauge(value)) => {
                // A value at one time has no start.
                let point = NumberDataPoint { start_time_unix_nano: 0, ..number(value) };
                gauge.data_points.push(point);
            }
            (Some(metric::Data::Sum(sum)), Data::Sum(value, _)) => {
                sum.data_points.push(number(value))
            }
            (Some(metric::Data::Histogram(histogram)), Data::Histogram(buckets, _)) => {
                histogram.data_points.push(HistogramDataPoint {
                    attributes,
                    start_time_unix_nano,
                    time_unix_nano,
                    ..wire::buckets(buckets)
                });
            }
            (Some(metric::Data::ExponentialHistogram(histogram)), Data::Exponential(of, _)) => {
                histogram.data_points.push(ExponentialHistogramDataPoint {
                    attributes,
                    start_time_unix_nano,
                    time_unix_nano,
                    ..wire::exponential(of)
                });
            }
            _ => {} // a metric is created for its points' shape
        }
    }
}

fn empty(shape: Shape) -> metric::Data {
    let of = |temporality| match temporality {
        Temporality::Delta => AggregationTemporality::Delta.into(),
        Temporality::Cumulative => AggregationTemporality::Cumulative.into(),
    };
    match shape {
        Shape::Gauge => metric::Data::Gauge(proto::Gauge::default()),
        Shape::Sum(sort) => metric::Data::Sum(proto::Sum {
            aggregation_temporality: of(sort.temporality),
            is_monotonic: sort.monotonic,
            data_points: Vec::new(),
        }),
        Shape::Histogram(temporality) => metric::Data::Histogram(proto::Histogram {
            aggregation_temporality: of(temporality),
            data_points: Vec::new(),
        }),
        Shape::Exponential(temporality) => {
            metric::Data::ExponentialHistogram(proto::ExponentialHistogram {
                aggregation_temporality: of(temporality),
                data_points: Vec::new(),
            })
        }
    }
}
