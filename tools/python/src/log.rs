//! The native half of `perfring.logging` and `perfring.telemetry`: log records, spans and samples in a ring.

use crate::errors;
use crate::kind::{At, Size, choice, policy_of};
use perfring_consumer::{AttachError, Layout, files::RingFile};
use perfring_producer::{CreateError, Location, Options, RecordType, ReserveError, files::create};
use perfring_telemetry::names::{self, AttributeName};
use perfring_telemetry::types::tagged::{Key, TaggedWriter};
use perfring_telemetry::types::{Class, Field, Shape};
use perfring_telemetry::{
    FIRST, Gauge, Histogram, Log, Resource, Signal, Sink, SinkError, SpanEnd, SpanStart, Sum,
    options,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};
use std::time::{Duration, SystemTime};

/// The number of attempts at a ring that other processes create and remove meanwhile.
const TRIES: u32 = 100;
/// A record that is older than this was made elsewhere, and came through a queue.
const LATE: Duration = Duration::from_millis(100);

/// Defines the fields of a record, and the constants that number them, in one list.
macro_rules! fields {
    ($($number:ident = $name:expr,)*) => {
        const FIELDS: &[&str] = &[$($name),*];
        fields!(@count 0; $($number)*);
    };
    (@count $at:expr; $number:ident $($rest:ident)*) => {
        const $number: usize = $at;
        fields!(@count $number + 1; $($rest)*);
    };
    (@count $at:expr;) => {};
}

fields! {
    SEVERITY = names::SEVERITY_NUMBER,
    LEVEL = names::SEVERITY_TEXT,
    BODY = names::BODY,
    LOGGER = names::SCOPE,
    FILE = names::FILE,
    LINE = names::LINE,
    FUNCTION = "code.function.name",
    THREAD = "thread.id",
    THREAD_NAME = "thread.name",
    TRACE = names::TRACE_ID,
    SPAN = names::SPAN_ID,
    // When a record that was written much later was made, in ns since 1970: perfring's own name.
    CREATED = "log.created_unix_nano",
    TASK = "asyncio.task.name",
    EXCEPTION = "exception.type",
    MESSAGE = "exception.message",
    TRACEBACK = "exception.stacktrace",
    STACK = "code.stacktrace",
}

/// Writes log records into a ring.
#[pyclass(frozen, module = "perfring._native", name = "_LogSink")]
pub(crate) struct LogSink {
    sink: Sink,
    kind: RecordType,
    /// Whether the ring's table had room for the type of [`FIELDS`].
    declared: bool,
    layout: Layout,
    other_shape: bool,
}

#[pymethods]
impl LogSink {
    /// Attaches to the ring at this path, and creates it if it is missing.
    #[new]
    #[pyo3(signature = (path, size, policy, mode, resource))]
    fn new(
        py: Python<'_>,
        path: At,
        size: Size,
        policy: &str,
        mode: u32,
        resource: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let policy = policy_of(policy)?;
        let small = Options::many().types_size;
        let options = Options { size: size.0, policy, mode, types_size: small, ..options() };
        let mut reported = Resource::here();
        for (name, value) in resource {
            reported = reported.with(name, value);
        }
        py.detach(|| open(&path.0, &options, &reported)).map_err(|error| match error {
            SinkError::Create(error) => errors::create(py, &error),
            SinkError::Attach(error) => errors::attach(py, &error),
            SinkError::First(error) => errors::reserve(py, error),
            other => errors::named(py, "PerfringError", other.to_string()),
        })
    }

    /// Publishes a record. Returns whether it was published; if not, it is counted.
    #[expect(clippy::too_many_arguments, reason = "a log record has as many")]
    #[pyo3(signature = (severity, level, body, logger, file, line, function, thread, thread_name,
        created, trace_id, span_id, more, /))]
    fn emit(
        &self,
        py: Python<'_>,
        severity: u64,
        level: &Bound<'_, PyString>,
        body: &Bound<'_, PyString>,
        logger: Option<&Bound<'_, PyString>>,
        file: Option<&Bound<'_, PyString>>,
        line: Option<u64>,
        function: Option<&Bound<'_, PyString>>,
        thread: Option<u64>,
        thread_name: Option<&Bound<'_, PyString>>,
        created: f64,
        trace_id: Option<&[u8]>,
        span_id: Option<&[u8]>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        // Everything that may run Python code comes before the record: that code may log.
        let body = body.to_string_lossy();
        let texts = [
            (LEVEL, Some(level)),
            (LOGGER, logger),
            (FILE, file),
            (FUNCTION, function),
            (THREAD_NAME, thread_name),
        ]
        .map(|(field, text)| (field, text.map(|text| text.to_string_lossy())));
        let late = lateness(created);
        let mut rest = Vec::new();
        for (name, value) in more.into_iter().flatten() {
            rest.push((name.str()?.to_string_lossy().into_owned(), Kept::of(&value)?));
        }
        let key = |field| self.key(field);
        let done = self.sink.write(self.kind, |writer| {
            if severity > 0 {
                writer.u64(key(SEVERITY), severity);
            }
            for (field, text) in &texts {
                if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
                    writer.text(key(*field), text);
                }
            }
            for (field, number) in [(LINE, line), (THREAD, thread), (CREATED, late)] {
                if let Some(number) = number {
                    writer.u64(key(field), number);
                }
            }
            for (field, id) in [(TRACE, trace_id), (SPAN, span_id)] {
                if let Some(id) = id {
                    writer.bytes(key(field), id);
                }
            }
            writer.text(key(BODY), &body);
            for (name, value) in &rest {
                match [TASK, EXCEPTION, MESSAGE, TRACEBACK, STACK]
                    .into_iter()
                    .find(|field| FIELDS[*field] == name)
                {
                    Some(field) => value.write(key(field), writer),
                    None => {
                        let name = AttributeName::new(Class::Log, name);
                        value.write(Key::Name(name.as_str()), writer);
                    }
                }
            }
        });
        match done {
            Ok(()) => Ok(true),
            Err(error @ ReserveError::Forked) => Err(errors::reserve(py, error)),
            Err(_) => Ok(false),
        }
    }

    /// Publishes a span's start or end, or a sample, with these fields and attributes. Returns whether it was published; if
    /// not, it is counted.
    #[pyo3(signature = (what, fields, attributes, /))]
    fn signal(
        &self,
        py: Python<'_>,
        what: &str,
        fields: &Bound<'_, PyDict>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        let (class, kind) = match what {
            "span_start" => (Class::SpanStart, SpanStart::SCHEMA.id),
            "span_end" => (Class::SpanEnd, SpanEnd::SCHEMA.id),
            "gauge" => (Class::Gauge, Gauge::SCHEMA.id),
            "sum" => (Class::Sum, Sum::SCHEMA.id),
            "histogram" => (Class::Histogram, Histogram::SCHEMA.id),
            other => {
                return Err(choice(
                    "signal",
                    other,
                    "\"span_start\", \"span_end\", \"gauge\" and so on",
                ));
            }
        };
        // Everything that may run Python code comes before the record: that code may publish.
        let mut all = Vec::new();
        for (name, value) in fields {
            all.push((name.str()?.to_string_lossy().into_owned(), Kept::of(&value)?, true));
        }
        for (name, value) in attributes.into_iter().flatten() {
            all.push((name.str()?.to_string_lossy().into_owned(), Kept::of(&value)?, false));
        }
        let done = self.sink.write(kind, |writer| {
            for (name, value, is_field) in &all {
                match is_field {
                    true => value.write(Key::Name(name), writer),
                    false => {
                        value.write(Key::Name(AttributeName::new(class, name).as_str()), writer);
                    }
                }
            }
        });
        match done {
            Ok(()) => Ok(true),
            Err(error @ ReserveError::Forked) => Err(errors::reserve(py, error)),
            Err(_) => Ok(false),
        }
    }

    /// The records that this process could not publish.
    #[getter]
    fn dropped(&self) -> u64 {
        self.sink.dropped()
    }

    /// The bytes of the longest record.
    #[getter]
    fn max_len(&self) -> usize {
        self.sink.max_len()
    }

    /// The bytes of the ring's data area.
    #[getter]
    fn size(&self) -> u64 {
        self.layout.data_size
    }

    /// Whether the ring existed with other options.
    #[getter]
    fn other_shape(&self) -> bool {
        self.other_shape
    }

    /// ``"drop"`` or ``"overwrite"``.
    #[getter]
    fn policy(&self) -> &'static str {
        self.layout.policy.name()
    }
}

impl LogSink {
    /// Returns the key of a field: its number, or its name if the ring had no room for the type.
    fn key(&self, field: usize) -> Key<'static> {
        match self.declared {
            true => Key::Field(FIRST + field as u16),
            false => Key::Name(FIELDS[field]),
        }
    }
}

fn open(location: &Location, options: &Options, resource: &Resource) -> Result<LogSink, SinkError> {
    let mut tries = 0;
    let sink = loop {
        tries += 1;
        match Sink::attach_one(location.clone(), resource.clone()) {
            Err(SinkError::Attach(AttachError::NotFound { .. } | AttachError::Removed { .. }))
                if tries < TRIES => {}
            done => break done?,
        }
        match create(location.clone(), options) {
            // Another process created it.
            Ok(()) | Err(CreateError::Exists { .. }) => {}
            Err(error) => return Err(SinkError::Create(error)),
        }
    };
    let layout = *RingFile::inspect(location.clone()).map_err(SinkError::Attach)?.layout();
    let other_shape = (layout.data_size, layout.policy) != (options.size, options.policy);
    let fields: Vec<_> = FIELDS.iter().map(|name| Field::new(name, 0, Shape::ANY)).collect();
    let help = "a log record of Python's logging";
    let (kind, declared) = match sink.declare(Class::Log, "python.Log", help, &fields) {
        Ok(kind) => (kind, true),
        Err(_) => (Log::SCHEMA.id, false),
    };
    Ok(LogSink { sink, kind, declared, layout, other_shape })
}

/// Returns when a record was made, if it is written much later.
fn lateness(created: f64) -> Option<u64> {
    let created = Duration::try_from_secs_f64(created).ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let late = now.checked_sub(created)? > LATE;
    late.then(|| u64::try_from(created.as_nanos()).ok())?
}

/// A value of an attribute.
enum Kept {
    None,
    Bool(bool),
    I64(i64),
    I128(i128),
    F64(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Kept {
    /// Converts a value; one that is no number, text or bytes becomes its `str()`.
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Kept::None);
        }
        if let Ok(value) = value.cast::<PyString>() {
            return Ok(Kept::Text(value.to_string_lossy().into_owned()));
        }
        if let Ok(value) = value.cast::<PyBool>() {
            return Ok(Kept::Bool(value.is_true()));
        }
        if let Ok(value) = value.cast::<PyInt>() {
            if let Ok(value) = value.extract() {
                return Ok(Kept::I64(value));
            }
            if let Ok(value) = value.extract() {
                return Ok(Kept::I128(value));
            }
        }
        if let Ok(value) = value.cast::<PyFloat>() {
            return Ok(Kept::F64(value.extract()?));
        }
        if let Ok(value) = value.cast::<PyBytes>() {
            return Ok(Kept::Bytes(value.as_bytes().to_vec()));
        }
        Ok(Kept::Text(value.str()?.to_string_lossy().into_owned()))
    }

    fn write(&self, key: Key<'_>, writer: &mut TaggedWriter<'_>) {
        match self {
            Kept::None => writer.none(key),
            Kept::Bool(value) => writer.bool(key, *value),
            Kept::I64(value) => writer.i64(key, *value),
            Kept::I128(value) => writer.i128(key, *value),
            Kept::F64(value) => writer.f64(key, *value),
            Kept::Text(value) => writer.text(key, value),
            Kept::Bytes(value) => writer.bytes(key, value),
        }
    }
}
