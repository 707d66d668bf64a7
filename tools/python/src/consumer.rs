//! The consumer and the observer, as Python sees them.

use crate::batch::Batch;
use crate::errors;
use crate::kind::At;
use crate::producer::program;
use crate::reader::{Reader, Source};
use crate::wait::Timeout;
use perfring_consumer::{Count, Pace, Saved, Start};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// The base of `perfring.Consumer`; see `_native.pyi`.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct Consumer {
    reader: Arc<Reader>,
}

/// The base of `perfring.Observer`; see `_native.pyi`.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct Observer {
    reader: Arc<Reader>,
}

macro_rules! reading {
    ($class:ident, $name:literal) => {
        #[pymethods]
        impl $class {
            #[pyo3(signature = (timeout=Timeout::NOW))]
            fn read<'py>(
                &self,
                py: Python<'py>,
                timeout: Timeout,
            ) -> PyResult<Option<Bound<'py, PyAny>>> {
                self.reader.read(py, timeout)
            }

            #[pyo3(signature = (max=None, *, timeout=Timeout::NOW))]
            fn drain(
                &self,
                py: Python<'_>,
                max: Option<usize>,
                timeout: Timeout,
            ) -> PyResult<Batch> {
                self.reader.drain(py, max, timeout)
            }

            #[pyo3(signature = (timeout=Timeout::NEVER))]
            fn wait(&self, py: Python<'_>, timeout: Timeout) -> PyResult<bool> {
                self.reader.wait(py, timeout)
            }

            #[pyo3(signature = (timeout=Timeout::NEVER))]
            fn items(&self, timeout: Timeout) -> Items {
                Items { reader: Arc::clone(&self.reader), timeout }
            }

            fn __iter__(&self) -> Items {
                self.items(Timeout::NEVER)
            }

            #[getter]
            fn position(&self, py: Python<'_>) -> PyResult<u64> {
                self.reader.with(py, |source| source.position())
            }

            #[getter]
            fn unread(&self, py: Python<'_>) -> PyResult<u64> {
                self.reader.with(py, |source| source.fill().unread)
            }

            #[getter]
            fn lapped(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
                self.reader.lapped(py).map(pair)
            }

            #[getter]
            fn path(&self) -> String {
                self.reader.home().to_string()
            }

            #[getter]
            fn policy(&self) -> &'static str {
                self.reader.layout().policy.name()
            }

            #[getter]
            fn timed(&self) -> bool {
                self.reader.layout().time
            }

            #[getter]
            fn uuid(&self) -> String {
                self.reader.layout().uuid.iter().map(|byte| format!("{byte:02x}")).collect()
            }

            #[getter]
            fn closed(&self) -> bool {
                self.reader.is_closed()
            }

            fn close(&self) {
                self.reader.close();
            }

            fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
                slf.get().reader.with(py, |_| ())?;
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
                    self.path(),
                    self.policy(),
                    closed
                )
            }
        }

        // What dies without `close` must not wait for the last record of it to die.
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

fn pace(pace: &str) -> PyResult<Pace> {
    match pace {
        "adaptive" => Ok(Pace::Adaptive),
        "latency" => Ok(Pace::Latency),
        "throughput" => Ok(Pace::Throughput),
        other => Err(PyValueError::new_err(format!(
            "pace {other:?} is none: it is \"adaptive\", \"latency\" or \"throughput\""
        ))),
    }
}

#[pymethods]
impl Consumer {
    #[new]
    #[pyo3(signature = (path, *, name=None, pace="adaptive"))]
    fn new(py: Python<'_>, path: At, name: Option<&str>, pace: &str) -> PyResult<Self> {
        let pace = self::pace(pace)?;
        let name = name.map_or_else(|| program(py), |name| Ok(name.to_owned()))?;
        let mut consumer = perfring_consumer::Consumer::attach_as(path.0, &name)
            .map_err(|error| errors::attach(py, &error))?;
        consumer.set_pace(pace);
        Ok(Consumer { reader: Reader::new(Source::Consumer(consumer)) })
    }

    #[pyo3(signature = (max=None, *, timeout=Timeout::NOW))]
    fn pin(&self, py: Python<'_>, max: Option<usize>, timeout: Timeout) -> PyResult<Batch> {
        self.reader.pin(py, max, timeout)
    }

    #[getter]
    fn read_count(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.reader.with(py, |source| match source {
            Source::Consumer(consumer) => pair(consumer.read_count()),
            Source::Observer(_) => (0, 0),
        })
    }
}

/// Where an observer starts.
enum From {
    Oldest,
    Latest,
    At(Saved),
}

impl<'py> FromPyObject<'_, 'py> for From {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok((pos, records, bytes)) = given.extract::<(u64, u64, u64)>() {
            return Ok(From::At(Saved { pos, before: Count { records, bytes } }));
        }
        match given.extract::<&str>() {
            Ok("oldest") => Ok(From::Oldest),
            Ok("latest") => Ok(From::Latest),
            _ => Err(PyValueError::new_err(
                "an observer starts at \"oldest\", at \"latest\", or at what `saved` of another one \
                 was",
            )),
        }
    }
}

#[pymethods]
impl Observer {
    #[new]
    #[pyo3(signature = (path, start=From::Oldest, *, pace="adaptive"))]
    fn new(py: Python<'_>, path: At, start: From, pace: &str) -> PyResult<Self> {
        let pace = self::pace(pace)?;
        let start = match start {
            From::Oldest => Start::Oldest,
            From::Latest => Start::Latest,
            From::At(saved) => Start::At(saved),
        };
        let mut observer = perfring_consumer::Observer::open(path.0, start)
            .map_err(|error| errors::attach(py, &error))?;
        observer.set_pace(pace);
        Ok(Observer { reader: Reader::new(Source::Observer(observer)) })
    }

    #[getter]
    fn _saved(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        self.reader.with(py, |source| match source {
            Source::Observer(observer) => {
                let Saved { pos, before } = observer.saved();
                (pos, before.records, before.bytes)
            }
            Source::Consumer(_) => (0, 0, 0),
        })
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<crate::snapshot::Snapshot> {
        let taken = self.reader.with(py, |source| match source {
            Source::Observer(observer) => Some(observer.snapshot()),
            Source::Consumer(_) => None,
        })?;
        match taken {
            Some(Ok(taken)) => Ok(crate::snapshot::Snapshot::of(taken, self.path())),
            Some(Err(error)) => Err(errors::corrupt(py, error)),
            None => Err(errors::named(py, "PerfringError", "a consumer takes no snapshots")),
        }
    }
}

/// Items as they come.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Items {
    reader: Arc<Reader>,
    timeout: Timeout,
}

#[pymethods]
impl Items {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.reader.read(py, self.timeout)
    }
}
