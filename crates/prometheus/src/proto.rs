//! Prometheus's protobuf format, which has native histograms: messages `io.prometheus.client.MetricFamily`, each after its
//! length.

use super::text::{Labels, Sort};
use perfring_events::signal::{Buckets, Exponential, Run};
use prost::Message;

/// The greatest schema of Prometheus. Its schema is an exponential histogram's scale; with 160 buckets that is never less
/// than its least, -4.
const SCHEMA_MAX: i32 = 8;

#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(enumeration = "Kind", optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    negative_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "10")]
    negative_deltas: Vec<i64>,
    #[prost(message, repeated, tag = "12")]
    positive_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    positive_deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

/// Neighbouring buckets.
#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Page {
    family: Family,
    out: Vec<u8>,
}

impl Page {
    /// Starts a family: all its samples follow.
    pub(super) fn family(&mut self, name: &str, sort: Sort, help: &str) {
        self.end();
        let kind = match sort {
            Sort::Counter => Kind::Counter,
            Sort::Gauge => Kind::Gauge,
            Sort::Histogram => Kind::Histogram,
        };
        let help = Some(help.to_owned());
        let (name, kind) = (Some(name.to_owned()), Some(kind.into()));
        self.family = Family { name, help, kind, metrics: Vec::new() };
    }

    /// Adds a counter or a gauge to the family.
    pub(super) fn sample(&mut self, labels: &Labels, value: f64) {
        let value = Some(Number { value: Some(value) });
        let metric = Metric { labels: self::labels(labels), ..Metric::default() };
        self.family.metrics.push(match self.family.kind() {
            Kind::Counter => Metric { counter: value, ..metric },
            _ => Metric { gauge: value, ..metric },
        });
    }

    /// Adds a histogram to the family.
    pub(super) fn histogram(
        &mut self,
        labels: &Labels,
        explicit: &Buckets,
        native: Option<&Exponential>,
    ) {
        let mut count = 0u64;
        let bucket = |(bound, its): (&f64, &u64)| {
            count = count.saturating_add(*its);
            Bucket { cumulative_count: Some(count), upper_bound: Some(*bound) }
        };
        let buckets = explicit.bounds.iter().zip(&explicit.buckets).map(bucket).collect();
        let (count, sum) = (Some(explicit.count), explicit.sum);
        let mut histogram = Histogram { count, sum, buckets, ..Histogram::default() };
        if let Some(native) = native {
            histogram.add(native);
        }
        let (labels, histogram) = (self::labels(labels), Some(histogram));
        self.family.metrics.push(Metric { labels, histogram, ..Metric::default() });
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.end();
        self.out
    }

    /// Writes the family, if it has something.
    fn end(&mut self) {
        let family = std::mem::take(&mut self.family);
        if !family.metrics.is_empty() {
            self.out.extend_from_slice(&family.encode_length_delimited_to_vec());
        }
    }
}

impl Histogram {
    /// Adds the buckets of a native histogram.
    fn add(&mut self, native: &Exponential) {
        let mut native = native.clone();
        native.downscale(SCHEMA_MAX);
        self.schema = Some(native.scale);
        // Only a threshold above zero marks a native histogram that has no buckets. Nothing but zero is below this one.
        self.zero_threshold = Some(f64::from_bits(1));
        self.zero_count = Some(native.zero);
        (self.positive_spans, self.positive_deltas) = buckets(&native.positive);
        (self.negative_spans, self.negative_deltas) = buckets(&native.negative);
    }
}

/// Returns buckets as Prometheus has them: its index is that of the upper bound, and each count is the difference to the one
/// before.
fn buckets(run: &Run) -> (Vec<Span>, Vec<i64>) {
    let Ok(length @ 1..) = u32::try_from(run.counts.len()) else { return Default::default() };
    let mut before = 0i64;
    let delta = |count: &u64| {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        count.saturating_sub(std::mem::replace(&mut before, count))
    };
    let span = Span { offset: Some(run.offset.saturating_add(1)), length: Some(length) };
    (vec![span], run.counts.iter().map(delta).collect())
}

fn labels(labels: &Labels) -> Vec<Label> {
    let label = |(name, value): &(String, String)| Label {
        name: Some(name.clone()),
        value: Some(value.clone()),
    };
    labels.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_histogram_has_the_buckets_of_the_exponential_one() {
        let mut native = Exponential::default();
        for value in [1.0, 1.0, 4.0, -2.0, 0.0] {
            native.add(&Exponential::one(value));
        }
        native.downscale(0);
        let mut histogram = Histogram::default();
        histogram.add(&native);
        // At schema 0 the bucket 0 ends with 1, and the bucket 2 with 4.
        let span = |offset, length| Span { offset: Some(offset), length: Some(length) };
        assert_eq!((histogram.schema, histogram.zero_count), (Some(0), Some(1)));
        assert_eq!(histogram.positive_spans, [span(0, 3)]);
        assert_eq!(histogram.positive_deltas, [2, -2, 1]);
        assert_eq!(
            (histogram.negative_spans, histogram.negative_deltas),
            (vec![span(1, 1)], vec![1])
        );
        let mut histogram = Histogram::default();
        histogram.add(&Exponential::one(3.0));
        assert_eq!(histogram.schema, Some(SCHEMA_MAX), "Prometheus has no finer one");
    }
}
