//! The recorder that publishes each measurement.

use super::known::{Known, describe};
use crate::names;
use crate::severity::Temporality;
use crate::signals::{FIRST, Gauge, Histogram, Signal, Sum};
use crate::sink::Sink;
use crate::value::Value;
use metrics::{CounterFn, GaugeFn, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use perfring_producer::RecordType;
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Constant, Field, Shape};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Writes each measurement of the `metrics` crate as a record.
///
/// | | |
/// |---|---|
/// | counter | a cumulative, monotonic sum: each sample has the whole sum, so an overwrite ring loses only resolution. Samples of two threads may be in either order: the greatest counts |
/// | gauge | its value |
/// | histogram | each measurement; the reader sorts them into buckets |
///
/// Each instrument (a name and labels) has its own record type with name, unit, description and labels
/// in the ring's type table, from its first use. If the table is full by then, they are in each record
/// instead. Each combination of label values takes an entry in a table that never shrinks: keep user
/// names, addresses and the like out of labels. The first use may wait for the table's lock: see
/// [`Sink`]. Describe an instrument before its first use. A `counter!` elsewhere with the same name and
/// labels continues the same sum.
///
/// A child of `fork(2)` continues its parent's sums under its own `process.pid`: a reader that adds up the
/// sums of several processes counts twice what was before the fork. (Detecting the fork would cost a
/// system call for each increment.) Use counters on one side of a fork only, or take differences. The
/// child deadlocks at its first look-up of an instrument if another thread of the parent was in a look-up
/// during the fork; instruments that it already holds are safe.
///
/// ```
/// use perfring_telemetry::{Resource, Sink, metrics::RingRecorder, options};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// let sink = Sink::create(&path, &options(), Resource::here())?;
/// metrics::with_local_recorder(&RingRecorder::new(sink), || {
///     metrics::describe_counter!("requests", metrics::Unit::Count, "requests answered");
///     metrics::counter!("requests", "method" => "GET").increment(1);
///     metrics::gauge!("queue.depth").set(17.0);
///     metrics::histogram!("latency").record(0.25);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RingRecorder {
    sink: Sink,
    known: Known<Arc<Instrument>>,
}

impl RingRecorder {
    /// Creates a recorder that writes to this sink. Install it by `metrics::set_global_recorder`.
    #[must_use]
    pub fn new(sink: Sink) -> Self {
        RingRecorder { sink, known: Known::new() }
    }

    fn instrument(&self, class: Class, key: &Key) -> Arc<Instrument> {
        self.known.instrument(class, key, |unit, description| {
            Arc::new(Instrument::new(self.sink.clone(), class, key.clone(), unit, description))
        })
    }
}

impl metrics::Recorder for RingRecorder {
    describe!();

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.instrument(Class::Sum, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.instrument(Class::Gauge, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::from_arc(self.instrument(Class::Histogram, key))
    }
}

/// Samples between two attempts to declare an instrument: an attempt may take 0.1 s.
const PATIENCE: u32 = 1024;

/// One instrument.
#[derive(Debug)]
struct Instrument {
    sink: Sink,
    class: Class,
    key: Key,
    unit: &'static str,
    description: String,
    /// Its type; `None` if the ring's table is full, which is final. Unset as long as another process
    /// holds the table's lock.
    kind: OnceLock<Option<RecordType>>,
    /// Samples until the next attempt to set it.
    patience: AtomicU32,
    /// A counter's sum, or the bits of a gauge's value.
    state: AtomicU64,
}

impl Instrument {
    fn new(sink: Sink, class: Class, key: Key, unit: &'static str, description: String) -> Self {
        let (kind, patience, state) = (OnceLock::new(), AtomicU32::new(0), AtomicU64::new(0));
        let this = Instrument { sink, class, key, unit, description, kind, patience, state };
        this.declare();
        this
    }

    #[cold]
    fn declare(&self) -> Option<RecordType> {
        let patience = self.patience.load(Ordering::Relaxed);
        if patience > 0 {
            // Two threads may count as one.
            self.patience.store(patience - 1, Ordering::Relaxed);
            return None;
        }
        let (class, key, unit) = (self.class, &self.key, self.unit);
        let labels: Vec<_> = key
            .labels()
            .map(|label| (names::AttributeName::new(class, label.key()), label.value()))
            .collect();
        let value = Field { unit, ..Field::new(names::VALUE, 0, Shape::ANY) };
        let mut fields = vec![value, Field::constant(names::NAME, Constant::Str(key.name()))];
        let texts = [(names::UNIT, unit), (names::DESCRIPTION, self.description.as_str())];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            fields.push(Field::constant(name, Constant::Str(text)));
        }
        if class == Class::Sum {
            let temporality = Temporality::Cumulative.number();
            fields.push(Field::constant(names::IS_MONOTONIC, Constant::Bool(true)));
            fields.push(Field::constant(names::TEMPORALITY, Constant::U64(temporality)));
        }
        for (name, value) in &labels {
            fields.push(Field::constant(name.as_str(), Constant::Str(value)));
        }
        let declared = self.sink.declare(class, key.name(), &self.description, &fields);
        if declared.as_ref().is_err_and(Sink::may_declare_later) {
            self.patience.store(PATIENCE, Ordering::Relaxed);
        } else {
            let _ = self.kind.set(declared.as_ref().ok().copied());
        }
        declared.ok()
    }

    /// Publishes a sample. The ring counts what it refuses.
    fn sample(&self, value: Value<'_>) {
        let own = self.kind.get().copied().unwrap_or_else(|| self.declare());
        let kind = own.unwrap_or(match self.class {
            Class::Sum => Sum::SCHEMA.id,
            Class::Gauge => Gauge::SCHEMA.id,
            _ => Histogram::SCHEMA.id,
        });
        let _ = self.sink.write(kind, |writer| {
            if own.is_some() {
                value.write(FIRST, writer);
            } else {
                self.in_full(value, writer);
            }
        });
    }

    #[cold]
    fn in_full(&self, value: Value<'_>, writer: &mut TaggedWriter<'_>) {
        writer.text(names::NAME, self.key.name());
        let texts = [(names::UNIT, self.unit), (names::DESCRIPTION, &self.description)];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            writer.text(name, text);
        }
        value.write(names::VALUE, writer);
        if self.class == Class::Sum {
            writer.bool(names::IS_MONOTONIC, true);
            writer.u64(names::TEMPORALITY, Temporality::Cumulative.number());
        }
        for label in self.key.labels() {
            let name = names::AttributeName::new(self.class, label.key());
            writer.text(name.as_str(), label.value());
        }
    }

    fn adjust(&self, to: impl Fn(f64) -> f64) {
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed); // a number that guards nothing
        let adjusted = |bits| Some(to(f64::from_bits(bits)).to_bits());
        let before = self.state.fetch_update(set, get, adjusted).unwrap_or_default();
        self.sample(Value::F64(to(f64::from_bits(before))));
    }
}

impl CounterFn for Instrument {
    fn increment(&self, value: u64) {
        let before = self.state.fetch_add(value, Ordering::Relaxed);
        self.sample(Value::U64(before.wrapping_add(value)));
    }

    fn absolute(&self, value: u64) {
        let before = self.state.fetch_max(value, Ordering::Relaxed);
        self.sample(Value::U64(before.max(value)));
    }
}

impl GaugeFn for Instrument {
    fn increment(&self, value: f64) {
        self.adjust(|before| before + value);
    }

    fn decrement(&self, value: f64) {
        self.adjust(|before| before - value);
    }

    fn set(&self, value: f64) {
        self.state.store(value.to_bits(), Ordering::Relaxed);
        self.sample(Value::F64(value));
    }
}

impl HistogramFn for Instrument {
    fn record(&self, value: f64) {
        self.sample(Value::F64(value));
    }
}
