//! The exporter of metrics.

use crate::door::{Door, Out, Shut};
use crate::fields::{Record, nanos, number};
use crate::lacks::Lack;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality as Sdk;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, ExponentialBucket, ExponentialHistogram, Histogram as SdkHistogram, Metric,
    MetricData, ResourceMetrics,
};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use perfring_telemetry::types::{Class, Schema};
use perfring_telemetry::{Gauge, Histogram, Signal, Sum, Temporality, Value, names};
use std::sync::Arc;
use std::time::Duration;

/// Writes metrics into a ring, a record for each point: see [`RingExporter::metrics`](crate::RingExporter::metrics).
#[derive(Debug)]
pub struct RingMetricExporter {
    pub(crate) door: Arc<Door>,
    pub(crate) shut: Shut,
    pub(crate) temporality: Sdk,
}

const SUM: Schema<'static> = Sum::SCHEMA;
const SUM_MONOTONIC: u16 = number(&SUM, names::IS_MONOTONIC);
const SUM_TEMPORALITY: u16 = number(&SUM, names::TEMPORALITY);
const SUM_START: u16 = number(&SUM, names::START_TIME);
const SUM_VALUE: u16 = number(&SUM, names::VALUE);

const GAUGE: Schema<'static> = Gauge::SCHEMA;
const GAUGE_VALUE: u16 = number(&GAUGE, names::VALUE);

const HISTOGRAM: Schema<'static> = Histogram::SCHEMA;
const HISTOGRAM_TEMPORALITY: u16 = number(&HISTOGRAM, names::TEMPORALITY);
const HISTOGRAM_START: u16 = number(&HISTOGRAM, names::START_TIME);
const COUNT: u16 = number(&HISTOGRAM, names::COUNT);
const TOTAL: u16 = number(&HISTOGRAM, names::SUM);
const MIN: u16 = number(&HISTOGRAM, names::MIN);
const MAX: u16 = number(&HISTOGRAM, names::MAX);
const BOUNDS: u16 = number(&HISTOGRAM, names::EXPLICIT_BOUNDS);
const BUCKETS: u16 = number(&HISTOGRAM, names::BUCKET_COUNTS);
const SCALE: u16 = number(&HISTOGRAM, names::SCALE);
const ZEROS: u16 = number(&HISTOGRAM, names::ZERO_COUNT);
const THRESHOLD: u16 = number(&HISTOGRAM, names::ZERO_THRESHOLD);
const POSITIVE: [u16; 2] =
    [number(&HISTOGRAM, names::POSITIVE_OFFSET), number(&HISTOGRAM, names::POSITIVE_COUNTS)];
const NEGATIVE: [u16; 2] =
    [number(&HISTOGRAM, names::NEGATIVE_OFFSET), number(&HISTOGRAM, names::NEGATIVE_COUNTS)];

impl RingMetricExporter {
    /// Has the SDK make points of this temporality. The default is cumulative, which suits a ring that overwrites: each point
    /// is complete.
    #[must_use]
    pub fn with_temporality(self, temporality: Sdk) -> Self {
        RingMetricExporter { temporality, ..self }
    }
}

impl PushMetricExporter for RingMetricExporter {
    /// Writes the points at once, and does not wait but for the ring's lock.
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.shut.check()?;
        self.door.set_resource(metrics.resource());
        self.door.write("points", |out| {
            for scope in metrics.scope_metrics() {
                for metric in scope.metrics() {
                    match metric.data() {
                        AggregatedMetrics::F64(data) => write(metric, scope.scope(), data, out),
                        AggregatedMetrics::U64(data) => write(metric, scope.scope(), data, out),
                        AggregatedMetrics::I64(data) => write(metric, scope.scope(), data, out),
                    }
                }
            }
        })
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.shut.check()?;
        self.door.flush()
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        self.shut.shut()?;
        self.door.flush()
    }

    fn temporality(&self) -> Sdk {
        self.temporality
    }
}

/// A number of a point.
trait Measured: Copy {
    fn value(self) -> Value<'static>;
    /// As OTLP has the numbers of histograms.
    fn double(self) -> f64;
}

impl Measured for f64 {
    fn value(self) -> Value<'static> {
        Value::F64(self)
    }
    fn double(self) -> f64 {
        self
    }
}

impl Measured for u64 {
    fn value(self) -> Value<'static> {
        Value::U64(self)
    }
    fn double(self) -> f64 {
        self as f64
    }
}

impl Measured for i64 {
    fn value(self) -> Value<'static> {
        Value::I64(self)
    }
    fn double(self) -> f64 {
        self as f64
    }
}

/// The fields of an instrument, and a point's attributes.
fn common<'k>(
    record: &mut Record<'_, '_>,
    metric: &Metric,
    scope: &InstrumentationScope,
    attributes: impl Iterator<Item = &'k KeyValue>,
) {
    let schema = match record.class {
        Class::Gauge => &GAUGE,
        Class::Sum => &SUM,
        _ => &HISTOGRAM,
    };
    record.text(number(schema, names::NAME), metric.name());
    record.text(number(schema, names::UNIT), metric.unit());
    record.text(number(schema, names::DESCRIPTION), metric.description());
    record.scope(scope, None);
    record.unique(attributes);
}

fn write<T: Measured>(
    metric: &Metric,
    scope: &InstrumentationScope,
    data: &MetricData<T>,
    out: &mut Out<'_>,
) {
    match data {
        MetricData::Gauge(gauge) => {
            let time = nanos(gauge.time());
            for point in gauge.data_points() {
                out.lacks.count(Lack::Exemplars, point.exemplars().count() as u64);
                out.item(|out| {
                    out.record(&GAUGE, time, |record| {
                        common(record, metric, scope, point.attributes());
                        point.value().value().write(GAUGE_VALUE, record.writer);
                    });
                });
            }
        }
        MetricData::Sum(sum) => {
            let (start, time) = (nanos(sum.start_time()), nanos(sum.time()));
            for point in sum.data_points() {
                out.lacks.count(Lack::Exemplars, point.exemplars().count() as u64);
                out.item(|out| {
                    out.record(&SUM, time, |record| {
                        common(record, metric, scope, point.attributes());
                        point.value().value().write(SUM_VALUE, record.writer);
                        record.writer.bool(SUM_MONOTONIC, sum.is_monotonic());
                        record.writer.u64(SUM_TEMPORALITY, temporality(sum.temporality()));
                        record.writer.u64(SUM_START, start);
                    });
                });
            }
        }
        MetricData::Histogram(histogram) => buckets(metric, scope, histogram, out),
        MetricData::ExponentialHistogram(histogram) => exponential(metric, scope, histogram, out),
    }
}

fn buckets<T: Measured>(
    metric: &Metric,
    scope: &InstrumentationScope,
    histogram: &SdkHistogram<T>,
    out: &mut Out<'_>,
) {
    let (start, time) = (nanos(histogram.start_time()), nanos(histogram.time()));
    for point in histogram.data_points() {
        out.lacks.count(Lack::Exemplars, point.exemplars().count() as u64);
        let bounds: Vec<f64> = point.bounds().collect();
        let counts: Vec<u64> = point.bucket_counts().collect();
        out.item(|out| {
            out.record(&HISTOGRAM, time, |record| {
                common(record, metric, scope, point.attributes());
                record.writer.u64(HISTOGRAM_TEMPORALITY, temporality(histogram.temporality()));
                record.writer.u64(HISTOGRAM_START, start);
                totals(record, point.count(), point.sum(), (point.min(), point.max()));
                if !counts.is_empty() {
                    record.writer.f64s(BOUNDS, &bounds);
                    record.writer.u64s(BUCKETS, &counts);
                }
            });
        });
    }
}

fn totals<T: Measured>(
    record: &mut Record<'_, '_>,
    count: u64,
    sum: T,
    (min, max): (Option<T>, Option<T>),
) {
    record.writer.u64(COUNT, count);
    record.writer.f64(TOTAL, sum.double());
    for (field, value) in [(MIN, min), (MAX, max)] {
        if let Some(value) = value {
            record.writer.f64(field, value.double());
        }
    }
}

fn exponential<T: Measured>(
    metric: &Metric,
    scope: &InstrumentationScope,
    histogram: &ExponentialHistogram<T>,
    out: &mut Out<'_>,
) {
    let (start, time) = (nanos(histogram.start_time()), nanos(histogram.time()));
    for point in histogram.data_points() {
        out.lacks.count(Lack::Exemplars, point.exemplars().count() as u64);
        let counts = |bucket: &ExponentialBucket| (bucket.offset(), bucket.counts().collect());
        let (positive, negative): ((i32, Vec<u64>), (i32, Vec<u64>)) =
            (counts(point.positive_bucket()), counts(point.negative_bucket()));
        out.item(|out| {
            out.record(&HISTOGRAM, time, |record| {
                common(record, metric, scope, point.attributes());
                record.writer.u64(HISTOGRAM_TEMPORALITY, temporality(histogram.temporality()));
                record.writer.u64(HISTOGRAM_START, start);
                totals(record, point.count() as u64, point.sum(), (point.min(), point.max()));
                record.writer.i64(SCALE, point.scale().into());
                record.writer.u64(ZEROS, point.zero_count());
                record.writer.f64(THRESHOLD, point.zero_threshold());
                for ([offset, field], (first, counts)) in
                    [(POSITIVE, &positive), (NEGATIVE, &negative)]
                {
                    if !counts.is_empty() {
                        record.writer.i64(offset, i64::from(*first));
                        record.writer.u64s(field, counts);
                    }
                }
            });
        });
    }
}

fn temporality(of: Sdk) -> u64 {
    match of {
        Sdk::Delta => Temporality::Delta.number(),
        // The data of a collection is one of these two.
        _ => Temporality::Cumulative.number(),
    }
}
