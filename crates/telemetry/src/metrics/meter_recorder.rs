//! The recorder that keeps sums and histograms in a metrics area.

use super::known::{Known, describe};
use crate::meter::{self, Meter};
use metrics::{CounterFn, GaugeFn, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use perfring_producer::metrics::MetricsError;
use perfring_producer::types::{Class, Constant};
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps what the `metrics` crate measures in a [`Meter`]: an increment is an atomic addition, and readers sample the sums.
///
/// | | |
/// |---|---|
/// | counter | a cumulative, monotonic sum of `u64` |
/// | gauge | its value |
/// | histogram | exponential buckets: see [`Instrument::buckets`](meter::Instrument::buckets) |
///
/// Describe an instrument before its first use: name, unit, description and labels are stored then, once. Each combination of label
/// values takes 128 bytes of the area, and a histogram 5.1 KiB; keep user names, addresses and the like out of labels. What finds
/// no room measures nothing: [`MeterRecorder::refused`] says so, and the ring counts it.
///
/// ```
/// use perfring_telemetry::{Resource, meter::{Meter, options}, metrics::MeterRecorder};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// let meter = Meter::open_or_create(&path, &options(), Resource::here())?;
/// metrics::with_local_recorder(&MeterRecorder::new(meter), || {
///     metrics::describe_counter!("requests", metrics::Unit::Count, "requests answered");
///     metrics::counter!("requests", "method" => "GET").increment(1);
///     metrics::histogram!("latency").record(0.25);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MeterRecorder {
    meter: Meter,
    known: Known<Measured>,
    refused: Mutex<Option<MetricsError>>,
}

#[derive(Clone, Debug)]
enum Measured {
    Counter(metrics::Counter),
    Gauge(metrics::Gauge),
    Histogram(metrics::Histogram),
}

impl MeterRecorder {
    /// Creates a recorder of this meter. Install it by `metrics::set_global_recorder`.
    #[must_use]
    pub fn new(meter: Meter) -> Self {
        MeterRecorder { meter, known: Known::new(), refused: Mutex::default() }
    }

    /// Returns why the last instrument that found no room, or could not be described, measures nothing; `None` if all do.
    #[must_use]
    pub fn refused(&self) -> Option<MetricsError> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn measured(&self, class: Class, key: &Key) -> Measured {
        self.known.instrument(class, key, |unit, description| {
            let attributes: Vec<(&str, Constant<'_>)> =
                key.labels().map(|label| (label.key(), label.value().into())).collect();
            let of = meter::Instrument {
                unit,
                description: &description,
                attributes: &attributes,
                ..meter::Instrument::new(key.name())
            };
            let (meter, none) = (&self.meter, |error| {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            });
            match class {
                Class::Sum => Measured::Counter(match meter.counter::<u64>(&of) {
                    Ok(counter) => metrics::Counter::from_arc(Arc::new(counter)),
                    Err(error) => {
                        none(error);
                        metrics::Counter::noop()
                    }
                }),
                Class::Gauge => Measured::Gauge(match meter.gauge::<f64>(&of) {
                    Ok(gauge) => metrics::Gauge::from_arc(Arc::new(gauge)),
                    Err(error) => {
                        none(error);
                        metrics::Gauge::noop()
                    }
                }),
                _ => Measured::Histogram(match meter.histogram(&of) {
                    Ok(histogram) => metrics::Histogram::from_arc(Arc::new(histogram)),
                    Err(error) => {
                        none(error);
                        metrics::Histogram::noop()
                    }
                }),
            }
        })
    }
}

impl metrics::Recorder for MeterRecorder {
    describe!();

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        match self.measured(Class::Sum, key) {
            Measured::Counter(counter) => counter,
            _ => metrics::Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        match self.measured(Class::Gauge, key) {
            Measured::Gauge(gauge) => gauge,
            _ => metrics::Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        match self.measured(Class::Histogram, key) {
            Measured::Histogram(histogram) => histogram,
            _ => metrics::Histogram::noop(),
        }
    }
}

impl CounterFn for meter::Counter<u64> {
    fn increment(&self, value: u64) {
        self.add(value);
    }

    fn absolute(&self, value: u64) {
        self.raise(value);
    }
}

impl GaugeFn for meter::Gauge<f64> {
    fn increment(&self, value: f64) {
        self.adjust(value);
    }

    fn decrement(&self, value: f64) {
        self.adjust(-value);
    }

    fn set(&self, value: f64) {
        self.set(value);
    }
}

impl HistogramFn for meter::Histogram {
    fn record(&self, value: f64) {
        self.record(value);
    }
}
