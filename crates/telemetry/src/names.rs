//! The names of fields, and which of them are reserved in which class.

use perfring_producer::types::Class;
use perfring_producer::types::tagged::CUT;

/// The time in ns since 1970, in rings without timestamps.
pub const TIME: &str = "time_unix_nano";
/// The process that wrote the record. It joins records to their [`Resource`](crate::Resource).
pub const PID: &str = "process.pid";
/// The pid namespace of [`PID`], in a resource: the inode of `/proc/self/ns/pid`, in decimal. An
/// attribute whose name is perfring's own.
pub const PID_NAMESPACE: &str = "process.pid.namespace";
/// A log record's severity, 1 to 24.
pub const SEVERITY_NUMBER: &str = "severity_number";
/// The severity's name.
pub const SEVERITY_TEXT: &str = "severity_text";
/// The text of a log record.
pub const BODY: &str = "body";
/// A trace id, 16 bytes.
pub const TRACE_ID: &str = "trace_id";
/// A span id, 8 bytes.
pub const SPAN_ID: &str = "span_id";
/// The id of the parent span, 8 bytes.
pub const PARENT_SPAN_ID: &str = "parent_span_id";
/// The name of a kind of event.
pub const EVENT_NAME: &str = "event_name";
/// When the event was observed, if that differs from when it happened.
pub const OBSERVED_TIME: &str = "observed_time_unix_nano";
/// The part of the program: the instrumentation scope.
pub const SCOPE: &str = "otel.scope.name";
/// The source file.
pub const FILE: &str = "code.file.path";
/// The line in the source file.
pub const LINE: &str = "code.line.number";
/// The module, if it is not the scope.
pub const MODULE: &str = "code.module.name";
/// The name of a span or an instrument.
pub const NAME: &str = "name";
/// A span's kind, 1 to 5.
pub const KIND: &str = "kind";
/// The trace id of a span that this one follows from.
pub const LINK_TRACE_ID: &str = "link.trace_id";
/// The span id of a span that this one follows from.
pub const LINK_SPAN_ID: &str = "link.span_id";
/// A span's duration in ns: it began that long before the record of its end.
pub const DURATION: &str = "duration_nano";
/// A span's status, 0 to 2.
pub const STATUS_CODE: &str = "status.code";
/// The text of a span's status.
pub const STATUS_MESSAGE: &str = "status.message";
/// An instrument's unit.
pub const UNIT: &str = "unit";
/// What an instrument measures.
pub const DESCRIPTION: &str = "description";
/// A measured number.
pub const VALUE: &str = "value";
/// Whether a sum never decreases.
pub const IS_MONOTONIC: &str = "is_monotonic";
/// The temporality: 1 delta, 2 cumulative.
pub const TEMPORALITY: &str = "aggregation_temporality";
/// The time that a sum or a histogram counts from. In a resource: the default for the process's sums and
/// histograms.
pub const START_TIME: &str = "start_time_unix_nano";
/// A histogram's number of measurements.
pub const COUNT: &str = "count";
/// The sum of the measurements.
pub const SUM: &str = "sum";
/// The least measurement.
pub const MIN: &str = "min";
/// The greatest measurement.
pub const MAX: &str = "max";
/// The bounds between buckets, ascending.
pub const EXPLICIT_BOUNDS: &str = "explicit_bounds";
/// Measurements in each bucket: one bucket more than bounds.
pub const BUCKET_COUNTS: &str = "bucket_counts";
/// An exponential histogram's scale: the base of its buckets' bounds is `2^(2^-scale)`.
pub const SCALE: &str = "scale";
/// How many measurements of an exponential histogram are zero, or too small for a bucket.
pub const ZERO_COUNT: &str = "zero_count";
/// The greatest measurement that counts as zero.
pub const ZERO_THRESHOLD: &str = "zero_threshold";
/// The index of the first bucket of positive measurements.
pub const POSITIVE_OFFSET: &str = "positive.offset";
/// Positive measurements in each bucket.
pub const POSITIVE_COUNTS: &str = "positive.bucket_counts";
/// The index of the first bucket of negative measurements, by their absolute values.
pub const NEGATIVE_OFFSET: &str = "negative.offset";
/// Negative measurements in each bucket.
pub const NEGATIVE_COUNTS: &str = "negative.bucket_counts";

/// The prefix of an attribute whose own name is reserved.
pub const ATTRIBUTES: &str = "attributes.";

macro_rules! all {
    ($($name:ident)*) => { &[$($name),*] };
}

/// Returns the names that are reserved in records of this class; all others are attributes.
#[must_use]
pub const fn reserved(class: Class) -> &'static [&'static str] {
    match class {
        Class::Log => all![
            TIME PID SEVERITY_NUMBER SEVERITY_TEXT BODY TRACE_ID SPAN_ID EVENT_NAME OBSERVED_TIME
            SCOPE CUT
        ],
        Class::SpanStart => all![
            TIME PID TRACE_ID SPAN_ID PARENT_SPAN_ID NAME KIND LINK_TRACE_ID LINK_SPAN_ID SCOPE CUT
        ],
        Class::SpanEnd => all![
            TIME PID TRACE_ID SPAN_ID PARENT_SPAN_ID NAME DURATION STATUS_CODE STATUS_MESSAGE CUT
        ],
        Class::Gauge => all![TIME PID NAME UNIT DESCRIPTION VALUE SCOPE CUT],
        Class::Sum => all![
            TIME PID NAME UNIT DESCRIPTION VALUE IS_MONOTONIC TEMPORALITY START_TIME SCOPE CUT
        ],
        Class::Histogram => all![
            TIME PID NAME UNIT DESCRIPTION VALUE TEMPORALITY START_TIME COUNT SUM MIN MAX
            EXPLICIT_BOUNDS BUCKET_COUNTS SCALE ZERO_COUNT ZERO_THRESHOLD POSITIVE_OFFSET
            POSITIVE_COUNTS NEGATIVE_OFFSET NEGATIVE_COUNTS SCOPE CUT
        ],
        Class::Resource => all![TIME START_TIME CUT],
        _ => &[],
    }
}

/// The longest name in a record, in bytes.
const LONGEST: usize = 255;

/// An attribute's field name in records of a class: its own, with the prefix [`ATTRIBUTES`] if that is
/// reserved.
///
/// ```
/// use perfring_telemetry::names::{AttributeName, attribute};
/// use perfring_telemetry::types::Class;
/// assert_eq!(AttributeName::new(Class::Log, "peer").as_str(), "peer");
/// assert_eq!(AttributeName::new(Class::Log, "body").as_str(), "attributes.body");
/// assert_eq!(attribute(Class::Log, "attributes.body"), Some("body")); // and back
/// assert_eq!(attribute(Class::Log, "body"), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AttributeName<'a> {
    name: &'a str,
    /// The name with its prefix, and its length; 0 without a prefix.
    long: [u8; LONGEST],
    len: usize,
}

impl<'a> AttributeName<'a> {
    /// Returns the field name for an attribute of this name.
    #[must_use]
    pub fn new(class: Class, name: &'a str) -> Self {
        let mut this = AttributeName { name, long: [0; LONGEST], len: 0 };
        if name.starts_with(ATTRIBUTES) || reserved(class).contains(&name) {
            let mut end = name.len().min(LONGEST - ATTRIBUTES.len());
            while !name.is_char_boundary(end) {
                end -= 1; // 0 is a boundary
            }
            this.len = ATTRIBUTES.len() + end;
            this.long[..ATTRIBUTES.len()].copy_from_slice(ATTRIBUTES.as_bytes());
            this.long[ATTRIBUTES.len()..this.len].copy_from_slice(&name.as_bytes()[..end]);
        }
        this
    }

    /// Returns the field name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        if self.len == 0 {
            return self.name;
        }
        str::from_utf8(&self.long[..self.len]).unwrap_or(self.name) // whole characters
    }
}

/// Returns the name of the attribute in a field of this name; `None` if the field is reserved.
#[must_use]
pub fn attribute(class: Class, field: &str) -> Option<&str> {
    match field.strip_prefix(ATTRIBUTES) {
        Some(name) => Some(name),
        None if reserved(class).contains(&field) => None,
        None => Some(field),
    }
}
