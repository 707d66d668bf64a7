//! The native halves of the consumer and the observer.

use crate::batch::Batch;
use crate::errors;
use crate::kind::{self, At, choice, program, shown};
use crate::memory::trust_of;
use crate::reader::Reader;
use crate::snapshot::Snapshot;
use crate::source::Source;
use crate::types::TypeTable;
use crate::wait::{self, Timeout};
use perfring_consumer::{
    Acknowledge, AttachError, ConsumerOptions, ObserverOptions, Start, WaitStrategy,
    advanced::Saved,
    stat::{Count, Refused},
};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// The native half of `perfring.Consumer`.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct Consumer {
    reader: Arc<Reader>,
}

/// The native half of `perfring.Observer`.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct Observer {
    reader: Arc<Reader>,
}

macro_rules! reading {
    ($class:ident, $name:literal) => {
        #[pymethods]
        impl $class {
            /// Return the next item, a `Record` or a `Lost`.
            ///
            /// Returns ``None`` if there is none within ``timeout`` seconds; a timeout of ``None``
            /// waits for ever. Other threads run meanwhile, and Ctrl-C is answered.
            ///
            /// Raises:
            ///     Corrupt: The ring holds what no producer writes; again at every call.
            ///     Truncated: The ring's file was truncated.
            ///     RingRemoved: The ring's file was removed or replaced, and everything in it was
            ///         read. A read that waits finds it, within a second.
            ///     Closed: The reader was closed.
            #[pyo3(signature = (timeout=Timeout::NOW))]
            #[pyo3(text_signature = "($self, timeout=0.0)")]
            fn read<'py>(
                &self,
                py: Python<'py>,
                timeout: Timeout,
            ) -> PyResult<Option<Bound<'py, PyAny>>> {
                self.reader.read(py, timeout)
            }

            /// Return everything that the ring holds now, at most ``max`` records, as a `Batch` of
            /// copies.
            ///
            /// Waits for the first item as `read` does. The batch is empty if none came.
            #[pyo3(signature = (max=None, *, timeout=Timeout::NOW))]
            #[pyo3(text_signature = "($self, max=None, *, timeout=0.0)")]
            fn drain(
                &self,
                py: Python<'_>,
                max: Option<usize>,
                timeout: Timeout,
            ) -> PyResult<Batch> {
                self.reader.drain(py, max, timeout)
            }

            /// Wait until there may be something to read, for at most ``timeout`` seconds.
            ///
            /// Copies a consumer's records that have no views first, so that the producer gets
            /// their space.
            ///
            /// Returns:
            ///     Whether there may be something.
            #[pyo3(signature = (timeout=Timeout::NEVER))]
            #[pyo3(text_signature = "($self, timeout=None)")]
            fn wait(&self, py: Python<'_>, timeout: Timeout) -> PyResult<bool> {
                self.reader.wait(py, timeout.begin())
            }

            /// Iterate over items as they come.
            ///
            /// Ends when none came for ``timeout`` seconds: with ``None`` never, with 0 as soon as
            /// everything is read.
            #[pyo3(signature = (timeout=Timeout::NEVER))]
            #[pyo3(text_signature = "($self, timeout=None)")]
            fn items(slf: &Bound<'_, Self>, timeout: Timeout) -> Items {
                let reader = Arc::clone(&slf.get().reader);
                Items { reader, timeout, _of: slf.clone().into_any().unbind() }
            }

            fn __iter__(slf: &Bound<'_, Self>) -> Items {
                Self::items(slf, Timeout::NEVER)
            }

            /// The position of the next record.
            #[getter]
            fn position(&self, py: Python<'_>) -> PyResult<u64> {
                self.reader.pins.with(py, |source| source.position())
            }

            /// The bytes that are published and not read yet, headers included.
            #[getter]
            fn unread(&self, py: Python<'_>) -> PyResult<u64> {
                self.reader.pins.with(py, |source| source.fill().unread)
            }

            /// The records, and bytes, that were overwritten before they were read.
            #[getter]
            fn lapped(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
                self.reader.pins.with(py, Source::lapped).map(pair)
            }

            /// The ring's type table as it is now.
            #[getter]
            fn types(&self, py: Python<'_>) -> PyResult<TypeTable> {
                self.reader.types(py).map(|table| TypeTable { table })
            }

            /// The ring's path.
            #[getter]
            fn path(&self) -> OsString {
                shown(&self.reader.pins.location)
            }

            /// ``"drop"`` or ``"overwrite"``.
            #[getter]
            fn policy(&self) -> &'static str {
                self.reader.layout.policy.name()
            }

            /// Whether records have timestamps.
            #[getter]
            fn timed(&self) -> bool {
                self.reader.layout.time
            }

            /// The ring's own id, as `uuid.UUID` writes it.
            #[getter]
            fn uuid(&self) -> String {
                kind::uuid(&self.reader.layout.uuid)
            }

            /// Whether `close` was called.
            #[getter]
            fn closed(&self) -> bool {
                self.reader.pins.is_closed()
            }

            /// Detach from the ring. A second call does nothing.
            ///
            /// Records and views that still exist stay valid. The ring is unmapped, and a
            /// consumer's seat is free, once the last of them is dead.
            fn close(&self) {
                self.reader.close();
            }

            fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
                slf.get().reader.pins.with(py, |_| ())?;
                Ok(slf)
            }

            #[pyo3(signature = (*_exc))]
            fn __exit__(&self, _exc: &Bound<'_, PyTuple>) {
                self.close();
            }

            fn __repr__(&self) -> String {
                let closed = if self.closed() { ", closed" } else { "" };
                format!(
                    concat!("<perfring.", $name, " {} ({}{})>"),
                    self.reader.pins.location,
                    self.policy(),
                    closed
                )
            }
        }

        // A reader that is dropped without `close` does not wait for its last record to die.
        impl Drop for $class {
            fn drop(&mut self) {
                self.reader.close();
            }
        }
    };
}

reading!(Consumer, "Consumer");
reading!(Observer, "Observer");

fn pair(count: Count) -> (u64, u64) {
    (count.records, count.bytes)
}

fn wait_strategy(wait_strategy: &str) -> PyResult<WaitStrategy> {
    match wait_strategy {
        "adaptive" => Ok(WaitStrategy::Adaptive),
        "latency" => Ok(WaitStrategy::Latency),
        "throughput" => Ok(WaitStrategy::Throughput),
        other => Err(choice("wait_strategy", other, "\"adaptive\", \"latency\" or \"throughput\"")),
    }
}

fn acknowledge(acknowledge: &str) -> PyResult<Acknowledge> {
    match acknowledge {
        "at_next_read" => Ok(Acknowledge::AtNextRead),
        "explicit" => Ok(Acknowledge::Explicit),
        other => Err(choice("acknowledge", other, "\"at_next_read\" or \"explicit\"")),
    }
}

#[pymethods]
impl Consumer {
    #[new]
    #[pyo3(
        signature = (path, *, name=None, timeout=Timeout::NOW, wait_strategy="adaptive",
            trust="auto", acknowledge="at_next_read"),
        text_signature = "(path, *, name=None, timeout=0.0, wait_strategy='adaptive', \
            trust='auto', acknowledge='at_next_read')"
    )]
    fn new(
        py: Python<'_>,
        path: At,
        name: Option<&str>,
        timeout: Timeout,
        wait_strategy: &str,
        trust: &str,
        acknowledge: &str,
    ) -> PyResult<Self> {
        let options = ConsumerOptions {
            trust: trust_of(trust)?,
            wait: self::wait_strategy(wait_strategy)?,
            acknowledge: self::acknowledge(acknowledge)?,
            ..ConsumerOptions::named(name.map_or_else(|| program(py), |name| Ok(name.to_owned()))?)
        };
        let attach = |slice| {
            match perfring_consumer::Consumer::attach_when_there(&path.0, &options, slice) {
                // Between the slices, signals are checked.
                Err(AttachError::NotFound { .. }) if !slice.is_zero() => None,
                attached => Some(attached),
            }
        };
        let attached = match timeout.is_now() {
            true => attach(Duration::ZERO),
            false => wait::slices(py, timeout.begin(), attach)?,
        };
        let missing = || {
            let location = path.0.clone();
            Err(AttachError::NotFound { location, leads_to: None, holder: None })
        };
        let consumer =
            attached.unwrap_or_else(missing).map_err(|error| errors::attach(py, &error))?;
        let source = Source::Consumer(consumer);
        Ok(Consumer { reader: Reader::new(source, options.acknowledge) })
    }

    /// Release everything that was returned so far: it does not come again.
    ///
    /// With ``acknowledge="explicit"`` nothing else releases. The space of a record that a view
    /// still uses goes back to the producer once the view is dead, too.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "ack")
    ///     >>> producer.publish(b"one"), producer.publish(b"two")
    ///     (True, True)
    ///     >>> with perfring.Consumer(tmp / "ack", acknowledge="explicit") as consumer:
    ///     ...     delivered = bytes(consumer.read())
    ///     ...     consumer.acknowledge()  # only now, once it is delivered
    ///     ...     second = bytes(consumer.read())  # and then the process is killed
    ///     >>> with perfring.Consumer(tmp / "ack", acknowledge="explicit") as consumer:
    ///     ...     bytes(consumer.read())  # it comes again
    ///     b'two'
    fn acknowledge(&self, py: Python<'_>) -> PyResult<()> {
        self.reader.pins.acknowledge(py)
    }

    /// Return everything that a drop ring holds now as a `Batch` of its memory, without a copy.
    ///
    /// The records stay in the ring, and keep their space, until the batch and its arrays and views
    /// are dead. A record that is too long for the data area (`aux_size` of `Producer.create`) is
    /// returned as a copy, in a separate batch.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "pin")
    ///     >>> producer.publish(b"12345678")
    ///     True
    ///     >>> batch = perfring.Consumer(tmp / "pin").pin()
    ///     >>> batch[0].view[0]
    ///     49
    #[pyo3(signature = (max=None, *, timeout=Timeout::NOW))]
    #[pyo3(text_signature = "($self, max=None, *, timeout=0.0)")]
    fn pin(&self, py: Python<'_>, max: Option<usize>, timeout: Timeout) -> PyResult<Batch> {
        self.reader.pin(py, max, timeout)
    }

    /// The records, and bytes, read since the ring was created, by this consumer and its
    /// predecessors.
    #[getter]
    fn read_count(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.reader.pins.with(py, |source| match source {
            Source::Consumer(consumer) => pair(consumer.read_count()),
            Source::Observer(_) => (0, 0),
        })
    }
}

/// The position at which an observer starts.
struct From(Start);

/// Returns the position that a tuple is, with or without losses by cause.
fn saved(given: &Borrowed<'_, '_, PyAny>) -> Option<Saved> {
    if let Ok((pos, records, bytes)) = given.extract() {
        return Some(Saved { pos, before: Count { records, bytes }, ..Saved::default() });
    }
    let (pos, records, bytes, told) = given.extract::<(u64, u64, u64, Vec<(u64, u64)>)>().ok()?;
    let count = |(records, bytes)| Count { records, bytes };
    let told = match told[..] {
        [] => Refused::default(),
        [full, too_large, contended, pending] => Refused {
            full: count(full),
            too_large: count(too_large),
            contended: count(contended),
            pending: count(pending),
        },
        _ => return None,
    };
    Some(Saved { pos, before: count((records, bytes)), told })
}

impl<'py> FromPyObject<'_, 'py> for From {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Some(saved) = saved(&given) {
            return Ok(From(Start::At(saved)));
        }
        match given.extract::<&str>() {
            Ok("oldest") => Ok(From(Start::Oldest)),
            Ok("latest") => Ok(From(Start::Latest)),
            _ => Err(PyValueError::new_err(
                "an observer starts at \"oldest\", at \"latest\", or at the `saved` position of \
                 another one",
            )),
        }
    }
}

#[pymethods]
impl Observer {
    #[new]
    #[pyo3(signature = (path, start=From(Start::Oldest), *, wait_strategy="adaptive"))]
    #[pyo3(text_signature = "(path, start='oldest', *, wait_strategy='adaptive')")]
    fn new(py: Python<'_>, path: At, start: From, wait_strategy: &str) -> PyResult<Self> {
        let wait_strategy = self::wait_strategy(wait_strategy)?;
        let options =
            ObserverOptions { start: start.0, wait: wait_strategy, ..ObserverOptions::default() };
        let observer = perfring_consumer::Observer::attach_with(path.0, &options)
            .map_err(|error| errors::attach(py, &error))?;
        Ok(Observer { reader: Reader::new(Source::Observer(observer), Acknowledge::AtNextRead) })
    }

    #[getter]
    fn _saved<'py>(&self, py: Python<'py>) -> PyResult<(u64, u64, u64, Bound<'py, PyTuple>)> {
        let Saved { pos, before, told } = self.reader.pins.with(py, |source| match source {
            Source::Observer(observer) => observer.saved(),
            Source::Consumer(_) => Saved::default(),
        })?;
        let told = told.by_cause().map(|(_, count)| (count.records, count.bytes));
        Ok((pos, before.records, before.bytes, PyTuple::new(py, told)?))
    }

    /// Return a copy of everything intact, while producers run at full speed.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let pins = &self.reader.pins;
        let taken = pins.with_source(py, |source| match source {
            Source::Observer(observer) => observer.snapshot().map(Some),
            Source::Consumer(_) => Ok(None),
        })?;
        match taken {
            Some(taken) => Ok(Snapshot::of(taken, pins.location.clone())),
            None => Err(errors::named(py, "PerfringError", "a consumer takes no snapshots")),
        }
    }
}

/// An iterator over items.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Items {
    reader: Arc<Reader>,
    timeout: Timeout,
    /// Keeps the reader, which is closed when it is dropped.
    _of: Py<PyAny>,
}

#[pymethods]
impl Items {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self._of)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.reader.read(py, self.timeout)
    }
}
