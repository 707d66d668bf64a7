//! What signals there are.

use super::measure::{Buckets, Instrument, Number, Temporality};
use perfring_types::read::Value;

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
    pub truncated: u64,
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
