//! Many records in one object.

use crate::locks::lock;
use crate::lost::Lost;
use crate::record::{Body, Origin, Record};
use crate::runs::Data;
use crate::types::{RecordType, TypeTable};
use perfring_consumer::WriterId;
use perfring_producer::RecordType as Id;
use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PySlice};
use std::sync::{Arc, Mutex};

/// Many records in one object, with the losses between them.
///
/// ``len(batch)`` and ``batch[n]`` count records only; iteration returns `Lost` items as well, in
/// order. The buffer protocol exports the payloads, one after the other, read-only.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct Batch {
    origin: Arc<dyn Origin>,
    pub(crate) data: Arc<Data>,
}

impl Batch {
    pub(crate) fn new(origin: Arc<dyn Origin>, data: Data) -> Self {
        Batch { origin, data: Arc::new(data) }
    }

    /// Returns the payloads, one after the other, which stay for as long as `self` is alive.
    pub(crate) fn export(&self) -> PyResult<&[u8]> {
        if !self.data.is_pinned() {
            return Ok(self.data.bytes());
        }
        if self.data.len() == 0 {
            return Ok(&[]);
        }
        Err(PyBufferError::new_err(
            "a pinned batch's payloads are in the ring, with headers between them: use numpy(), \
             its records one by one, or drain() instead of pin()",
        ))
    }

    fn item(&self, nth: usize) -> Option<Record> {
        let place = self.data.place(nth)?;
        let body = Body::Part(Arc::clone(&self.data), place.range);
        let time = self.data.times.as_ref().and_then(|times| times.get(nth).copied());
        let writer = self.data.writers.as_ref().and_then(|writers| writers.get(nth).copied());
        let writer = writer.and_then(WriterId::from_word);
        let origin = Arc::clone(&self.origin);
        Some(Record { origin, pos: place.pos, kind: place.kind, time, writer, body })
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.data.len()
    }

    /// Returns a record, or for a slice a list of records.
    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, len) = (index.py(), self.data.len());
        if let Ok(slice) = index.cast::<PySlice>() {
            let places = slice.indices(len as isize)?;
            let nths = (0..places.slicelength as isize).map(|n| places.start + n * places.step);
            let items = nths.filter_map(|nth| self.item(usize::try_from(nth).ok()?));
            return Ok(PyList::new(py, items.collect::<Vec<_>>())?.into_any());
        }
        let index: isize = index.extract()?;
        let nth = if index < 0 { index + len as isize } else { index };
        let item = usize::try_from(nth).ok().and_then(|nth| self.item(nth));
        let item = item.ok_or_else(|| {
            PyIndexError::new_err(format!("there is no record {index} in a batch of {len}"))
        })?;
        Ok(Bound::new(py, item)?.into_any())
    }

    fn __iter__(slf: &Bound<'_, Self>) -> Items {
        Items { batch: slf.clone().unbind(), next: Mutex::new((0, 0)) }
    }

    /// The losses, in order.
    #[getter]
    fn lost(&self) -> Vec<Lost> {
        self.data.lost.iter().map(|(_, lost)| *lost).collect()
    }

    /// `(type, length, first, count, offset, stride)` of each run, for arrays.
    #[getter]
    fn _runs(&self) -> Vec<(u32, usize, usize, usize, usize, usize)> {
        self.data.runs()
    }

    /// The bytes of the batch, including headers in a pinned one; `_runs` says where payloads are.
    #[getter]
    fn _span(slf: &Bound<'_, Self>) -> PyResult<Span> {
        slf.get().data.check(slf.py())?;
        Ok(Span { batch: slf.clone().unbind() })
    }

    /// Whether the records are in the ring and keep their space.
    #[getter]
    fn pinned(&self) -> bool {
        self.data.is_pinned()
    }

    /// Whether its records have timestamps.
    #[getter]
    fn timed(&self) -> bool {
        self.data.times.is_some()
    }

    /// Native 64-bit words: timestamps.
    fn _times(&self) -> Vec<u8> {
        words(self.data.times.as_deref().unwrap_or_default().iter().copied())
    }

    /// Whether its records say who wrote them.
    #[getter]
    fn sample_id(&self) -> bool {
        self.data.writers.is_some()
    }

    /// Native 32-bit words in pairs: pid, tid.
    fn _writers(&self) -> Vec<u8> {
        words(self.data.writers.as_deref().unwrap_or_default().iter().copied())
    }

    /// Native 64-bit words: positions.
    fn _positions(&self) -> Vec<u8> {
        words(self.data.places().map(|place| place.pos))
    }

    /// Native 32-bit words: types.
    fn _types(&self) -> Vec<u8> {
        self.data.places().flat_map(|place| place.kind.to_ne_bytes()).collect()
    }

    /// Native 64-bit words: the offset of each payload, and the end of the last one.
    fn _offsets(&self) -> Vec<u8> {
        let end = self.data.len().checked_sub(1).and_then(|last| self.data.place(last));
        let starts = self.data.places().map(|place| place.range.start);
        words(starts.chain([end.map_or(0, |last| last.range.end)]).map(|at| at as u64))
    }

    /// Returns the type of this number, if the ring has it.
    fn _type_of(&self, py: Python<'_>, number: u32) -> PyResult<Option<RecordType>> {
        let Some(id) = Id::new(number) else { return Ok(None) };
        Ok(RecordType::find(&self.origin.table(py, id)?, id))
    }

    /// The ring's types.
    #[getter]
    fn _table(&self, py: Python<'_>) -> PyResult<TypeTable> {
        Ok(TypeTable { table: self.origin.table(py, Id::BYTES)? })
    }

    /// Return a structured array of the records of one type, read-only.
    ///
    /// Makes no copy if the records are contiguous: then the array keeps them alive, and the space
    /// of a pinned batch as well.
    ///
    /// Args:
    ///     type: A name, a number, a `RecordType`, a class made by `record`, or a numpy dtype,
    ///         which applies to all records of the batch. Not needed if there is one type only.
    ///
    /// Raises:
    ///     BadType: The ring has no such type, its fields have no fixed offsets, or a record has
    ///         another length.
    #[pyo3(signature = (r#type=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        r#type: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match plain(slf, r#type)? {
            Some(array) => Ok(array),
            None => arrays(slf.py())?.call_method1(intern!(slf.py(), "numpy"), (slf, r#type)),
        }
    }

    /// Return a ``pyarrow.RecordBatch``.
    ///
    /// For one plain type it has ``pos``, ``time`` and a column for each field; for several types
    /// ``pos``, ``time``, ``type``, ``type_name`` and ``payload``, without a copy.
    ///
    /// ``pos`` is the position in the stream, ``time`` the timestamp in ns, if the ring has
    /// timestamps. A field of such a name becomes ``field.pos``, ``field.time``. Enumerations
    /// become dictionaries of their labels, 128-bit integers decimal digits.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays(slf.py())?.call_method1("to_arrow", (slf,))
    }

    /// Return a ``pandas.DataFrame`` with the columns of `to_arrow`; needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays(slf.py())?.call_method1("to_pandas", (slf,))
    }

    /// Implements Arrow's C data interface: ``pyarrow.record_batch(batch)``,
    /// ``polars.DataFrame(batch)``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        arrays(slf.py())?
            .call_method1("to_arrow", (slf,))?
            .call_method1("__arrow_c_array__", (requested_schema,))
    }

    fn __repr__(&self) -> String {
        let lost: u64 = self.data.lost.iter().map(|(_, lost)| lost.records).sum();
        let pinned = if self.pinned() { ", pinned" } else { "" };
        format!("<perfring.Batch {} records, {lost} lost{pinned}>", self.data.len())
    }
}

/// Returns the module that makes arrays of batches.
fn arrays(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("perfring._arrays").map(Bound::unbind))?;
    Ok(module.bind(py).clone().into_any())
}

/// Returns the array of a batch of copies that are all of a `RecordType`, the one that the ring has: without the
/// Python code for all other cases, which takes as long as hundreds of records. `None` in those.
fn plain<'py>(
    batch: &Bound<'py, Batch>,
    kind: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static FROM_BUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(kind) = kind.and_then(|kind| kind.cast::<RecordType>().ok()) else { return Ok(None) };
    let (py, this, ours) = (batch.py(), batch.get(), kind.get());
    if !ours.fixed_size().is_some_and(|size| this.data.is_all(ours.id.get(), size as usize)) {
        return Ok(None);
    }
    let theirs = RecordType::find(&this.origin.table(py, ours.id)?, ours.id);
    if theirs.is_some_and(|theirs| theirs.layout() != ours.layout()) {
        return Ok(None);
    }
    let dtype = RecordType::dtype(kind)?;
    let array = FROM_BUFFER.import(py, "numpy", "frombuffer")?.call1((batch, dtype))?;
    Ok(Some(array))
}

/// All bytes of a batch, including those between the payloads.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Span {
    pub(crate) batch: Py<Batch>,
}

fn words(values: impl Iterator<Item = u64>) -> Vec<u8> {
    values.flat_map(u64::to_ne_bytes).collect()
}

/// An iterator over a batch's records and losses, in order.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Items {
    batch: Py<Batch>,
    /// The numbers of records and losses that were returned.
    next: Mutex<(usize, usize)>,
}

#[pymethods]
impl Items {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let batch = self.batch.get();
        let mut next = lock(&self.next);
        let (record, lost) = *next;
        if let Some((before, what)) = batch.data.lost.get(lost)
            && *before <= record
        {
            next.1 += 1;
            return Ok(Some(Bound::new(py, *what)?.into_any()));
        }
        let Some(item) = batch.item(record) else { return Ok(None) };
        next.0 += 1;
        Ok(Some(Bound::new(py, item)?.into_any()))
    }
}
