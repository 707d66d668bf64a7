//! The tables of OpenTelemetry's signals: one for each, whatever types their records have.

use super::columns::{Column, Of};
use perfring_telemetry::names;
use perfring_types::Class;
use perfring_types::read::{Type, Value};
use std::borrow::Cow;

/// A table of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Logs,
    Metrics,
    Spans,
    Resources,
}

/// The column of what has no column, as a JSON object.
pub(super) const ATTRIBUTES: &str = "attributes";
/// The column of the class.
pub(super) const CLASS: (&str, Of) = ("class", Of::Text);
/// A whole number that was measured, beside [`names::VALUE`], which has 53 bits of it.
const INTEGER: &str = "value.integer";

const LOGS: &[(&str, Of)] = &[
    (names::PID, Of::Unsigned),
    (names::TIME, Of::Unsigned),
    (names::OBSERVED_TIME, Of::Unsigned),
    (names::SEVERITY_NUMBER, Of::Unsigned),
    (names::SEVERITY_TEXT, Of::Text),
    (names::BODY, Of::Text),
    (names::EVENT_NAME, Of::Text),
    (names::TRACE_ID, Of::Bytes),
    (names::SPAN_ID, Of::Bytes),
    (names::SCOPE, Of::Text),
    (names::FILE, Of::Text),
    (names::LINE, Of::Unsigned),
];
const SPANS: &[(&str, Of)] = &[
    (names::PID, Of::Unsigned),
    (names::TIME, Of::Unsigned),
    (names::TRACE_ID, Of::Bytes),
    (names::SPAN_ID, Of::Bytes),
    (names::PARENT_SPAN_ID, Of::Bytes),
    (names::NAME, Of::Text),
    (names::KIND, Of::Unsigned),
    (names::DURATION, Of::Unsigned),
    (names::STATUS_CODE, Of::Unsigned),
    (names::STATUS_MESSAGE, Of::Text),
    (names::LINK_TRACE_ID, Of::Bytes),
    (names::LINK_SPAN_ID, Of::Bytes),
    (names::SCOPE, Of::Text),
    (names::FILE, Of::Text),
    (names::LINE, Of::Unsigned),
];
const METRICS: &[(&str, Of)] = &[
    (names::PID, Of::Unsigned),
    (names::TIME, Of::Unsigned),
    (names::NAME, Of::Text),
    (names::UNIT, Of::Text),
    (names::DESCRIPTION, Of::Text),
    (names::VALUE, Of::Double),
    (INTEGER, Of::Long),
    (names::IS_MONOTONIC, Of::Bool),
    (names::TEMPORALITY, Of::Unsigned),
    (names::START_TIME, Of::Unsigned),
    (names::COUNT, Of::Unsigned),
    (names::SUM, Of::Double),
    (names::MIN, Of::Double),
    (names::MAX, Of::Double),
    (names::SCOPE, Of::Text),
];
/// Columns of metrics that have lists.
const LISTS: [(&str, Of); 2] =
    [(names::EXPLICIT_BOUNDS, Of::Double), (names::BUCKET_COUNTS, Of::Unsigned)];
const RESOURCES: &[(&str, Of)] =
    &[(names::PID, Of::Unsigned), (names::TIME, Of::Unsigned), (names::START_TIME, Of::Unsigned)];

impl Signal {
    pub(super) const ALL: [Signal; 4] =
        [Signal::Logs, Signal::Metrics, Signal::Spans, Signal::Resources];

    /// Returns the table of a type's records; `None` if they are the program's own.
    pub(super) fn of(kind: &Type) -> Option<Self> {
        match kind.class.known()? {
            Class::Log => Some(Signal::Logs),
            Class::Gauge | Class::Sum | Class::Histogram => Some(Signal::Metrics),
            Class::SpanStart | Class::SpanEnd => Some(Signal::Spans),
            Class::Resource => Some(Signal::Resources),
            _ => None,
        }
    }

    /// Returns the name of its files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
            Signal::Spans => "spans",
            Signal::Resources => "resources",
        }
    }

    fn fields(self) -> &'static [(&'static str, Of)] {
        match self {
            Signal::Logs => LOGS,
            Signal::Metrics => METRICS,
            Signal::Spans => SPANS,
            Signal::Resources => RESOURCES,
        }
    }

    /// Returns the columns after those of all records.
    pub(super) fn columns(self) -> Vec<Column> {
        let lists = if self == Signal::Metrics { &LISTS[..] } else { &[] };
        let lists =
            lists.iter().map(|(name, of)| Column { is_list: true, ..Column::new(name, *of) });
        let fields = self.fields().iter().map(|(name, of)| Column::new(name, *of));
        fields.chain(lists).collect()
    }

    /// Returns a record's values as its columns have them. A value that is of another kind stays, and is in
    /// [`ATTRIBUTES`].
    pub(super) fn row(self, value: &Value) -> Cow<'_, Value> {
        let Value::Struct(fields) = value else { return Cow::Borrowed(value) };
        let of = |name: &str| self.fields().iter().find(|(its, _)| *its == name).map(|(_, of)| *of);
        let changed = |name: &str, value: &Value| of(name).and_then(|of| converted(of, value));
        if fields.iter().all(|(name, value)| changed(name, value).is_none()) {
            return Cow::Borrowed(value);
        }
        let mut row = fields.clone();
        for (name, value) in &mut row {
            if let Some(converted) = changed(name, value) {
                *value = converted;
            }
        }
        let measured = fields.iter().find(|(name, _)| **name == *names::VALUE);
        let whole = measured.and_then(|(_, value)| match value {
            Value::I64(number) => Some(*number),
            Value::U64(number) => i64::try_from(*number).ok(),
            _ => None,
        });
        if let Some(whole) = whole.filter(|_| self == Signal::Metrics) {
            row.push((INTEGER.into(), Value::I64(whole)));
        }
        Cow::Owned(Value::Struct(row))
    }
}

/// Converts a value to another kind that says the same; `None` if it has it, or cannot have it.
fn converted(of: Of, value: &Value) -> Option<Value> {
    match (of, value) {
        (Of::Unsigned, Value::I64(number) | Value::Label { value: number, .. }) => {
            u64::try_from(*number).ok().map(Value::U64)
        }
        (Of::Double, Value::U64(number)) => Some(Value::F64(*number as f64)),
        (Of::Double, Value::I64(number)) => Some(Value::F64(*number as f64)),
        (Of::Double, Value::F32(number)) => Some(Value::F64((*number).into())),
        (
            Of::Text,
            Value::Bool(_)
            | Value::I64(_)
            | Value::U64(_)
            | Value::F32(_)
            | Value::F64(_)
            | Value::List(_)
            | Value::Struct(_),
        ) => serde_json::to_string(value).ok().map(Value::Str),
        _ => None,
    }
}
