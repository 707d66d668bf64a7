//! The names of fields, and which of them mean something in which class.

use perfring_producer::types::Class;
use perfring_producer::types::tagged::CUT;

/// When, in ns since 1970, where the ring itself does not stamp records.
pub const TIME: &str = "time_unix_nano";
/// Who wrote the record: it joins records to their [`Resource`](crate::Resource).
pub const PID: &str = "process.pid";
/// Of which pid namespace [`PID`] is, in a resource: the inode of `/proc/self/ns/pid`, in decimal.
/// An attribute, as all others; the name is perfring's own.
pub const PID_NAMESPACE: &str = "process.pid.namespace";
/// A log record's severity, 1 to 24.
pub const SEVERITY_NUMBER: &str = "severity_number";
/// Its name as the program has it.
pub const SEVERITY_TEXT: &str = "severity_text";
/// What a log record says.
pub const BODY: &str = "body";
/// 16 bytes.
pub const TRACE_ID: &str = "trace_id";
/// 8 bytes.
pub const SPAN_ID: &str = "span_id";
/// 8 bytes.
pub const PARENT_SPAN_ID: &str = "parent_span_id";
/// Names a kind of event.
pub const EVENT_NAME: &str = "event_name";
/// When it was noticed, if that is another time.
pub const OBSERVED_TIME: &str = "observed_time_unix_nano";
/// What part of the program: the instrumentation scope.
pub const SCOPE: &str = "otel.scope.name";
/// The source file.
pub const FILE: &str = "code.file.path";
/// The line in it.
pub const LINE: &str = "code.line.number";
/// The module, where it is not the scope.
pub const MODULE: &str = "code.module.name";
/// A span's or an instrument's name.
pub const NAME: &str = "name";
/// A span's kind, 1 to 5.
pub const KIND: &str = "kind";
/// Of a span that this one follows from.
pub const LINK_TRACE_ID: &str = "link.trace_id";
/// Of a span that this one follows from.
pub const LINK_SPAN_ID: &str = "link.span_id";
/// How long a span took, in ns: it began so much before the record of its end.
pub const DURATION: &str = "duration_nano";
/// How a span ended, 0 to 2.
pub const STATUS_CODE: &str = "status.code";
/// Why.
pub const STATUS_MESSAGE: &str = "status.message";
/// An instrument's unit.
pub const UNIT: &str = "unit";
/// What an instrument measures.
pub const DESCRIPTION: &str = "description";
/// A measured number.
pub const VALUE: &str = "value";
/// Whether a sum only grows.
pub const IS_MONOTONIC: &str = "is_monotonic";
/// 1 delta, 2 cumulative.
pub const TEMPORALITY: &str = "aggregation_temporality";
/// What a sum or a histogram counts from; of a resource, what those count from that do not say so.
pub const START_TIME: &str = "start_time_unix_nano";
/// A histogram's number of measurements.
pub const COUNT: &str = "count";
/// Their sum.
pub const SUM: &str = "sum";
/// The least of them.
pub const MIN: &str = "min";
/// The greatest of them.
pub const MAX: &str = "max";
/// Between buckets, rising.
pub const EXPLICIT_BOUNDS: &str = "explicit_bounds";
/// Measurements in each bucket: one more than bounds.
pub const BUCKET_COUNTS: &str = "bucket_counts";

/// Goes before the name of an attribute that would mean something else without it.
pub const ATTRIBUTES: &str = "attributes.";

macro_rules! all {
    ($($name:ident)*) => { &[$($name),*] };
}

/// The names that mean something in records of this class; all others are attributes.
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
            EXPLICIT_BOUNDS BUCKET_COUNTS SCOPE CUT
        ],
        Class::Resource => all![TIME START_TIME CUT],
        _ => &[],
    }
}

/// Bytes of the longest name in a record.
const LONGEST: usize = 255;

/// The name under which an attribute stands in a record of this class: its own, or after
/// [`ATTRIBUTES`] if that means something else.
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
    /// With what goes before it, and how long that is; 0 if nothing does.
    long: [u8; LONGEST],
    len: usize,
}

impl<'a> AttributeName<'a> {
    /// For an attribute of this name.
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

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        if self.len == 0 {
            return self.name;
        }
        str::from_utf8(&self.long[..self.len]).unwrap_or(self.name) // whole characters
    }
}

/// The attribute that a field of this name is in a record of this class; `None` if it is none.
#[must_use]
pub fn attribute(class: Class, field: &str) -> Option<&str> {
    match field.strip_prefix(ATTRIBUTES) {
        Some(name) => Some(name),
        None if reserved(class).contains(&field) => None,
        None => Some(field),
    }
}
