//! The native half of `perfring.logging` and `perfring.telemetry`: log records, spans and samples in a ring.

pub(crate) mod direct;
mod record;
mod signals;
pub(crate) mod value;

use crate::errors;
use crate::kind::{At, Size, policy_of};
use crate::missing::attach_or_create;
use perfring_consumer::{AttachError, Layout, files::RingFile};
use perfring_producer::{Location, Options, RecordType, ReserveError};
use perfring_telemetry::names;
use perfring_telemetry::types::tagged::{Key, TaggedWriter};
use perfring_telemetry::types::{Class, Field, Shape};
use perfring_telemetry::{FIRST, Log, Resource, Signal, Sink, SinkError, options};
use pyo3::prelude::*;
use pyo3::types::PyString;
use record::{Exception, Record};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// A record that is older than so many nanoseconds was made elsewhere, and came through a queue.
const LATE: u64 = 100_000_000;
/// Nanoseconds from one look at the ring's file to the next.
const LOOK_EVERY: u64 = 1_000_000_000;

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
    /// When the ring's file was last looked at, in ns since 1970.
    looked: AtomicU64,
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

    /// Publishes a record of `logging`, or counts it; `formatter` formats its body. Returns `False`, and has done nothing, if it
    /// is time to look at the ring's file: see `looked`.
    #[pyo3(signature = (record, formatter, /))]
    fn emit_in_time(
        &self,
        record: &Bound<'_, PyAny>,
        formatter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let now = nanos();
        // A clock that went back is far ahead, too.
        if now.wrapping_sub(self.looked.load(Relaxed)) >= LOOK_EVERY {
            return Ok(false);
        }
        Ok(self.publish(record, formatter, now)? != Err(ReserveError::Forked))
    }

    /// Publishes a record of `logging`, or counts it.
    #[pyo3(signature = (record, formatter, /))]
    fn emit(
        &self,
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        formatter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        match self.publish(record, formatter, nanos())? {
            Err(error @ ReserveError::Forked) => Err(errors::reserve(py, error)),
            _ => Ok(()),
        }
    }

    /// Says that the ring's file was looked at now, or that it was not.
    #[pyo3(signature = (yes=true, /))]
    fn looked(&self, yes: bool) {
        self.looked.store(if yes { nanos() } else { 0 }, Relaxed);
    }

    /// Publishes a batch: what each record is, the values of its fields, and its attributes. Returns how many were not published,
    /// but counted.
    #[pyo3(signature = (rows, /))]
    fn publish_all(&self, rows: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.publish_rows(rows)
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
    /// Writes a record of `logging`.
    fn publish(
        &self,
        record: &Bound<'_, PyAny>,
        formatter: Option<&Bound<'_, PyAny>>,
        now: u64,
    ) -> PyResult<Result<(), ReserveError>> {
        // Everything that may run Python code comes before the record: that code may log.
        let record = Record::of(record, formatter, self.sink.max_len() / 2)?;
        let late = lateness(record.created, now);
        let key = |field| self.key(field);
        Ok(self.sink.write(self.kind, |writer| {
            if record.severity > 0 {
                writer.u64(key(SEVERITY), record.severity);
            }
            let texts = [
                (LEVEL, Some(&record.level)),
                (LOGGER, record.logger.as_ref()),
                (FILE, record.file.as_ref()),
                (FUNCTION, record.function.as_ref()),
                (THREAD_NAME, record.thread_name.as_ref()),
            ];
            for (field, value) in texts {
                text(key(field), value, writer);
            }
            for (field, number) in [(LINE, record.line), (THREAD, record.thread), (CREATED, late)] {
                if let Some(number) = number {
                    writer.u64(key(field), number);
                }
            }
            if let Some(id) = &record.trace_id {
                writer.bytes(key(TRACE), id);
            }
            if let Some(id) = &record.span_id {
                writer.bytes(key(SPAN), id);
            }
            writer.text(key(BODY), &record.body.to_string_lossy());
            // What is most important comes first, and what may be long last.
            let Exception(class, message, stack, call) = &record.exception;
            for (field, value) in [(EXCEPTION, class), (MESSAGE, message), (TASK, &record.task)] {
                text(key(field), value.as_ref(), writer);
            }
            for attribute in &record.extra {
                attribute.write(Class::Log, writer);
            }
            for (field, value) in [(TRACEBACK, stack), (STACK, call)] {
                text(key(field), value.as_ref(), writer);
            }
        }))
    }

    /// Returns the key of a field: its number, or its name if the ring had no room for the type.
    fn key(&self, field: usize) -> Key<'static> {
        match self.declared {
            true => Key::Field(FIRST + field as u16),
            false => Key::Name(FIELDS[field]),
        }
    }
}

fn open(location: &Location, options: &Options, resource: &Resource) -> Result<LogSink, SinkError> {
    let attach = |location| Sink::attach_one(location, resource.clone());
    let is_missing = |error: &SinkError| {
        let SinkError::Attach(error) = error else { return false };
        matches!(error, AttachError::NotFound { .. } | AttachError::Removed { .. })
    };
    let sink = attach_or_create(location, options, attach, is_missing, SinkError::Create)?;
    let layout = *RingFile::inspect(location.clone()).map_err(SinkError::Attach)?.layout();
    let other_shape = (layout.data_size, layout.policy) != (options.size, options.policy);
    let fields: Vec<_> = FIELDS.iter().map(|name| Field::new(name, 0, Shape::ANY)).collect();
    let help = "a log record of Python's logging";
    let (kind, declared) = match sink.declare(Class::Log, "python.Log", help, &fields) {
        Ok(kind) => (kind, true),
        Err(_) => (Log::SCHEMA.id, false),
    };
    Ok(LogSink { sink, kind, declared, layout, other_shape, looked: AtomicU64::new(nanos()) })
}

/// Writes a text that is not empty.
fn text(key: Key<'_>, text: Option<&Bound<'_, PyString>>, writer: &mut TaggedWriter<'_>) {
    if let Some(text) = text.map(|text| text.to_string_lossy()).filter(|text| !text.is_empty()) {
        writer.text(key, &text);
    }
}

/// ns since 1970.
fn nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns when a record was made, if it is written much later.
fn lateness(created: f64, now: u64) -> Option<u64> {
    let created = Duration::try_from_secs_f64(created).ok()?;
    let created = u64::try_from(created.as_nanos()).ok()?;
    (now.checked_sub(created)? > LATE).then_some(created)
}
