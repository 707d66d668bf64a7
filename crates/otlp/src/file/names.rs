//! The messages of OTLP, as far as perfring writes them: the names and the forms that their fields have in JSON.
//!
//! From `opentelemetry-proto` 1.9 and its specification's section on JSON: names in camel case, integers of 64 bits as text,
//! enumerations as numbers, the ids of traces and spans in hexadecimal digits. A test compares all of it with what the crate
//! `opentelemetry-proto` reads.

/// A message: its fields.
#[derive(Debug)]
pub(super) struct Message(pub(super) &'static [Field]);

/// A field: its number, its name, its form, and whether there may be several.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) repeated: bool,
}

/// The form of a value.
#[derive(Debug)]
pub(super) enum Form {
    /// An enumeration: an integer of 32 bits.
    Int,
    /// An integer of 32 bits without a sign.
    UInt,
    /// An integer of 32 bits, where negative ones are short.
    Zigzag,
    /// 32 bits.
    Fixed32,
    /// An integer of 64 bits.
    Long,
    /// The same without a sign.
    ULong,
    /// 64 bits, an integer without a sign.
    Fixed64,
    /// 64 bits, an integer with one.
    SFixed64,
    Double,
    Bool,
    Text,
    Base64,
    Hex,
    Of(&'static Message),
}

impl Form {
    /// Returns whether values of a repeated field are packed.
    pub(super) fn is_scalar(&self) -> bool {
        !matches!(self, Form::Text | Form::Base64 | Form::Hex | Form::Of(_))
    }
}

use Form::{
    Base64, Bool, Double, Fixed32, Fixed64, Hex, Int, Long, Of, SFixed64, Text, UInt, ULong, Zigzag,
};

const fn one(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, form, repeated: false }
}

const fn all(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, form, repeated: true }
}

pub(super) static LOGS: Message = Message(&[all(1, "resourceLogs", Of(&RESOURCE_LOGS))]);
pub(super) static METRICS: Message = Message(&[all(1, "resourceMetrics", Of(&RESOURCE_METRICS))]);
pub(super) static TRACES: Message = Message(&[all(1, "resourceSpans", Of(&RESOURCE_SPANS))]);

static RESOURCE_LOGS: Message = Message(&[
    one(1, "resource", Of(&RESOURCE)),
    all(2, "scopeLogs", Of(&SCOPE_LOGS)),
    one(3, "schemaUrl", Text),
]);
static RESOURCE_METRICS: Message = Message(&[
    one(1, "resource", Of(&RESOURCE)),
    all(2, "scopeMetrics", Of(&SCOPE_METRICS)),
    one(3, "schemaUrl", Text),
]);
static RESOURCE_SPANS: Message = Message(&[
    one(1, "resource", Of(&RESOURCE)),
    all(2, "scopeSpans", Of(&SCOPE_SPANS)),
    one(3, "schemaUrl", Text),
]);
static RESOURCE: Message =
    Message(&[all(1, "attributes", Of(&KEY_VALUE)), one(2, "droppedAttributesCount", UInt)]);
static SCOPE_LOGS: Message = Message(&[
    one(1, "scope", Of(&SCOPE)),
    all(2, "logRecords", Of(&LOG_RECORD)),
    one(3, "schemaUrl", Text),
]);
static SCOPE_METRICS: Message = Message(&[
    one(1, "scope", Of(&SCOPE)),
    all(2, "metrics", Of(&METRIC)),
    one(3, "schemaUrl", Text),
]);
static SCOPE_SPANS: Message =
    Message(&[one(1, "scope", Of(&SCOPE)), all(2, "spans", Of(&SPAN)), one(3, "schemaUrl", Text)]);
static SCOPE: Message = Message(&[
    one(1, "name", Text),
    one(2, "version", Text),
    all(3, "attributes", Of(&KEY_VALUE)),
    one(4, "droppedAttributesCount", UInt),
]);
static KEY_VALUE: Message = Message(&[one(1, "key", Text), one(2, "value", Of(&ANY_VALUE))]);
static ANY_VALUE: Message = Message(&[
    one(1, "stringValue", Text),
    one(2, "boolValue", Bool),
    one(3, "intValue", Long),
    one(4, "doubleValue", Double),
    one(5, "arrayValue", Of(&ARRAY_VALUE)),
    one(6, "kvlistValue", Of(&KEY_VALUE_LIST)),
    one(7, "bytesValue", Base64),
]);
static ARRAY_VALUE: Message = Message(&[all(1, "values", Of(&ANY_VALUE))]);
static KEY_VALUE_LIST: Message = Message(&[all(1, "values", Of(&KEY_VALUE))]);
static LOG_RECORD: Message = Message(&[
    one(1, "timeUnixNano", Fixed64),
    one(11, "observedTimeUnixNano", Fixed64),
    one(2, "severityNumber", Int),
    one(3, "severityText", Text),
    one(5, "body", Of(&ANY_VALUE)),
    all(6, "attributes", Of(&KEY_VALUE)),
    one(7, "droppedAttributesCount", UInt),
    one(8, "flags", Fixed32),
    one(9, "traceId", Hex),
    one(10, "spanId", Hex),
    one(12, "eventName", Text),
]);
static METRIC: Message = Message(&[
    one(1, "name", Text),
    one(2, "description", Text),
    one(3, "unit", Text),
    one(5, "gauge", Of(&GAUGE)),
    one(7, "sum", Of(&SUM)),
    one(9, "histogram", Of(&HISTOGRAM)),
    one(10, "exponentialHistogram", Of(&EXPONENTIAL)),
    all(12, "metadata", Of(&KEY_VALUE)),
]);
static GAUGE: Message = Message(&[all(1, "dataPoints", Of(&NUMBER_POINT))]);
static SUM: Message = Message(&[
    all(1, "dataPoints", Of(&NUMBER_POINT)),
    one(2, "aggregationTemporality", Int),
    one(3, "isMonotonic", Bool),
]);
static HISTOGRAM: Message =
    Message(&[all(1, "dataPoints", Of(&HISTOGRAM_POINT)), one(2, "aggregationTemporality", Int)]);
static EXPONENTIAL: Message =
    Message(&[all(1, "dataPoints", Of(&EXPONENTIAL_POINT)), one(2, "aggregationTemporality", Int)]);
static NUMBER_POINT: Message = Message(&[
    all(7, "attributes", Of(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Fixed64),
    one(3, "timeUnixNano", Fixed64),
    one(4, "asDouble", Double),
    one(6, "asInt", SFixed64),
    one(8, "flags", UInt),
]);
static HISTOGRAM_POINT: Message = Message(&[
    all(9, "attributes", Of(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Fixed64),
    one(3, "timeUnixNano", Fixed64),
    one(4, "count", Fixed64),
    one(5, "sum", Double),
    all(6, "bucketCounts", Fixed64),
    all(7, "explicitBounds", Double),
    one(10, "flags", UInt),
    one(11, "min", Double),
    one(12, "max", Double),
]);
static EXPONENTIAL_POINT: Message = Message(&[
    all(1, "attributes", Of(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Fixed64),
    one(3, "timeUnixNano", Fixed64),
    one(4, "count", Fixed64),
    one(5, "sum", Double),
    one(6, "scale", Zigzag),
    one(7, "zeroCount", Fixed64),
    one(8, "positive", Of(&BUCKETS)),
    one(9, "negative", Of(&BUCKETS)),
    one(10, "flags", UInt),
    one(12, "min", Double),
    one(13, "max", Double),
    one(14, "zeroThreshold", Double),
]);
static BUCKETS: Message = Message(&[one(1, "offset", Zigzag), all(2, "bucketCounts", ULong)]);
static SPAN: Message = Message(&[
    one(1, "traceId", Hex),
    one(2, "spanId", Hex),
    one(3, "traceState", Text),
    one(4, "parentSpanId", Hex),
    one(16, "flags", Fixed32),
    one(5, "name", Text),
    one(6, "kind", Int),
    one(7, "startTimeUnixNano", Fixed64),
    one(8, "endTimeUnixNano", Fixed64),
    all(9, "attributes", Of(&KEY_VALUE)),
    one(10, "droppedAttributesCount", UInt),
    all(11, "events", Of(&EVENT)),
    one(12, "droppedEventsCount", UInt),
    all(13, "links", Of(&LINK)),
    one(14, "droppedLinksCount", UInt),
    one(15, "status", Of(&STATUS)),
]);
static EVENT: Message = Message(&[
    one(1, "timeUnixNano", Fixed64),
    one(2, "name", Text),
    all(3, "attributes", Of(&KEY_VALUE)),
    one(4, "droppedAttributesCount", UInt),
]);
static LINK: Message = Message(&[
    one(1, "traceId", Hex),
    one(2, "spanId", Hex),
    one(3, "traceState", Text),
    all(4, "attributes", Of(&KEY_VALUE)),
    one(5, "droppedAttributesCount", UInt),
    one(6, "flags", Fixed32),
]);
static STATUS: Message = Message(&[one(2, "message", Text), one(3, "code", Int)]);
