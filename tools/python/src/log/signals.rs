//! Batches of spans, samples and log records.

use super::LogSink;
use super::record::SPANS;
use super::value::{Attribute, Kept};
use crate::errors;
use crate::kind::choice;
use perfring_producer::{RecordType, ReserveError};
use perfring_telemetry::types::tagged::Key;
use perfring_telemetry::types::{Class, Schema};
use perfring_telemetry::{Gauge, Histogram, Log, Signal, SpanEnd, SpanStart, Sum, names};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

/// A kind of record that a row of a batch becomes.
struct Form {
    name: &'static str,
    class: Class,
    id: RecordType,
    /// The fields of a row's values, in their order.
    keys: Vec<Key<'static>>,
}

impl Form {
    fn new(name: &'static str, schema: &Schema<'static>, fields: &[&'static str]) -> Self {
        // The sink has registered the type. What it has no number for stands in the record by name.
        let number = |name: &str| schema.fields.iter().position(|field| field.name == name);
        let key = |name: &&'static str| match number(name).map(u16::try_from) {
            Some(Ok(number)) => Key::Field(number),
            _ => Key::Name(name),
        };
        let keys = fields.iter().map(key).collect();
        Form { name, class: schema.class, id: schema.id, keys }
    }
}

/// The forms of rows. `_native.pyi` repeats the fields.
static FORMS: LazyLock<[Form; 6]> = LazyLock::new(|| {
    use names::*;
    [
        Form::new(
            "span_start",
            &SpanStart::SCHEMA,
            &[
                TIME,
                TRACE_ID,
                SPAN_ID,
                PARENT_SPAN_ID,
                NAME,
                KIND,
                SCOPE,
                LINK_TRACE_ID,
                LINK_SPAN_ID,
            ],
        ),
        Form::new(
            "span_end",
            &SpanEnd::SCHEMA,
            &[TIME, TRACE_ID, SPAN_ID, PARENT_SPAN_ID, NAME, DURATION, STATUS_CODE, STATUS_MESSAGE],
        ),
        Form::new(
            "log",
            &Log::SCHEMA,
            &[
                TIME,
                TRACE_ID,
                SPAN_ID,
                EVENT_NAME,
                SCOPE,
                OBSERVED_TIME,
                SEVERITY_NUMBER,
                SEVERITY_TEXT,
                BODY,
            ],
        ),
        Form::new("gauge", &Gauge::SCHEMA, &[TIME, NAME, UNIT, DESCRIPTION, SCOPE, VALUE]),
        Form::new(
            "sum",
            &Sum::SCHEMA,
            &[TIME, NAME, UNIT, DESCRIPTION, SCOPE, VALUE, TEMPORALITY, START_TIME, IS_MONOTONIC],
        ),
        Form::new(
            "histogram",
            &Histogram::SCHEMA,
            &[
                TIME,
                NAME,
                UNIT,
                DESCRIPTION,
                SCOPE,
                VALUE,
                TEMPORALITY,
                START_TIME,
                COUNT,
                SUM,
                MIN,
                MAX,
                EXPLICIT_BOUNDS,
                BUCKET_COUNTS,
                SCALE,
                ZERO_COUNT,
                ZERO_THRESHOLD,
                POSITIVE_OFFSET,
                POSITIVE_COUNTS,
                NEGATIVE_OFFSET,
                NEGATIVE_COUNTS,
            ],
        ),
    ]
});

/// A row of a batch: what it is, the values of its fields, its attributes.
type Row<'py> = (Bound<'py, PyString>, Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

impl LogSink {
    /// Publishes rows, and returns how many were not published, but counted.
    pub(super) fn publish_rows(&self, rows: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = rows.py();
        let (mut refused, mut fields) = (0, Vec::new());
        for row in rows.try_iter()? {
            let (what, values, attributes): Row<'_> = row?.extract()?;
            let what = what.to_str()?;
            let Some(form) = FORMS.iter().find(|form| form.name == what) else {
                return Err(choice(
                    "signal",
                    what,
                    "\"span_start\", \"span_end\", \"gauge\" and so on",
                ));
            };
            if form.class == Class::SpanStart {
                SPANS.store(true, Ordering::Relaxed);
            }
            if values.len() > form.keys.len() {
                return Err(PyValueError::new_err(format!("{what} has too many values")));
            }
            // Everything that may run Python code comes before the record: that code may publish.
            fields.clear();
            for (key, value) in form.keys.iter().zip(&values) {
                fields.push((*key, Kept::of_field(value)?));
            }
            let attributes = Attribute::all(attributes.as_ref())?;
            let done = self.sink.write(form.id, |writer| {
                for (key, value) in &fields {
                    if !value.is_empty() {
                        value.write(*key, writer);
                    }
                }
                for attribute in &attributes {
                    attribute.write(form.class, writer);
                }
            });
            match done {
                Ok(()) => {}
                Err(error @ ReserveError::Forked) => return Err(errors::reserve(py, error)),
                Err(_) => refused += 1,
            }
        }
        Ok(refused)
    }
}
