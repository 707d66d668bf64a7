//! Records as OpenTelemetry's signals: log records, spans, samples of metrics, resources.
//!
//! A record whose type has a class is read by the reserved names of
//! [`perfring_telemetry::names`]; all other records are [`Plain`]. Nothing of a record is left out:
//! a reserved name with a value that cannot be meant stays as an attribute, and a record that is no
//! signal of its class at all becomes a plain one that says why.
//!
//! ```
//! use perfring_export::signal::Signal;
//! use perfring_export::{Origin, Rec};
//! # use perfring_consumer::{Item, Snapshot};
//! # use perfring_telemetry::{Gauge, Resource, Sink, options};
//! # use perfring_types::read::TypeTable;
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! # let sink = Sink::create(&path, &options(), Resource::default())?;
//! # sink.emit(&Gauge { unit: "{job}", ..Gauge::new("queue.depth", 17u64) })?;
//! # let snapshot = Snapshot::take(&path)?;
//! # let origin = Origin {
//! #     id: 0, name: "ring".into(), home: String::new(), uuid: [0; 16], epoch: 1, policy: None,
//! #     timed: true, data_size: 65536, producer: Default::default(),
//! #     types: TypeTable::from_entries(snapshot.types().entries()),
//! #     anchors: snapshot.anchors().clone(),
//! # };
//! # let mut seen = Vec::new();
//! # for item in &snapshot {
//! #     let Item::Record(record) = item? else { continue };
//! let record = Rec::new(record, &origin);
//! match Signal::of(&record) {
//!     Signal::Gauge(gauge) => println!("{} is {:?} {}", gauge.what.name, gauge.value, gauge.what.unit),
//!     other => println!("{other:?}"),
//! }
//! #     seen.push(format!("{:?}", Signal::of(&record)));
//! # }
//! # assert!(seen[0].starts_with("Resource") && seen[1].starts_with("Gauge"), "{seen:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod read;
mod resources;

use crate::event::Rec;
use perfring_types::read::Value;
pub use resources::{Resources, Told};

/// A record as a signal. What it has of the record is borrowed.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal<'a> {
    /// A log record.
    Log(Log<'a>),
    /// A span begins, or more is said of one that has begun.
    SpanStart(SpanStart<'a>),
    /// A span ends.
    SpanEnd(SpanEnd<'a>),
    /// A sample of a gauge.
    Gauge(Gauge<'a>),
    /// A sample of a sum.
    Sum(Sum<'a>),
    /// A histogram's state, or one measurement.
    Histogram(Histogram<'a>),
    /// What a process is.
    Resource(Resource<'a>),
    /// A record without a class, or none that its class knows.
    Plain(Plain<'a>),
}

/// Names and values.
pub type Attributes<'a> = Vec<(&'a str, &'a Value)>;

/// What signals of all classes have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Common<'a> {
    /// When, ns since 1970, if it can be told.
    pub time: Option<u64>,
    /// Who: it joins the record to its resource.
    pub pid: Option<u64>,
    /// The instrumentation scope, or nothing.
    pub scope: &'a str,
    /// Values that were cut as the record had no room for more.
    pub cut: u64,
    /// All fields that have no meaning of their own.
    pub attributes: Attributes<'a>,
}

/// A log record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// 1 to 24, if it is known.
    pub severity_number: Option<u8>,
    /// As the program has it, or nothing.
    pub severity_text: &'a str,
    /// What it says.
    pub body: Option<&'a Value>,
    /// The trace that it happened in.
    pub trace_id: Option<[u8; 16]>,
    /// The span that it happened in.
    pub span_id: Option<[u8; 8]>,
    /// Names a kind of event, or nothing.
    pub event_name: &'a str,
    /// When it was noticed, ns since 1970.
    pub observed: Option<u64>,
}

/// A span begins; without a name, more is said of one that has begun.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanStart<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// Its trace.
    pub trace_id: [u8; 16],
    /// Its id.
    pub span_id: [u8; 8],
    /// The span that it is part of.
    pub parent_span_id: Option<[u8; 8]>,
    /// What it is called.
    pub name: Option<&'a str>,
    /// 1 to 5.
    pub kind: Option<u8>,
    /// A span that it follows from.
    pub link: Option<([u8; 16], [u8; 8])>,
}

/// A span ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanEnd<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// Its trace.
    pub trace_id: [u8; 16],
    /// Its id.
    pub span_id: [u8; 8],
    /// The span that it is part of.
    pub parent_span_id: Option<[u8; 8]>,
    /// What it is called, or nothing.
    pub name: &'a str,
    /// How long it took, in ns.
    pub duration: Option<u64>,
    /// 0 unset, 1 ok, 2 error.
    pub status_code: Option<u8>,
    /// Why, or nothing.
    pub status_message: &'a str,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instrument<'a> {
    /// Its name: never empty.
    pub name: &'a str,
    /// Its unit as UCUM has it, or nothing.
    pub unit: &'a str,
    /// What it measures, or nothing.
    pub description: &'a str,
}

/// A number that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole one.
    Int(i64),
    /// Any other, or one beyond `i64`.
    Double(f64),
}

impl Number {
    /// The nearest `f64`.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Double(value) => value,
        }
    }

    /// The sum: whole as long as `i64` can hold it.
    ///
    /// ```
    /// use perfring_export::signal::Number;
    /// assert_eq!(Number::Int(2).plus(Number::Int(3)), Number::Int(5));
    /// assert_eq!(Number::Int(2).plus(Number::Double(0.5)), Number::Double(2.5));
    /// ```
    #[must_use]
    pub fn plus(self, other: Number) -> Number {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => match a.checked_add(b) {
                Some(sum) => Number::Int(sum),
                None => Number::Double(a as f64 + b as f64),
            },
            _ => Number::Double(self.as_f64() + other.as_f64()),
        }
    }
}

/// A sample of a gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// What is measured.
    pub what: Instrument<'a>,
    /// The number.
    pub value: Number,
}

/// What a sum or a histogram counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Temporality {
    /// From the sample before it.
    Delta,
    /// From the start.
    Cumulative,
}

/// A sample of a sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// What is counted.
    pub what: Instrument<'a>,
    /// The number: finite, and not negative in a monotonic delta.
    pub value: Number,
    /// Whether it only grows.
    pub monotonic: bool,
    /// What it counts from.
    pub temporality: Temporality,
    /// When that was, ns since 1970.
    pub start: Option<u64>,
}

/// A histogram's state, or one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// What is measured.
    pub what: Instrument<'a>,
    /// What it counts from. A measurement is a delta.
    pub temporality: Temporality,
    /// When that was, ns since 1970.
    pub start: Option<u64>,
    /// What was measured.
    pub data: HistogramData,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub enum HistogramData {
    /// One measurement: a finite number.
    One(f64),
    /// Counts.
    State(Buckets),
}

/// A histogram's counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// How many measurements: the sum of the buckets, if there are any.
    pub count: u64,
    /// Their sum.
    pub sum: Option<f64>,
    /// The least of them.
    pub min: Option<f64>,
    /// The greatest of them.
    pub max: Option<f64>,
    /// Between buckets, rising; a bucket ends with its bound. Neither NaN nor infinite.
    pub bounds: Vec<f64>,
    /// Measurements in each bucket: one more than bounds, or nothing at all.
    pub buckets: Vec<u64>,
}

/// The bounds into which measurements are sorted that have none: those of OpenTelemetry's SDKs.
pub const DEFAULT_BOUNDS: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10000.0,
];

impl Buckets {
    /// One measurement, sorted in.
    ///
    /// ```
    /// use perfring_export::signal::Buckets;
    /// let one = Buckets::one(5.0, &[0.0, 5.0, 10.0]);
    /// assert_eq!((one.count, one.buckets), (1, vec![0, 1, 0, 0])); // a bucket ends with its bound
    /// ```
    #[must_use]
    pub fn one(value: f64, bounds: &[f64]) -> Self {
        let mut buckets = vec![0; bounds.len() + 1];
        if let Some(bucket) = buckets.get_mut(bounds.partition_point(|bound| *bound < value)) {
            *bucket = 1;
        }
        let (sum, min, max) = (Some(value), Some(value), Some(value));
        Buckets { count: 1, sum, min, max, bounds: bounds.to_vec(), buckets }
    }

    /// Adds another's counts; `false`, and nothing done, if its bounds are others.
    pub fn add(&mut self, other: &Buckets) -> bool {
        if self.bounds != other.bounds || self.buckets.len() != other.buckets.len() {
            return false;
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.zip(other.sum).map(|(a, b)| a + b);
        self.min = self.min.zip(other.min).map(|(a, b)| a.min(b));
        self.max = self.max.zip(other.max).map(|(a, b)| a.max(b));
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to = to.saturating_add(*from);
        }
        true
    }
}

/// What a process is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource<'a> {
    /// Attributes: all but what is below.
    pub common: Common<'a>,
    /// When the process began to count, ns since 1970.
    pub start: Option<u64>,
}

/// A record without a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain<'a> {
    /// Time, and fields as attributes.
    pub common: Common<'a>,
    /// Its type's name; nothing if the ring does not say.
    pub name: &'a str,
    /// Its type's number.
    pub kind: u32,
    /// What it holds, if it has no fields.
    pub body: PlainBody<'a>,
    /// Why it is no signal of its class, or cannot be read.
    pub fault: Option<String>,
}

/// What a record without fields holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlainBody<'a> {
    /// It has fields: they are attributes.
    None,
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Anything else, by its type.
    Value(&'a Value),
}

impl<'a> Signal<'a> {
    /// What this record is.
    #[must_use]
    pub fn of(record: &'a Rec<'_>) -> Self {
        read::signal(record)
    }
}
