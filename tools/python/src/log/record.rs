//! Reads a `logging.LogRecord`.

use super::value::Attribute;
use crate::memory::items::{Expected, Pairs, items_of};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PySet, PyString, PyType};
use std::sync::atomic::{AtomicBool, Ordering};

/// Defines the attributes of a record that are read, and the constants that number them.
macro_rules! attributes {
    ($($number:ident = $name:literal,)*) => {
        const READ: &[&str] = &[$($name),*];
        attributes!(@count 0; $($number)*);
    };
    (@count $at:expr; $number:ident $($rest:ident)*) => {
        const $number: usize = $at;
        attributes!(@count $number + 1; $($rest)*);
    };
    (@count $at:expr;) => {
        const COUNT: usize = $at;
    };
}

attributes! {
    NAME = "name",
    MSG = "msg",
    ARGS = "args",
    LEVEL_NAME = "levelname",
    LEVEL = "levelno",
    PATH = "pathname",
    EXC_INFO = "exc_info",
    EXC_TEXT = "exc_text",
    STACK_INFO = "stack_info",
    LINE = "lineno",
    FUNCTION = "funcName",
    CREATED = "created",
    THREAD = "thread",
    THREAD_NAME = "threadName",
    TASK = "taskName",
}

/// Attributes that formatters add, and those of later Pythons that earlier ones may be given.
const ADDED: [&str; 3] = ["message", "asctime", "taskName"];

/// What is looked up once.
struct Python {
    /// The names of [`READ`].
    read: [Py<PyString>; COUNT],
    /// All names that are not from `extra`.
    known: Py<PySet>,
    /// The attributes of a record without `extra`, in the order in which its class sets them.
    usual: Vec<Expected>,
    log_record: Py<PyType>,
    get_message: Py<PyAny>,
    /// `CURRENT.get`: the span that the thread or task is in.
    span: Py<PyAny>,
    /// `perfring.logging._exception_of`.
    exception_of: Py<PyAny>,
}

/// Whether this process, or its parent before a fork, has begun a span.
pub(super) static SPANS: AtomicBool = AtomicBool::new(false);

static PYTHON: PyOnceLock<Python> = PyOnceLock::new();

impl Python {
    fn get(py: pyo3::Python<'_>) -> PyResult<&'static Python> {
        PYTHON.get_or_try_init(py, || Python::new(py))
    }

    fn new(py: pyo3::Python<'_>) -> PyResult<Self> {
        let logging = py.import("logging")?;
        let example = logging.call_method1("makeLogRecord", (PyDict::new(py),))?;
        let usual = example.getattr("__dict__")?.cast_into::<PyDict>()?;
        let known = PySet::new(py, usual.keys())?;
        ADDED.iter().try_for_each(|name| known.add(name))?;
        let expected = |name: Bound<'_, PyAny>| {
            let name = name.cast_into::<PyString>()?;
            let at = READ.iter().position(|read| name == *read);
            PyResult::Ok((name.unbind(), at))
        };
        let log_record = logging.getattr("LogRecord")?.cast_into::<PyType>()?;
        Ok(Python {
            read: std::array::from_fn(|at| PyString::intern(py, READ[at]).unbind()),
            known: known.unbind(),
            usual: usual.keys().iter().map(expected).collect::<PyResult<_>>()?,
            get_message: log_record.getattr("getMessage")?.unbind(),
            log_record: log_record.unbind(),
            span: py.import("perfring._span")?.getattr("CURRENT")?.getattr("get")?.unbind(),
            exception_of: py.import("perfring.logging")?.getattr("_exception_of")?.unbind(),
        })
    }
}

/// What is written of a record. No Python code runs from here on.
pub(super) struct Record<'py> {
    pub(super) severity: u64,
    pub(super) level: Bound<'py, PyString>,
    pub(super) body: Bound<'py, PyString>,
    pub(super) logger: Option<Bound<'py, PyString>>,
    pub(super) file: Option<Bound<'py, PyString>>,
    pub(super) line: Option<u64>,
    pub(super) function: Option<Bound<'py, PyString>>,
    pub(super) thread: Option<u64>,
    pub(super) thread_name: Option<Bound<'py, PyString>>,
    pub(super) created: f64,
    pub(super) trace_id: Option<[u8; 16]>,
    pub(super) span_id: Option<[u8; 8]>,
    pub(super) task: Option<Bound<'py, PyString>>,
    pub(super) exception: Exception<'py>,
    pub(super) extra: Vec<Attribute<'py>>,
}

/// Texts about an exception: its type, its message, its stack; and the stack of the call.
#[derive(Default, FromPyObject)]
pub(super) struct Exception<'py>(
    pub(super) Option<Bound<'py, PyString>>,
    pub(super) Option<Bound<'py, PyString>>,
    pub(super) Option<Bound<'py, PyString>>,
    pub(super) Option<Bound<'py, PyString>>,
);

impl<'py> Record<'py> {
    /// Reads a record. `formatter` formats its body, if there is one; a stack is at most `longest` characters.
    ///
    /// # Errors
    /// Those of the program's own code: of a message's arguments, an attribute's `str()`, a formatter.
    pub(super) fn of(
        record: &Bound<'py, PyAny>,
        formatter: Option<&Bound<'py, PyAny>>,
        longest: usize,
    ) -> PyResult<Self> {
        let py = record.py();
        let (mut parts, mut found) = Parts::of(record)?;
        let python = parts.python;
        let body = match formatter {
            None => parts.message()?,
            Some(formatter) => formatter.call_method1(intern!(py, "format"), (record,))?,
        };
        let task = parts.set(TASK)?.map(|task| task.str()).transpose()?;
        let has_more = parts.set(EXC_INFO)?.is_some()
            || parts.set(EXC_TEXT)?.is_some()
            || parts.set(STACK_INFO)?.is_some();
        let exception = match has_more {
            false => Exception::default(),
            true => python.exception_of.bind(py).call1((record, formatter, longest))?.extract()?,
        };
        let (mut trace_id, mut span_id) = (None, None);
        if found.iter().any(|(name, _)| is_id(name)) {
            trace_id = take(&mut found, "trace_id").or_else(|| take(&mut found, "otelTraceID"));
            span_id = take(&mut found, "span_id").or_else(|| take(&mut found, "otelSpanID"));
        }
        if trace_id.is_none()
            && SPANS.load(Ordering::Relaxed)
            && let Some((trace, span)) = within(python.span.bind(py))?
        {
            (trace_id, span_id) = (Some(trace), Some(span));
        }
        let mut extra = Vec::with_capacity(found.len());
        for (name, value) in found {
            extra.push(Attribute::of(&name, value)?);
        }
        Ok(Record {
            severity: severity(parts.need(LEVEL)?.extract()?),
            level: parts.need(LEVEL_NAME)?.cast_into()?,
            body: body.cast_into()?,
            logger: parts.text(NAME)?,
            file: parts.text(PATH)?,
            line: parts.need(LINE)?.extract()?,
            function: parts.text(FUNCTION)?,
            thread: parts.need(THREAD)?.extract()?,
            thread_name: parts.text(THREAD_NAME)?,
            created: parts.need(CREATED)?.extract()?,
            trace_id,
            span_id,
            task,
            exception,
            extra,
        })
    }
}

/// The attributes of a record. Each is taken once.
struct Parts<'a, 'py> {
    record: &'a Bound<'py, PyAny>,
    python: &'static Python,
    its: [Option<Bound<'py, PyAny>>; COUNT],
}

impl<'a, 'py> Parts<'a, 'py> {
    /// Reads a record's attributes, and those that are from `extra`.
    fn of(record: &'a Bound<'py, PyAny>) -> PyResult<(Self, Pairs<'py>)> {
        let py = record.py();
        let python = Python::get(py)?;
        let all = record.getattr(intern!(py, "__dict__"))?.cast_into::<PyDict>()?;
        let is_usual = record.get_type().is(&python.log_record);
        let (its, more) = match items_of(&all, &python.usual) {
            Some(found) if is_usual => found,
            // A class of the program's own may compute its attributes.
            _ => {
                let mut its = [const { None }; COUNT];
                for (to, name) in its.iter_mut().zip(&python.read) {
                    *to = record.getattr_opt(name)?;
                }
                (its, all.iter().collect())
            }
        };
        let known = python.known.bind(py);
        let mut extra = Pairs::new();
        for (name, value) in more {
            if !known.contains(&name)? {
                extra.push((name, value));
            }
        }
        Ok((Parts { record, python, its }, extra))
    }

    /// Returns an attribute, or the error that there is none.
    fn need(&mut self, at: usize) -> PyResult<Bound<'py, PyAny>> {
        match self.its.get_mut(at).and_then(Option::take) {
            Some(value) => Ok(value),
            None => self.record.getattr(&self.python.read[at]),
        }
    }

    /// Returns an attribute that is not empty.
    fn set(&mut self, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.its.get_mut(at).and_then(Option::take) {
            Some(value) if !value.is_none() && value.is_truthy()? => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    fn text(&mut self, at: usize) -> PyResult<Option<Bound<'py, PyString>>> {
        let value = self.need(at)?;
        if value.is_none() { Ok(None) } else { Ok(Some(value.cast_into()?)) }
    }

    /// Returns what `getMessage` does, without the call if it is `LogRecord`'s own.
    fn message(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let name = intern!(self.record.py(), "getMessage");
        if !self.record.get_type().getattr(name)?.is(&self.python.get_message) {
            return self.record.call_method0(name);
        }
        let (text, args) = (self.need(MSG)?, self.need(ARGS)?);
        let text =
            if text.is_exact_instance_of::<PyString>() { text } else { text.str()?.into_any() };
        if args.is_none() || !args.is_truthy()? { Ok(text) } else { text.rem(args) }
    }
}

/// Returns whether an attribute may be a trace's or a span's id.
fn is_id(name: &Bound<'_, PyAny>) -> bool {
    let Ok(name) = name.cast::<PyString>() else { return false };
    matches!(name.to_str(), Ok("trace_id" | "otelTraceID" | "span_id" | "otelSpanID"))
}

/// Returns the trace and the span that the thread or task is in.
fn within(get: &Bound<'_, PyAny>) -> PyResult<Option<([u8; 16], [u8; 8])>> {
    let within = get.call0()?;
    if within.is_none() {
        return Ok(None);
    }
    let (trace, span): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = within.extract()?;
    Ok(trace.as_bytes().try_into().ok().zip(span.as_bytes().try_into().ok()))
}

/// Returns OpenTelemetry's number of a level, 1 to 24; 0 for ``NOTSET``.
fn severity(level: i64) -> u64 {
    if level < 10 {
        return u64::from(level > 0);
    }
    let ten = (level / 10).min(5);
    (4 * ten + 1 + (level - 10 * ten).min(3)).unsigned_abs()
}

/// Removes a trace's or span's id from the attributes; an invalid one stays.
fn take<const N: usize>(extra: &mut Pairs<'_>, name: &str) -> Option<[u8; N]> {
    let is_it =
        |(its, _): &(Bound<'_, PyAny>, _)| its.cast::<PyString>().is_ok_and(|its| its == name);
    let at = extra.iter().position(is_it)?;
    let (_, value) = extra.get(at)?;
    let found = match value.cast::<PyString>() {
        Ok(digits) => hex(digits.to_string_lossy().as_bytes()),
        Err(_) => value.cast::<PyBytes>().ok()?.as_bytes().try_into().ok(),
    };
    let found = found.filter(|id| *id != [0; N]);
    // "0" means that there is no span.
    let is_none = name.starts_with("otel") && value.cast::<PyString>().is_ok_and(|its| its == "0");
    if found.is_some() || is_none {
        extra.remove(at);
    }
    found
}

fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut id = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(pairs) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(id)
}
