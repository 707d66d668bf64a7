//! Records, as readers return them.

use crate::pins::Cell;
use crate::runs::Data;
use crate::types::{self, RecordType};
use perfring_consumer::Anchors;
use perfring_consumer::WriterId;
use perfring_producer::RecordType as Id;
use perfring_types::read::{Type, TypeTable};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::sync::Arc;

/// The source of records, which knows their types and the wall-clock time.
pub(crate) trait Origin: Send + Sync {
    /// Returns the type table, with `kind` in it if the ring has it.
    fn table(&self, py: Python<'_>, kind: Id) -> PyResult<Arc<TypeTable>>;

    fn anchors(&self, py: Python<'_>) -> PyResult<Anchors>;
}

/// A record's payload.
pub(crate) enum Body {
    /// In the ring.
    Cell(Arc<Cell>),
    /// In a batch.
    Part(Arc<Data>, Range<usize>),
    /// A copy.
    Own(Py<PyBytes>),
}

/// One record.
///
/// The buffer protocol exports its payload: ``record.view``,
/// ``numpy.frombuffer(record.view, ...)``, ``bytes(record)``. For a drop ring's consumer that is the
/// ring's memory, read-only: the space goes back to the producer when the record and its views and
/// arrays are dead.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct Record {
    pub(crate) origin: Arc<dyn Origin>,
    /// The position of its header in the stream.
    #[pyo3(get)]
    pub(crate) pos: u64,
    /// The number of its type.
    #[pyo3(get, name = "type")]
    pub(crate) kind: u32,
    /// When it was reserved, in ns of ``CLOCK_BOOTTIME``; ``None`` if the ring has no timestamps.
    #[pyo3(get)]
    pub(crate) time: Option<u64>,
    pub(crate) writer: Option<WriterId>,
    pub(crate) body: Body,
}

impl Record {
    /// Calls `f`, which does not run Python code, with the payload.
    pub(crate) fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
        Ok(match &self.body {
            Body::Cell(cell) => {
                cell.check(py)?;
                cell.with(f)
            }
            Body::Part(data, range) => {
                data.check(py)?;
                f(data.part(range))
            }
            Body::Own(bytes) => f(bytes.as_bytes(py)),
        })
    }

    /// Returns the bytes, which stay where they are for as long as `self` is alive.
    pub(crate) fn export(&self, py: Python<'_>) -> PyResult<(*const u8, usize)> {
        Ok(match &self.body {
            Body::Cell(cell) => {
                cell.check(py)?;
                cell.export()
            }
            Body::Part(data, range) => {
                data.check(py)?;
                (data.part(range).as_ptr(), range.len())
            }
            Body::Own(bytes) => (bytes.as_bytes(py).as_ptr(), bytes.as_bytes(py).len()),
        })
    }

    pub(crate) fn with_type<R>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(Option<&Type>) -> R,
    ) -> PyResult<R> {
        let Some(kind) = Id::new(self.kind) else { return Ok(f(None)) };
        let table = self.origin.table(py, kind)?;
        Ok(f(table.get(kind)))
    }
}

#[pymethods]
impl Record {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, <[u8]>::len)
    }

    /// Return a copy of the payload.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match &self.body {
            Body::Own(bytes) => Ok(bytes.bind(py).clone()),
            _ => self.with(py, |bytes| PyBytes::new(py, bytes)),
        }
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.tobytes(py)
    }

    /// The payload, read-only, without a copy.
    #[getter]
    fn view<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pyo3::types::PyMemoryView::from(slf.as_any())?.into_any())
    }

    /// The name of its type, if the type table has it.
    #[getter]
    fn type_name(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with_type(py, |kind| kind.map(|kind| kind.name.to_string()))
    }

    /// Its type, if the type table has it.
    #[getter]
    fn record_type(&self, py: Python<'_>) -> PyResult<Option<RecordType>> {
        let Some(id) = Id::new(self.kind) else { return Ok(None) };
        Ok(RecordType::find(&self.origin.table(py, id)?, id))
    }

    /// The value, decoded with the ring's type table: a ``dict`` of its fields, text, or another
    /// value according to its type. ``bytes``, if the table does not have its type.
    ///
    /// Raises:
    ///     BadType: The payload does not match the type.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let id = Id::new(self.kind).unwrap_or(Id::BYTES);
        let table = self.origin.table(py, id)?;
        match table.get(id) {
            // Decodes a copy, which does not change meanwhile; and no lock is held while objects
            // are made.
            Some(kind) => types::decode(py, kind, &self.with(py, <[u8]>::to_vec)?),
            None => Ok(self.tobytes(py)?.into_any().unbind()),
        }
    }

    /// When it was reserved, in ns since 1970; ``None`` if the ring has no timestamps.
    #[getter]
    fn wall(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let Some(time) = self.time else { return Ok(None) };
        Ok(self.origin.anchors(py)?.wall(self.pos, time))
    }

    /// The process that wrote it, by its number in its own pid namespace; ``None`` in a ring whose
    /// records do not say.
    #[getter]
    fn pid(&self) -> Option<u32> {
        self.writer.map(|writer| writer.pid.get())
    }

    /// The thread that wrote it, likewise.
    #[getter]
    fn tid(&self) -> Option<u32> {
        self.writer.map(|writer| writer.tid)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = match self.type_name(py)? {
            Some(name) => format!("'{name}'"),
            None => self.kind.to_string(),
        };
        let time = self.time.map(|time| format!(", time={time}")).unwrap_or_default();
        let len = self.__len__(py)?;
        Ok(format!("<perfring.Record type={name}, pos={}{time}, {len} bytes>", self.pos))
    }
}
