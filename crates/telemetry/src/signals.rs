//! The ready record types.

use crate::names::{self, AttributeName};
use crate::{Severity, SpanId, SpanKind, Status, Temporality, TraceId, Value};
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Encoding, Field, Schema, Shape};

/// Attributes: names and values.
pub type Attributes<'a> = &'a [(&'a str, Value<'a>)];

/// A record that [`Sink::emit`](crate::Sink::emit) takes: one of the ready types.
pub trait Signal: sealed::Fill {
    /// Its type.
    const SCHEMA: Schema<'static>;
}

pub(crate) mod sealed {
    use super::TaggedWriter;

    pub trait Fill {
        fn fill(&self, writer: &mut TaggedWriter<'_>);
    }
}

/// The fields that every type for a [`Sink`](crate::Sink) begins with; the sink fills them.
pub const COMMON: [Field<'static>; 2] = [
    Field { unit: "ns", ..any(names::TIME, "since 1970; only where the ring stamps no records") },
    any(names::PID, "who wrote it: see the resource with the same"),
];

/// The number of the first field after [`COMMON`].
pub const FIRST: u16 = COMMON.len() as u16;

const fn any(name: &'static str, help: &'static str) -> Field<'static> {
    Field { help, ..Field::new(name, 0, Shape::ANY) }
}

const fn ns(name: &'static str, help: &'static str) -> Field<'static> {
    Field { unit: "ns", ..any(name, help) }
}

const fn plain(name: &'static str) -> Field<'static> {
    any(name, "")
}

const fn schema(
    name: &'static str,
    class: Class,
    help: &'static str,
    fields: &'static [Field<'static>],
) -> Schema<'static> {
    let schema = Schema { class, help, ..Schema::new(name, Encoding::Tagged) };
    schema.with_fields(0, fields).with_hashed_id()
}

/// Defines a type's fields and the constants that number them, in one list.
macro_rules! fields {
    ($list:ident: $($number:ident = $field:expr,)*) => {
        const $list: &[Field<'static>] = &[COMMON[0], COMMON[1], $($field),*];
        fields!(@count FIRST; $($number)*);
    };
    (@count $at:expr; $number:ident $($rest:ident)*) => {
        const $number: u16 = $at;
        fields!(@count $number + 1; $($rest)*);
    };
    (@count $at:expr;) => {};
}

fn attributes(class: Class, attributes: Attributes<'_>, writer: &mut TaggedWriter<'_>) {
    for (name, value) in attributes {
        value.write(AttributeName::new(class, name).as_str(), writer);
    }
}

fn text(number: u16, text: &str, writer: &mut TaggedWriter<'_>) {
    if !text.is_empty() {
        writer.text(number, text);
    }
}

fn maybe<T>(value: Option<T>, write: impl FnOnce(T)) {
    if let Some(value) = value {
        write(value);
    }
}

/// A log record.
///
/// ```
/// use perfring_telemetry::{Log, Severity};
/// let log = Log {
///     severity: Some(Severity::Warn),
///     body: "disk is nearly full".into(),
///     attributes: &[("left", 12u64.into()), ("mount", "/var".into())],
///     ..Log::default()
/// };
/// # let dir = tempfile::tempdir()?;
/// # let sink = perfring_telemetry::Sink::create(dir.path().join("r"), &perfring_telemetry::options(), perfring_telemetry::Resource::here())?;
/// sink.emit(&log)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Log<'a> {
    /// How bad it is.
    pub severity: Option<Severity>,
    /// What it says.
    pub body: Value<'a>,
    /// The trace that it happened in.
    pub trace_id: Option<TraceId>,
    /// The span that it happened in.
    pub span_id: Option<SpanId>,
    /// Names a kind of event, or nothing.
    pub event_name: &'a str,
    /// When it was noticed, in ns since 1970, if that was much later than it happened.
    pub observed_time_unix_nano: Option<u64>,
    /// What part of the program it is from, or nothing.
    pub scope: &'a str,
    /// The source file, or nothing.
    pub file: &'a str,
    /// The line in it.
    pub line: Option<u32>,
    /// What else there is to say.
    pub attributes: Attributes<'a>,
}

fields! { LOG:
    LOG_NUMBER = any(names::SEVERITY_NUMBER, "1 to 24, as OpenTelemetry has them"),
    LOG_TEXT = plain(names::SEVERITY_TEXT),
    LOG_BODY = plain(names::BODY),
    LOG_TRACE = plain(names::TRACE_ID),
    LOG_SPAN = plain(names::SPAN_ID),
    LOG_EVENT = plain(names::EVENT_NAME),
    LOG_OBSERVED = ns(names::OBSERVED_TIME, "since 1970"),
    LOG_SCOPE = plain(names::SCOPE),
    LOG_FILE = plain(names::FILE),
    LOG_LINE = plain(names::LINE),
}

impl Signal for Log<'_> {
    const SCHEMA: Schema<'static> = schema("perfring.Log", Class::Log, "a log record", LOG);
}

impl sealed::Fill for Log<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        if let Some(severity) = self.severity {
            writer.u64(LOG_NUMBER, severity.number());
            writer.text(LOG_TEXT, severity.name());
        }
        maybe(self.trace_id, |id| writer.bytes(LOG_TRACE, &id.0));
        maybe(self.span_id, |id| writer.bytes(LOG_SPAN, &id.0));
        maybe(self.observed_time_unix_nano, |time| writer.u64(LOG_OBSERVED, time));
        text(LOG_EVENT, self.event_name, writer);
        text(LOG_SCOPE, self.scope, writer);
        text(LOG_FILE, self.file, writer);
        maybe(self.line, |line| writer.u64(LOG_LINE, line.into()));
        if !matches!(self.body, Value::None) {
            self.body.write(LOG_BODY, writer);
        }
        attributes(Class::Log, self.attributes, writer);
    }
}

/// A span begins.
///
/// One without a name says more of a span that has begun: attributes that came later, or a span
/// that it follows from.
#[derive(Clone, Copy, Debug)]
pub struct SpanStart<'a> {
    /// The span's trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// The span that it is part of; none for the first of a trace.
    pub parent_span_id: Option<SpanId>,
    /// What it is called, the same for all of its kind; nothing if it has begun before.
    pub name: &'a str,
    /// Its kind.
    pub kind: Option<SpanKind>,
    /// A span that it follows from.
    pub link: Option<(TraceId, SpanId)>,
    /// What part of the program it is from, or nothing.
    pub scope: &'a str,
    /// What else there is to say.
    pub attributes: Attributes<'a>,
}

impl<'a> SpanStart<'a> {
    /// A span of this name, and nothing more.
    #[must_use]
    pub fn new(trace_id: TraceId, span_id: SpanId, name: &'a str) -> Self {
        SpanStart {
            trace_id,
            span_id,
            parent_span_id: None,
            name,
            kind: None,
            link: None,
            scope: "",
            attributes: &[],
        }
    }
}

fields! { SPAN_START:
    START_TRACE = plain(names::TRACE_ID),
    START_SPAN = plain(names::SPAN_ID),
    START_PARENT = plain(names::PARENT_SPAN_ID),
    START_NAME = plain(names::NAME),
    START_KIND = any(names::KIND, "1 internal, 2 server, 3 client, 4 producer, 5 consumer"),
    START_LINK_TRACE = any(names::LINK_TRACE_ID, "it follows from this span"),
    START_LINK_SPAN = plain(names::LINK_SPAN_ID),
    START_SCOPE = plain(names::SCOPE),
}

impl Signal for SpanStart<'_> {
    const SCHEMA: Schema<'static> = schema(
        "perfring.SpanStart",
        Class::SpanStart,
        "a span begins; or, without a name, more of one that has begun",
        SPAN_START,
    );
}

impl sealed::Fill for SpanStart<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        writer.bytes(START_TRACE, &self.trace_id.0);
        writer.bytes(START_SPAN, &self.span_id.0);
        maybe(self.parent_span_id, |id| writer.bytes(START_PARENT, &id.0));
        text(START_NAME, self.name, writer);
        maybe(self.kind, |kind| writer.u64(START_KIND, kind.number()));
        if let Some((trace, span)) = self.link {
            writer.bytes(START_LINK_TRACE, &trace.0);
            writer.bytes(START_LINK_SPAN, &span.0);
        }
        text(START_SCOPE, self.scope, writer);
        attributes(Class::SpanStart, self.attributes, writer);
    }
}

/// A span ends. It has what a reader needs that has not seen its start.
#[derive(Clone, Copy, Debug)]
pub struct SpanEnd<'a> {
    /// The span's trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// The span that it is part of; none for the first of a trace.
    pub parent_span_id: Option<SpanId>,
    /// What it is called.
    pub name: &'a str,
    /// How long it took, in ns.
    pub duration_nano: Option<u64>,
    /// How it ended, and why.
    pub status: Option<(Status, &'a str)>,
    /// What else there is to say.
    pub attributes: Attributes<'a>,
}

impl<'a> SpanEnd<'a> {
    /// The end of this span, and nothing more.
    #[must_use]
    pub fn new(trace_id: TraceId, span_id: SpanId, name: &'a str) -> Self {
        SpanEnd {
            trace_id,
            span_id,
            parent_span_id: None,
            name,
            duration_nano: None,
            status: None,
            attributes: &[],
        }
    }
}

fields! { SPAN_END:
    END_TRACE = plain(names::TRACE_ID),
    END_SPAN = plain(names::SPAN_ID),
    END_PARENT = plain(names::PARENT_SPAN_ID),
    END_NAME = plain(names::NAME),
    END_DURATION = ns(names::DURATION, "it began so much before"),
    END_STATUS = any(names::STATUS_CODE, "0 unset, 1 ok, 2 error"),
    END_MESSAGE = plain(names::STATUS_MESSAGE),
}

impl Signal for SpanEnd<'_> {
    const SCHEMA: Schema<'static> =
        schema("perfring.SpanEnd", Class::SpanEnd, "a span ends", SPAN_END);
}

impl sealed::Fill for SpanEnd<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        writer.bytes(END_TRACE, &self.trace_id.0);
        writer.bytes(END_SPAN, &self.span_id.0);
        maybe(self.parent_span_id, |id| writer.bytes(END_PARENT, &id.0));
        text(END_NAME, self.name, writer);
        maybe(self.duration_nano, |nano| writer.u64(END_DURATION, nano));
        if let Some((status, message)) = self.status {
            writer.u64(END_STATUS, status.number());
            text(END_MESSAGE, message, writer);
        }
        attributes(Class::SpanEnd, self.attributes, writer);
    }
}

/// A sample of something that goes up and down.
///
/// ```
/// use perfring_telemetry::Gauge;
/// let depth = Gauge { unit: "{job}", ..Gauge::new("queue.depth", 17u64) };
/// # let _ = depth;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gauge<'a> {
    /// The instrument.
    pub name: &'a str,
    /// Its unit as UCUM has it, or nothing.
    pub unit: &'a str,
    /// What it measures, or nothing.
    pub description: &'a str,
    /// The number.
    pub value: Value<'a>,
    /// What it was measured of.
    pub attributes: Attributes<'a>,
}

impl<'a> Gauge<'a> {
    /// A sample, and nothing more.
    #[must_use]
    pub fn new(name: &'a str, value: impl Into<Value<'a>>) -> Self {
        Gauge { name, unit: "", description: "", value: value.into(), attributes: &[] }
    }
}

fields! { GAUGE:
    GAUGE_NAME = plain(names::NAME),
    GAUGE_UNIT = plain(names::UNIT),
    GAUGE_DESCRIPTION = plain(names::DESCRIPTION),
    GAUGE_VALUE = plain(names::VALUE),
}

impl Signal for Gauge<'_> {
    const SCHEMA: Schema<'static> =
        schema("perfring.Gauge", Class::Gauge, "a sample of a gauge", GAUGE);
}

impl sealed::Fill for Gauge<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        text(GAUGE_NAME, self.name, writer);
        text(GAUGE_UNIT, self.unit, writer);
        text(GAUGE_DESCRIPTION, self.description, writer);
        self.value.write(GAUGE_VALUE, writer);
        attributes(Class::Gauge, self.attributes, writer);
    }
}

/// A sample of a sum.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a> {
    /// The instrument.
    pub name: &'a str,
    /// Its unit as UCUM has it, or nothing.
    pub unit: &'a str,
    /// What it counts, or nothing.
    pub description: &'a str,
    /// The number.
    pub value: Value<'a>,
    /// Whether it only grows.
    pub is_monotonic: bool,
    /// What it counts from.
    pub temporality: Temporality,
    /// The start that a cumulative sum counts from, in ns since 1970.
    pub start_time_unix_nano: Option<u64>,
    /// What was counted.
    pub attributes: Attributes<'a>,
}

impl<'a> Sum<'a> {
    /// So many more than at the last sample.
    #[must_use]
    pub fn delta(name: &'a str, value: impl Into<Value<'a>>) -> Self {
        Sum {
            name,
            unit: "",
            description: "",
            value: value.into(),
            is_monotonic: true,
            temporality: Temporality::Delta,
            start_time_unix_nano: None,
            attributes: &[],
        }
    }

    /// So many since the start: what a ring that overwrites wants, for any sample tells all.
    #[must_use]
    pub fn cumulative(name: &'a str, value: impl Into<Value<'a>>) -> Self {
        Sum { temporality: Temporality::Cumulative, ..Sum::delta(name, value) }
    }
}

fields! { SUM:
    SUM_NAME = plain(names::NAME),
    SUM_UNIT = plain(names::UNIT),
    SUM_DESCRIPTION = plain(names::DESCRIPTION),
    SUM_VALUE = plain(names::VALUE),
    SUM_MONOTONIC = plain(names::IS_MONOTONIC),
    SUM_TEMPORALITY = any(names::TEMPORALITY, "1 delta, 2 cumulative"),
    SUM_START = ns(names::START_TIME, "since 1970"),
}

impl Signal for Sum<'_> {
    const SCHEMA: Schema<'static> = schema("perfring.Sum", Class::Sum, "a sample of a sum", SUM);
}

impl sealed::Fill for Sum<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        text(SUM_NAME, self.name, writer);
        text(SUM_UNIT, self.unit, writer);
        text(SUM_DESCRIPTION, self.description, writer);
        self.value.write(SUM_VALUE, writer);
        writer.bool(SUM_MONOTONIC, self.is_monotonic);
        writer.u64(SUM_TEMPORALITY, self.temporality.number());
        maybe(self.start_time_unix_nano, |time| writer.u64(SUM_START, time));
        attributes(Class::Sum, self.attributes, writer);
    }
}

/// A histogram's state; or, with a value and nothing else, one measurement for a reader to sort in.
#[derive(Clone, Copy, Debug)]
pub struct Histogram<'a> {
    /// The instrument.
    pub name: &'a str,
    /// Its unit as UCUM has it, or nothing.
    pub unit: &'a str,
    /// What it measures, or nothing.
    pub description: &'a str,
    /// One measurement.
    pub value: Option<f64>,
    /// What the counts begin from.
    pub temporality: Temporality,
    /// The start that cumulative counts begin from, in ns since 1970.
    pub start_time_unix_nano: Option<u64>,
    /// How many measurements.
    pub count: Option<u64>,
    /// Their sum.
    pub sum: Option<f64>,
    /// The least.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// Between buckets, rising; a bucket ends with its bound.
    pub explicit_bounds: &'a [f64],
    /// Measurements in each bucket: one more than bounds.
    pub bucket_counts: &'a [u64],
    /// What was measured.
    pub attributes: Attributes<'a>,
}

impl<'a> Histogram<'a> {
    /// One measurement.
    #[must_use]
    pub fn one(name: &'a str, value: f64) -> Self {
        Histogram { value: Some(value), ..Histogram::state(name, &[], &[]) }
    }

    /// Delta counts in buckets.
    #[must_use]
    pub fn state(name: &'a str, explicit_bounds: &'a [f64], bucket_counts: &'a [u64]) -> Self {
        Histogram {
            name,
            unit: "",
            description: "",
            value: None,
            temporality: Temporality::Delta,
            start_time_unix_nano: None,
            count: None,
            sum: None,
            min: None,
            max: None,
            explicit_bounds,
            bucket_counts,
            attributes: &[],
        }
    }
}

fields! { HISTOGRAM:
    HISTOGRAM_NAME = plain(names::NAME),
    HISTOGRAM_UNIT = plain(names::UNIT),
    HISTOGRAM_DESCRIPTION = plain(names::DESCRIPTION),
    HISTOGRAM_VALUE = any(names::VALUE, "one measurement"),
    HISTOGRAM_TEMPORALITY = any(names::TEMPORALITY, "1 delta, 2 cumulative"),
    HISTOGRAM_START = ns(names::START_TIME, "since 1970"),
    HISTOGRAM_COUNT = plain(names::COUNT),
    HISTOGRAM_SUM = plain(names::SUM),
    HISTOGRAM_MIN = plain(names::MIN),
    HISTOGRAM_MAX = plain(names::MAX),
    HISTOGRAM_BOUNDS = plain(names::EXPLICIT_BOUNDS),
    HISTOGRAM_BUCKETS = plain(names::BUCKET_COUNTS),
}

impl Signal for Histogram<'_> {
    const SCHEMA: Schema<'static> =
        schema("perfring.Histogram", Class::Histogram, "a histogram, or one of its", HISTOGRAM);
}

impl sealed::Fill for Histogram<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        text(HISTOGRAM_NAME, self.name, writer);
        text(HISTOGRAM_UNIT, self.unit, writer);
        text(HISTOGRAM_DESCRIPTION, self.description, writer);
        maybe(self.value, |value| writer.f64(HISTOGRAM_VALUE, value));
        writer.u64(HISTOGRAM_TEMPORALITY, self.temporality.number());
        maybe(self.start_time_unix_nano, |time| writer.u64(HISTOGRAM_START, time));
        maybe(self.count, |count| writer.u64(HISTOGRAM_COUNT, count));
        maybe(self.sum, |sum| writer.f64(HISTOGRAM_SUM, sum));
        maybe(self.min, |min| writer.f64(HISTOGRAM_MIN, min));
        maybe(self.max, |max| writer.f64(HISTOGRAM_MAX, max));
        if !self.bucket_counts.is_empty() {
            writer.f64s(HISTOGRAM_BOUNDS, self.explicit_bounds);
            writer.u64s(HISTOGRAM_BUCKETS, self.bucket_counts);
        }
        attributes(Class::Histogram, self.attributes, writer);
    }
}

/// All ready types: a sink puts them into the ring's table when it attaches.
pub(crate) const ALL: [Schema<'static>; 7] = [
    Log::SCHEMA,
    SpanStart::SCHEMA,
    SpanEnd::SCHEMA,
    Gauge::SCHEMA,
    Sum::SCHEMA,
    Histogram::SCHEMA,
    RESOURCE,
];

/// What a [`Resource`](crate::Resource) is in the ring.
pub(crate) const RESOURCE: Schema<'static> = schema(
    "perfring.Resource",
    Class::Resource,
    "what the process is whose records have this process.pid, from here on",
    &COMMON,
);
