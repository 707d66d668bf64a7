//! The kinds of signals.

use super::exponential::Exponential;
use super::fault::Fault;
use super::measure::{Buckets, Instrument, Number, Temporality};
use perfring_types::read::Value;

/// A record as a signal, which borrows from the record.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal<'a> {
    /// A log record.
    Log(Log<'a>),
    /// The start of a span, or an extension of a started one.
    SpanStart(SpanStart<'a>),
    /// The end of a span.
    SpanEnd(SpanEnd<'a>),
    /// A sample of a gauge.
    Gauge(Gauge<'a>),
    /// A sample of a sum.
    Sum(Sum<'a>),
    /// A histogram's state, or one measurement.
    Histogram(Histogram<'a>),
    /// The attributes of a process.
    Resource(Resource<'a>),
    /// A record without a class, or one that does not match its class.
    Plain(Plain<'a>),
}

/// Names and values.
pub type Attributes<'a> = Vec<(&'a str, &'a Value)>;

/// The fields that signals of all classes have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Common<'a> {
    /// The time, ns since 1970, if known.
    pub time: Option<u64>,
    /// The process id, which joins the record to its resource.
    pub pid: Option<u64>,
    /// The instrumentation scope; empty if unknown.
    pub scope: &'a str,
    /// The number of values that were truncated because the record had no room.
    pub truncated: u64,
    /// All fields without a meaning of their own.
    pub attributes: Attributes<'a>,
}

/// A log record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// The severity number, 1 to 24, if known.
    pub severity_number: Option<u8>,
    /// The severity as the program writes it; empty if unknown.
    pub severity_text: &'a str,
    /// The message.
    pub body: Option<&'a Value>,
    /// The trace that it belongs to.
    pub trace_id: Option<[u8; 16]>,
    /// The span that it belongs to.
    pub span_id: Option<[u8; 8]>,
    /// The name of an event kind; empty if none.
    pub event_name: &'a str,
    /// When it was observed, ns since 1970.
    pub observed: Option<u64>,
}

/// The start of a span; without a name, an extension of a started one.
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
    /// Its name.
    pub name: Option<&'a str>,
    /// The kind of span, 1 to 5.
    pub kind: Option<u8>,
    /// A span that it is linked to.
    pub link: Option<([u8; 16], [u8; 8])>,
}

/// The end of a span.
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
    /// Its name; empty if unknown.
    pub name: &'a str,
    /// Its duration in ns.
    pub duration: Option<u64>,
    /// The status: 0 unset, 1 ok, 2 error.
    pub status_code: Option<u8>,
    /// The status message; empty if none.
    pub status_message: &'a str,
}

/// A sample of a gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// The instrument.
    pub what: Instrument<'a>,
    /// The number.
    pub value: Number,
}

/// A sample of a sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// The instrument.
    pub what: Instrument<'a>,
    /// The value: finite, and not negative in a monotonic delta.
    pub value: Number,
    /// Whether it only grows.
    pub monotonic: bool,
    /// What it counts from.
    pub temporality: Temporality,
    /// The start time, ns since 1970.
    pub start: Option<u64>,
}

/// A histogram's state, or one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<'a> {
    /// Time, attributes and so on.
    pub common: Common<'a>,
    /// The instrument.
    pub what: Instrument<'a>,
    /// What it counts from. A measurement is a delta.
    pub temporality: Temporality,
    /// The start time, ns since 1970.
    pub start: Option<u64>,
    /// The counts or the measurement.
    pub data: HistogramData,
}

/// The counts of a histogram, or one measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum HistogramData {
    /// One measurement: a finite number.
    One(f64),
    /// Counts.
    State(Buckets),
    /// Counts in exponential buckets.
    Exponential(Box<Exponential>),
}

/// The attributes of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource<'a> {
    /// All attributes except those below.
    pub common: Common<'a>,
    /// When the process began to count, ns since 1970.
    pub start: Option<u64>,
}

/// A record without a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain<'a> {
    /// Time, and fields as attributes.
    pub common: Common<'a>,
    /// Its type's name; empty if the ring does not have it.
    pub name: &'a str,
    /// Its type's number.
    pub kind: u32,
    /// Its content, if it has no fields.
    pub body: PlainBody<'a>,
    /// The trace that it belongs to, if a field says so.
    pub trace_id: Option<[u8; 16]>,
    /// The span that it belongs to, likewise.
    pub span_id: Option<[u8; 8]>,
    /// Why it does not match its class, or cannot be decoded.
    pub fault: Option<Fault>,
}

/// The content of a record without fields.
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
