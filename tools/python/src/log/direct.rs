//! A handler's `handle`, without a line of Python.

use super::LogSink;
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyWeakrefReference};

/// Writes log records as a `RingHandler` does of which no method is overridden, and without its lock: the ring has its own.
#[pyclass(frozen, module = "perfring._native", name = "_Direct")]
pub(crate) struct Direct {
    sink: Py<LogSink>,
    /// The handler's filters: with any, the handler does it.
    filters: Py<PyList>,
    formatter: Option<Py<PyAny>>,
    /// Weak: the handler has this.
    handler: Py<PyWeakrefReference>,
}

#[pymethods]
impl Direct {
    #[new]
    fn new(
        sink: Py<LogSink>,
        filters: Py<PyList>,
        formatter: Option<Py<PyAny>>,
        handler: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let handler = PyWeakrefReference::new(handler)?.unbind();
        Ok(Direct { sink, filters, formatter, handler })
    }

    /// Writes a record.
    #[pyo3(signature = (record, /))]
    fn handle(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<bool> {
        let formatter = self.formatter.as_ref().map(|formatter| formatter.bind(py));
        if self.filters.bind(py).is_empty() {
            match self.sink.get().emit_in_time(record, formatter) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
                // Nothing was written. The handler finds the same, and reports it.
                Err(_) => {}
            }
        }
        match self.handler.bind(py).upgrade() {
            Some(handler) => handler.call_method1(intern!(py, "_handle"), (record,))?.is_truthy(),
            None => Ok(false),
        }
    }
}
