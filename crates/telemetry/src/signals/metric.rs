//! Samples of instruments.

use super::record::*;
use crate::severity::Temporality;

/// A sample of a value that rises and falls.
///
/// ```
/// use perfring_telemetry::Gauge;
/// let depth = Gauge { unit: "{job}", ..Gauge::new("queue.depth", 17u64) };
/// # let _ = depth;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gauge<'a> {
    /// The instrument's name.
    pub name: &'a str,
    /// Its unit in UCUM, or empty.
    pub unit: &'a str,
    /// What it measures, or empty.
    pub description: &'a str,
    /// The measured value.
    pub value: Value<'a>,
    /// The attributes of the measurement.
    pub attributes: Attributes<'a>,
}

impl<'a> Gauge<'a> {
    /// Creates a sample without unit, description and attributes.
    #[must_use]
    pub fn new(name: &'a str, value: impl Into<Value<'a>>) -> Self {
        Gauge { name, unit: "", description: "", value: value.into(), attributes: &[] }
    }
}

fields! { GAUGE:
    GAUGE_NAME = plain(names::NAME),
    GAUGE_UNIT = plain(names::UNIT),
    GAUGE_DESCRIPTION = plain(names::DESCRIPTION),
    GAUGE_VALUE = plain(names::VALUE),
}

impl Signal for Gauge<'_> {
    const SCHEMA: Schema<'static> =
        schema("perfring.Gauge", Class::Gauge, "a sample of a gauge", GAUGE);
}

impl sealed::Fill for Gauge<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        text(GAUGE_NAME, self.name, writer);
        text(GAUGE_UNIT, self.unit, writer);
        text(GAUGE_DESCRIPTION, self.description, writer);
        self.value.write(GAUGE_VALUE, writer);
        attributes(Class::Gauge, self.attributes, writer);
    }
}

/// A sample of a sum.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a> {
    /// The instrument's name.
    pub name: &'a str,
    /// Its unit in UCUM, or empty.
    pub unit: &'a str,
    /// What it counts, or empty.
    pub description: &'a str,
    /// The measured value.
    pub value: Value<'a>,
    /// Whether it never decreases.
    pub is_monotonic: bool,
    /// What it counts from.
    pub temporality: Temporality,
    /// The start of a cumulative sum, in ns since 1970.
    pub start_time_unix_nano: Option<u64>,
    /// The attributes of the count.
    pub attributes: Attributes<'a>,
}

impl<'a> Sum<'a> {
    /// Creates a sample of the increase since the last sample.
    #[must_use]
    pub fn delta(name: &'a str, value: impl Into<Value<'a>>) -> Self {
        Sum {
            name,
            unit: "",
            description: "",
            value: value.into(),
            is_monotonic: true,
            temporality: Temporality::Delta,
            start_time_unix_nano: None,
            attributes: &[],
        }
    }

    /// Creates a sample of the whole sum. Take this in an overwrite ring: each sample is complete.
    #[must_use]
    pub fn cumulative(name: &'a str, value: impl Into<Value<'a>>) -> Self {
        Sum { temporality: Temporality::Cumulative, ..Sum::delta(name, value) }
    }
}

fields! { SUM:
    SUM_NAME = plain(names::NAME),
    SUM_UNIT = plain(names::UNIT),
    SUM_DESCRIPTION = plain(names::DESCRIPTION),
    SUM_VALUE = plain(names::VALUE),
    SUM_MONOTONIC = plain(names::IS_MONOTONIC),
    SUM_TEMPORALITY = any(names::TEMPORALITY, "1 delta, 2 cumulative"),
    SUM_START = ns(names::START_TIME, "since 1970"),
}

impl Signal for Sum<'_> {
    const SCHEMA: Schema<'static> = schema("perfring.Sum", Class::Sum, "a sample of a sum", SUM);
}

impl sealed::Fill for Sum<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        text(SUM_NAME, self.name, writer);
        text(SUM_UNIT, self.unit, writer);
        text(SUM_DESCRIPTION, self.description, writer);
        self.value.write(SUM_VALUE, writer);
        writer.bool(SUM_MONOTONIC, self.is_monotonic);
        writer.u64(SUM_TEMPORALITY, self.temporality.number());
        maybe(self.start_time_unix_nano, |time| writer.u64(SUM_START, time));
        attributes(Class::Sum, self.attributes, writer);
    }
}

/// The buckets of an exponential histogram: OpenTelemetry's base-2 scale.
///
/// The bucket `i` has the measurements whose absolute value is above `base^i`, up to and with `base^(i+1)`, where the base is
/// `2^(2^-scale)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exponential<'a> {
    /// The scale.
    pub scale: i64,
    /// How many measurements are zero, or too small for a bucket.
    pub zero_count: u64,
    /// The greatest measurement that counts as zero.
    pub zero_threshold: f64,
    /// The index of the first bucket of positive measurements, and the counts from there on.
    pub positive: (i64, &'a [u64]),
    /// The same of negative measurements, by their absolute values.
    pub negative: (i64, &'a [u64]),
}

/// A histogram's buckets; or, with `value` alone, one measurement that the reader sorts into buckets.
#[derive(Clone, Copy, Debug)]
pub struct Histogram<'a> {
    /// The instrument's name.
    pub name: &'a str,
    /// Its unit in UCUM, or empty.
    pub unit: &'a str,
    /// What it measures, or empty.
    pub description: &'a str,
    /// One measurement.
    pub value: Option<f64>,
    /// What the counts start from.
    pub temporality: Temporality,
    /// The start of cumulative counts, in ns since 1970.
    pub start_time_unix_nano: Option<u64>,
    /// The number of measurements.
    pub count: Option<u64>,
    /// Their sum.
    pub sum: Option<f64>,
    /// The least measurement.
    pub min: Option<f64>,
    /// The greatest measurement.
    pub max: Option<f64>,
    /// The bounds between buckets, ascending; a bound belongs to the bucket below.
    pub explicit_bounds: &'a [f64],
    /// Measurements in each bucket: one bucket more than bounds.
    pub bucket_counts: &'a [u64],
    /// Exponential buckets, in place of both.
    pub exponential: Option<Exponential<'a>>,
    /// The attributes of the measurements.
    pub attributes: Attributes<'a>,
}

impl<'a> Histogram<'a> {
    /// Creates a record of one measurement.
    #[must_use]
    pub fn one(name: &'a str, value: f64) -> Self {
        Histogram { value: Some(value), ..Histogram::state(name, &[], &[]) }
    }

    /// Creates a record of delta counts in buckets.
    #[must_use]
    pub fn state(name: &'a str, explicit_bounds: &'a [f64], bucket_counts: &'a [u64]) -> Self {
        Histogram {
            name,
            unit: "",
            description: "",
            value: None,
            temporality: Temporality::Delta,
            start_time_unix_nano: None,
            count: None,
            sum: None,
            min: None,
            max: None,
            explicit_bounds,
            bucket_counts,
            exponential: None,
            attributes: &[],
        }
    }
}

fields! { HISTOGRAM:
    HISTOGRAM_NAME = plain(names::NAME),
    HISTOGRAM_UNIT = plain(names::UNIT),
    HISTOGRAM_DESCRIPTION = plain(names::DESCRIPTION),
    HISTOGRAM_VALUE = any(names::VALUE, "one measurement"),
    HISTOGRAM_TEMPORALITY = any(names::TEMPORALITY, "1 delta, 2 cumulative"),
    HISTOGRAM_START = ns(names::START_TIME, "since 1970"),
    HISTOGRAM_COUNT = plain(names::COUNT),
    HISTOGRAM_SUM = plain(names::SUM),
    HISTOGRAM_MIN = plain(names::MIN),
    HISTOGRAM_MAX = plain(names::MAX),
    HISTOGRAM_BOUNDS = plain(names::EXPLICIT_BOUNDS),
    HISTOGRAM_BUCKETS = plain(names::BUCKET_COUNTS),
    HISTOGRAM_SCALE = any(names::SCALE, "exponential buckets: the base is 2^(2^-scale)"),
    HISTOGRAM_ZEROS = plain(names::ZERO_COUNT),
    HISTOGRAM_THRESHOLD = plain(names::ZERO_THRESHOLD),
    HISTOGRAM_POSITIVE = any(names::POSITIVE_OFFSET, "the index of the first bucket"),
    HISTOGRAM_POSITIVES = plain(names::POSITIVE_COUNTS),
    HISTOGRAM_NEGATIVE = any(names::NEGATIVE_OFFSET, "the index of the first bucket"),
    HISTOGRAM_NEGATIVES = plain(names::NEGATIVE_COUNTS),
}

impl Signal for Histogram<'_> {
    const SCHEMA: Schema<'static> =
        schema("perfring.Histogram", Class::Histogram, "a histogram, or one of its", HISTOGRAM);
}

impl sealed::Fill for Histogram<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        text(HISTOGRAM_NAME, self.name, writer);
        text(HISTOGRAM_UNIT, self.unit, writer);
        text(HISTOGRAM_DESCRIPTION, self.description, writer);
        maybe(self.value, |value| writer.f64(HISTOGRAM_VALUE, value));
        writer.u64(HISTOGRAM_TEMPORALITY, self.temporality.number());
        maybe(self.start_time_unix_nano, |time| writer.u64(HISTOGRAM_START, time));
        maybe(self.count, |count| writer.u64(HISTOGRAM_COUNT, count));
        maybe(self.sum, |sum| writer.f64(HISTOGRAM_SUM, sum));
        maybe(self.min, |min| writer.f64(HISTOGRAM_MIN, min));
        maybe(self.max, |max| writer.f64(HISTOGRAM_MAX, max));
        if !self.bucket_counts.is_empty() {
            writer.f64s(HISTOGRAM_BOUNDS, self.explicit_bounds);
            writer.u64s(HISTOGRAM_BUCKETS, self.bucket_counts);
        }
        if let Some(of) = &self.exponential {
            writer.i64(HISTOGRAM_SCALE, of.scale);
            writer.u64(HISTOGRAM_ZEROS, of.zero_count);
            writer.f64(HISTOGRAM_THRESHOLD, of.zero_threshold);
            for (offset, counts, (first, all)) in [
                (HISTOGRAM_POSITIVE, HISTOGRAM_POSITIVES, of.positive),
                (HISTOGRAM_NEGATIVE, HISTOGRAM_NEGATIVES, of.negative),
            ] {
                if !all.is_empty() {
                    writer.i64(offset, first);
                    writer.u64s(counts, all);
                }
            }
        }
        attributes(Class::Histogram, self.attributes, writer);
    }
}
