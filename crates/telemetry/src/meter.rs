//! Instruments whose values are words in the ring's file: an update is one or a few atomic additions, and no record.
//!
//! A [`Sink`](crate::Sink) publishes a record for each measurement: each is kept, with its time. A [`Meter`] keeps what they come
//! to. Readers sample it: the sidecar at intervals, `perfring metrics`, [`Observer::metrics`]; after `kill -9`, too.
//!
//! ```
//! use perfring_telemetry::meter::{Instrument, Meter, options};
//! use perfring_telemetry::Resource;
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("shop");
//! let resource = Resource::here().with("service.name", "shop");
//! let meter = Meter::open_or_create(&path, &options(), resource)?;
//!
//! let orders = Instrument { unit: "{order}", ..Instrument::new("orders") };
//! let paid = meter.counter::<u64>(&Instrument { attributes: &[("by", "card".into())], ..orders })?;
//! let latency = meter.histogram(&Instrument { unit: "s", ..Instrument::new("latency") })?;
//! paid.add(1); // some ns each, from any thread
//! latency.record(0.0042);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | values | an update |
//! |---|---|---|
//! | [`Counter`] | `u64`, `f64` | an atomic addition |
//! | [`UpDownCounter`] | `i64`, `f64` | an atomic addition |
//! | [`Gauge`] | `i64`, `f64` | an atomic store |
//! | [`Histogram`] | `f64` | sum, least and greatest, a bucket |
//!
//! (An addition of doubles is a compare-and-swap.) Each instrument is a cumulative sum or histogram, or a gauge, of one set of
//! attributes: make one for each set, once. Threads that update one all the time have separate words with
//! [`Instrument::stripes`].
//!
//! A forked child has its own values: see [`Metrics`]. A full area is an error, and the ring counts it.
//!
//! Anchors: Agrona's counters file, HotSpot's `hsperfdata`, the multiprocess files of Prometheus' clients.
//!
//! [`Observer::metrics`]: https://docs.rs/perfring-consumer/latest/perfring_consumer/struct.Observer.html#method.metrics

use crate::ids;
use crate::names::{self, AttributeName};
use crate::resource::Resource;
use crate::severity::Temporality;
use crate::signals::{self, COMMON, RESOURCE};
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Constant, Encoding, Field, Schema, Shape};
use perfring_producer::{
    Location, Options, Policy,
    metrics::{Buckets, Metric, MetricKind, Metrics, MetricsError},
};
use std::marker::PhantomData;

/// Returns the options of a ring for instruments alone: shared, a metrics area of 1 MiB, which holds some 8,000 sums and gauges,
/// or 190 histograms, and a type table of 4 MiB.
#[must_use]
pub fn options() -> Options {
    let (size, policy) = (1 << 16, Policy::Overwrite);
    let (types_size, metrics_size) = (4 << 20, 1 << 20);
    Options { size, policy, types_size, metrics_size, time: true, ..Options::many() }
}

/// The identity of an instrument. Two that are equal in all of it are one; with other values or buckets, the second is
/// an error.
#[derive(Clone, Copy, Debug)]
pub struct Instrument<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its unit in UCUM (`s`, `By`, `{order}`), or empty.
    pub unit: &'a str,
    /// What it measures, or empty.
    pub description: &'a str,
    /// The part of the program that it is from, or empty: the instrumentation scope.
    pub scope: &'a str,
    /// The attributes of all its measurements.
    pub attributes: &'a [(&'a str, Constant<'a>)],
    /// For how many threads that update it all the time it has separate words, each of which takes as much room as the first:
    /// 64 bytes, or 5.1 KiB for a histogram. Default 1. A gauge has one.
    pub stripes: u32,
    /// The buckets of a histogram.
    pub buckets: Buckets,
}

impl<'a> Instrument<'a> {
    /// Creates an instrument without unit, description and attributes.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Instrument {
            name,
            unit: "",
            description: "",
            scope: "",
            attributes: &[],
            stripes: 1,
            buckets: Buckets::default(),
        }
    }

    /// Calls `act` with the record type that describes it: what it is stands there as constants.
    pub(crate) fn with_schema<R>(
        &self,
        class: Class,
        is_monotonic: bool,
        act: impl FnOnce(&Schema<'_>) -> R,
    ) -> R {
        let mut fields = COMMON.to_vec();
        fields.push(Field { unit: self.unit, ..Field::new(names::VALUE, 0, Shape::ANY) });
        for (name, text) in [
            (names::NAME, self.name),
            (names::UNIT, self.unit),
            (names::DESCRIPTION, self.description),
            (names::SCOPE, self.scope),
        ] {
            if !text.is_empty() || name == names::NAME {
                fields.push(Field::constant(name, Constant::Str(text)));
            }
        }
        if class == Class::Sum {
            fields.push(Field::constant(names::IS_MONOTONIC, Constant::Bool(is_monotonic)));
        }
        if class != Class::Gauge {
            let temporality = Constant::U64(Temporality::Cumulative.number());
            fields.push(Field::constant(names::TEMPORALITY, temporality));
        }
        let attributes: Vec<_> = self
            .attributes
            .iter()
            .map(|(name, value)| (AttributeName::new(class, name), *value))
            .collect();
        fields
            .extend(attributes.iter().map(|(name, value)| Field::constant(name.as_str(), *value)));
        let schema =
            Schema { class, help: self.description, ..Schema::new(self.name, Encoding::Tagged) };
        act(&schema.with_fields(0, &fields).with_hashed_id())
    }
}

/// The instruments of a process, in a ring with a metrics area. Clones are the same.
#[derive(Clone, Debug)]
pub struct Meter {
    metrics: Metrics,
}

impl Meter {
    /// Attaches to a shared ring with a metrics area, and puts the resource there.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn attach(location: impl Into<Location>, resource: Resource) -> Result<Self, MetricsError> {
        Self::of(Metrics::attach(location)?, resource)
    }

    /// Attaches to a shared ring, and makes it first if there is none.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn open_or_create(
        location: impl Into<Location>,
        options: &Options,
        resource: Resource,
    ) -> Result<Self, MetricsError> {
        Self::of(Metrics::open_or_create(location, options)?, resource)
    }

    fn of(metrics: Metrics, resource: Resource) -> Result<Self, MetricsError> {
        let began = (std::process::id(), ids::started());
        let payload = move || {
            let mut payload = Vec::new();
            let mut writer = TaggedWriter::new(&mut payload);
            let pid = std::process::id();
            writer.u64(1, pid.into());
            // A forked child has none of its parent's values.
            signals::started(if pid == began.0 { began.1 } else { ids::nanos() }, &mut writer);
            resource.fill(&mut writer);
            payload
        };
        Ok(Meter { metrics: metrics.with_description(RESOURCE, payload)? })
    }

    fn register(
        &self,
        of: &Instrument<'_>,
        class: Class,
        is_monotonic: bool,
        kind: MetricKind,
    ) -> Result<Metric, MetricsError> {
        of.with_schema(class, is_monotonic, |schema| {
            self.metrics.register(schema, kind, of.stripes)
        })
    }

    /// Returns the counter of this name and these attributes: a sum that only grows.
    ///
    /// A cold call, like the next ones: it takes the lock of the ring's type table, which another process may hold for up to
    /// 0.1 s.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn counter<T: CounterValue>(
        &self,
        of: &Instrument<'_>,
    ) -> Result<Counter<T>, MetricsError> {
        Ok(Counter(self.register(of, Class::Sum, true, T::COUNTER)?, PhantomData))
    }

    /// Returns the counter that grows and shrinks.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn up_down_counter<T: SignedValue>(
        &self,
        of: &Instrument<'_>,
    ) -> Result<UpDownCounter<T>, MetricsError> {
        Ok(UpDownCounter(self.register(of, Class::Sum, false, T::UP_DOWN)?, PhantomData))
    }

    /// Returns the gauge. Readers do not see it before it is set.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn gauge<T: SignedValue>(&self, of: &Instrument<'_>) -> Result<Gauge<T>, MetricsError> {
        Ok(Gauge(self.register(of, Class::Gauge, false, T::GAUGE)?, PhantomData))
    }

    /// Returns the histogram, with [`Instrument::buckets`].
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn histogram(&self, of: &Instrument<'_>) -> Result<Histogram, MetricsError> {
        let buckets = of.buckets;
        let kind = MetricKind::Histogram(buckets);
        Ok(Histogram { metric: self.register(of, Class::Histogram, false, kind)?, buckets })
    }

    /// Returns the area: what is lost, and how full it is.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

mod sealed {
    use perfring_producer::metrics::{Metric, MetricKind};

    pub trait Value: Copy {
        fn add(self, to: &Metric);
    }

    pub trait Counter: Value {
        const COUNTER: MetricKind;
    }

    pub trait Signed: Value {
        const UP_DOWN: MetricKind;
        const GAUGE: MetricKind;
        fn bits(self) -> u64;
    }
}

use sealed::{Counter as CounterValue, Signed as SignedValue};

impl sealed::Value for u64 {
    #[inline(always)]
    fn add(self, to: &Metric) {
        to.add(self);
    }
}

impl sealed::Value for i64 {
    #[inline(always)]
    fn add(self, to: &Metric) {
        to.add(self.cast_unsigned());
    }
}

impl sealed::Value for f64 {
    #[inline(always)]
    fn add(self, to: &Metric) {
        to.add_f64(self);
    }
}

impl CounterValue for u64 {
    const COUNTER: MetricKind = MetricKind::CounterU64;
}

impl CounterValue for f64 {
    const COUNTER: MetricKind = MetricKind::CounterF64;
}

impl SignedValue for i64 {
    const UP_DOWN: MetricKind = MetricKind::UpDownI64;
    const GAUGE: MetricKind = MetricKind::GaugeI64;
    #[inline(always)]
    fn bits(self) -> u64 {
        self.cast_unsigned()
    }
}

impl SignedValue for f64 {
    const UP_DOWN: MetricKind = MetricKind::UpDownF64;
    const GAUGE: MetricKind = MetricKind::GaugeF64;
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// A sum that only grows, of `u64` or `f64`.
#[derive(Clone, Debug)]
pub struct Counter<T>(Metric, PhantomData<T>);

impl<T: CounterValue> Counter<T> {
    /// Adds to it. A negative number is no error of this call: the sum is not monotonic then.
    #[inline(always)]
    pub fn add(&self, value: T) {
        value.add(&self.0);
    }
}

impl Counter<u64> {
    /// Raises it to this, unless it is greater: for a count that something else keeps. With one stripe.
    #[inline]
    pub fn raise(&self, value: u64) {
        self.0.raise(value);
    }
}

/// A sum that grows and shrinks, of `i64` or `f64`.
#[derive(Clone, Debug)]
pub struct UpDownCounter<T>(Metric, PhantomData<T>);

impl<T: SignedValue> UpDownCounter<T> {
    /// Adds to it.
    #[inline(always)]
    pub fn add(&self, value: T) {
        value.add(&self.0);
    }
}

/// The last value, an `i64` or an `f64`.
#[derive(Clone, Debug)]
pub struct Gauge<T>(Metric, PhantomData<T>);

impl<T: SignedValue> Gauge<T> {
    /// Sets it.
    #[inline(always)]
    pub fn set(&self, value: T) {
        self.0.set(value.bits());
    }
}

impl Gauge<f64> {
    /// Adds to it; one that was not set has 0.
    #[inline]
    pub fn adjust(&self, by: f64) {
        self.0.adjust(by);
    }
}

/// Counts of measurements in exponential buckets.
#[derive(Clone, Debug)]
pub struct Histogram {
    metric: Metric,
    buckets: Buckets,
}

impl Histogram {
    /// Counts a measurement. One that is negative, infinite or no number is counted as refused.
    #[inline(always)]
    pub fn record(&self, value: f64) {
        self.metric.record(self.buckets, value);
    }
}
