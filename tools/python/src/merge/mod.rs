//! The native half of `perfring.Merge`: many rings in the order of time.

mod rings;

use crate::errors;
use crate::fork::Process;
use crate::kind::{self, Dir, choice, program};
use crate::locks::lock;
use crate::lost::Lost;
use crate::record::{Body, Record};
use crate::wait::{self, Timeout};
use perfring_consumer::Start;
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyList};
use rings::{Event, Got, Rings, What};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The items that one `drain` returns by default.
const BATCH: usize = 1024;

/// An item of one ring among those of all rings, in the order of time.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct Merged {
    /// The ring's name in the directory.
    #[pyo3(get)]
    ring: String,
    /// A `Record`, a `Lost`, a `RingGone` or a `RingFailed`.
    #[pyo3(get)]
    item: Py<PyAny>,
    /// Its time, in ns of ``CLOCK_BOOTTIME``. For a loss, that of the record before it in its ring,
    /// or 0; for a `RingGone` or `RingFailed`, 0.
    #[pyo3(get)]
    time: u64,
    /// By how many ns it is too late: a later item was returned before it.
    #[pyo3(get)]
    late: u64,
}

#[pymethods]
impl Merged {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("ring", "item")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let item = self.item.bind(py).repr()?;
        let late = if self.late == 0 { String::new() } else { format!(", late={}", self.late) };
        Ok(format!("<perfring.Merged ring={:?}, {item}{late}>", self.ring))
    }
}

/// A ring was read to its end, and its file was removed.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct RingGone {
    /// Its path.
    #[pyo3(get)]
    path: String,
    /// The ring's id.
    #[pyo3(get)]
    uuid: String,
}

#[pymethods]
impl RingGone {
    #[classattr]
    fn __match_args__() -> (&'static str,) {
        ("path",)
    }

    fn __repr__(&self) -> String {
        format!("<perfring.RingGone {}>", self.path)
    }
}

/// A file in the directory is not read.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct RingFailed {
    /// Its path.
    #[pyo3(get)]
    path: String,
    /// Why, as a message.
    #[pyo3(get)]
    why: String,
    /// Whether it is tried again, each second: another process has it, or permission is missing.
    #[pyo3(get)]
    retried: bool,
}

#[pymethods]
impl RingFailed {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("path", "why")
    }

    fn __repr__(&self) -> String {
        format!("<perfring.RingFailed {}: {}>", self.path, self.why)
    }
}

/// The longest time for which a waiting thread keeps other threads from the rings.
const TURN: Duration = Duration::from_millis(20);

/// The native half of `perfring.Merge`.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct Merge {
    rings: Mutex<Option<Rings>>,
    process: Process,
    dir: PathBuf,
    observes: bool,
}

impl Merge {
    /// Locks the rings, in a thread that has the interpreter's lock.
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Rings>>> {
        self.process.check(py)?;
        Ok(self.rings.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `f` with the rings. An error becomes an exception after they are unlocked:
    /// constructing one runs Python code, which may use them.
    fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Rings) -> R) -> PyResult<R> {
        let done = self.lock(py)?.as_mut().map(f);
        done.ok_or_else(|| self.closed(py))
    }

    fn closed(&self, py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", format!("the merge of {} was closed", self.dir.display()))
    }

    fn next<'py>(&self, py: Python<'py>, timeout: Timeout) -> PyResult<Option<Bound<'py, Merged>>> {
        let got = self.with(py, |rings| {
            rings.release();
            if rings.merge.is_due() {
                py.detach(|| rings.merge.wait(Duration::ZERO));
            }
            rings.take()
        })?;
        let got = match got {
            None if !timeout.is_now() => self.wait_for(py, timeout, Rings::wait)?,
            got => got,
        };
        got.map(|got| give(py, got)).transpose()
    }

    fn end(&self, py: Python<'_>, last: impl FnOnce(&mut Rings)) {
        // A forked child has nothing to release.
        if let Ok(mut rings) = self.lock(py)
            && let Some(mut rings) = rings.take()
        {
            last(&mut rings);
        }
    }

    /// Waits for what `attempt` returns.
    fn wait_for<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Timeout,
        mut attempt: impl FnMut(&mut Rings, Duration) -> Option<T> + Send,
    ) -> PyResult<Option<T>> {
        self.process.check(py)?;
        let got = wait::slices(py, timeout.begin(), |slice| {
            let mut rings = lock(&self.rings);
            match rings.as_mut() {
                Some(rings) => attempt(rings, slice.min(TURN)).map(Some),
                None => Some(None),
            }
        })?;
        match got {
            Some(None) => Err(self.closed(py)),
            got => Ok(got.flatten()),
        }
    }
}

#[pymethods]
impl Merge {
    #[new]
    #[pyo3(signature = (dir, delay=0.1, *, observe=false, start="oldest", name=None))]
    fn new(
        py: Python<'_>,
        dir: Dir,
        delay: f64,
        observe: bool,
        start: &str,
        name: Option<&str>,
    ) -> PyResult<Self> {
        let delay = Duration::try_from_secs_f64(delay).map_err(|_| {
            PyValueError::new_err(format!("a delay is a number of seconds from 0 on, not {delay}"))
        })?;
        let start = match (start, observe) {
            ("oldest", false) => None,
            ("oldest", true) => Some(Start::Oldest),
            ("latest", true) => Some(Start::Latest),
            ("latest", false) => {
                return Err(PyValueError::new_err(
                    "a consumer reads everything that was not read: to start at the latest, observe",
                ));
            }
            (other, _) => return Err(choice("start", other, "\"oldest\" or \"latest\"")),
        };
        let name = name.map_or_else(|| program(py), |name| Ok(name.to_owned()))?;
        let dir = std::path::absolute(dir.0)?;
        let rings = Rings::new(&dir, delay, start, name)
            .map_err(|why| errors::named(py, "PerfringError", why))?;
        let observes = observe;
        Ok(Merge { rings: Mutex::new(Some(rings)), process: Process::this(), dir, observes })
    }

    /// Return the next item whose time has come, or ``None`` if there is none in so many seconds.
    ///
    /// Releases what was returned before.
    #[pyo3(signature = (timeout=Timeout::NOW), text_signature = "($self, timeout=0.0)")]
    fn read<'py>(&self, py: Python<'py>, timeout: Timeout) -> PyResult<Option<Bound<'py, Merged>>> {
        self.next(py, timeout)
    }

    /// Return up to ``max`` items whose time has come; waits for the first one only.
    ///
    /// Releases what was returned before.
    #[pyo3(signature = (max=None, *, timeout=Timeout::NOW), text_signature = "($self, max=None, *, timeout=0.0)")]
    fn drain<'py>(
        &self,
        py: Python<'py>,
        max: Option<usize>,
        timeout: Timeout,
    ) -> PyResult<Bound<'py, PyList>> {
        let items = PyList::empty(py);
        let max = max.unwrap_or(BATCH);
        if max == 0 {
            return Ok(items);
        }
        let Some(first) = self.next(py, timeout)? else { return Ok(items) };
        items.append(first)?;
        while items.len() < max
            && let Some(got) = self.with(py, Rings::take)?
        {
            items.append(give(py, got)?)?;
        }
        Ok(items)
    }

    /// Release everything that was returned so far: it does not come again.
    ///
    /// The next read does so as well. With ``observe`` this does nothing.
    fn acknowledge(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Rings::release)
    }

    /// Wait until there is an item whose time has come, for at most ``timeout`` seconds. Returns
    /// whether there is one. Releases nothing.
    #[pyo3(signature = (timeout=Timeout::NEVER), text_signature = "($self, timeout=None)")]
    fn wait(&self, py: Python<'_>, timeout: Timeout) -> PyResult<bool> {
        Ok(self.wait_for(py, timeout, Rings::expect)?.is_some())
    }

    /// Iterate over items as they come, until there is none for so many seconds; ``None``: for
    /// ever.
    #[pyo3(signature = (timeout=Timeout::NEVER), text_signature = "($self, timeout=None)")]
    fn items(slf: Py<Self>, timeout: Timeout) -> MergeItems {
        MergeItems { merge: slf, timeout }
    }

    fn __iter__(slf: Py<Self>) -> MergeItems {
        MergeItems { merge: slf, timeout: Timeout::NEVER }
    }

    /// The names of the rings that are read now.
    #[getter]
    fn rings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |rings| rings.names())
    }

    /// Its figures, as `MergeFigures`: ``late`` and ``late_most_ns`` of records that came too late for their position,
    /// ``polls`` of rings, and how often it ``hurried``, because a ring was half full.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
        let figures = self.with(py, |rings| rings.merge.figures())?;
        let dict = pyo3::types::PyDict::new(py);
        dict.set_item("late", figures.late)?;
        dict.set_item("late_most_ns", figures.late_most)?;
        dict.set_item("polls", figures.polls)?;
        dict.set_item("hurried", figures.hurried)?;
        Ok(dict)
    }

    /// The directory.
    #[getter]
    fn dir(&self) -> PathBuf {
        self.dir.clone()
    }

    /// Whether `close` was called.
    #[getter(closed)]
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.lock(py).is_ok_and(|rings| rings.is_none())
    }

    /// Release what was returned, and detach from all rings.
    fn close(&self, py: Python<'_>) {
        self.end(py, Rings::release);
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        if slf.get().is_closed(py) {
            return Err(slf.get().closed(py));
        }
        Ok(slf)
    }

    /// Closes it. After an exception, what was returned last is not released: it comes again.
    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) {
        match kind {
            None => self.close(py),
            Some(_) => self.end(py, |_| {}),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let verb = if self.observes { "observes" } else { "consumes" };
        let rings = match self.rings(py) {
            Ok(names) => format!("{} rings", names.len()),
            Err(_) => "closed".to_owned(),
        };
        format!("<perfring.Merge {verb} {}: {rings}>", self.dir.display())
    }
}

/// An iterator over items.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct MergeItems {
    merge: Py<Merge>,
    timeout: Timeout,
}

#[pymethods]
impl MergeItems {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.merge)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Merged>>> {
        self.merge.get().next(py, self.timeout)
    }
}

fn give<'py>(py: Python<'py>, got: Got) -> PyResult<Bound<'py, Merged>> {
    let Got { ring, what, time, late } = got;
    let item = match what {
        What::Record { origin, pos, kind, timestamp, writer, bytes } => {
            let bytes = PyBytes::new(py, &bytes).unbind();
            let body = Body::Own(bytes);
            Bound::new(py, Record { origin, pos, kind, time: timestamp, writer, body })?.into_any()
        }
        What::Lost(lost) => Bound::new(py, Lost::new(&lost))?.into_any(),
        What::Event(Event::Gone { path, uuid }) => {
            Bound::new(py, RingGone { path, uuid: kind::uuid(&uuid) })?.into_any()
        }
        What::Event(Event::Failed { path, why, retried }) => {
            Bound::new(py, RingFailed { path, why, retried })?.into_any()
        }
    };
    Bound::new(py, Merged { ring: ring.to_string(), item: item.unbind(), time, late })
}
