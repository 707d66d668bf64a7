//! A producer's reservations, written in place, and its batches.

use crate::errors;
use crate::kind::Kind;
use crate::locks::lock;
use crate::memory::buffer::with_buffer;
use crate::memory::held::is_only_reference;
use crate::sender::Shared;
use crate::sender::many::Records;
use crate::spaces::Space;
use crate::types;
use crate::wait::Timeout;
use perfring_producer::RecordType;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyTuple};
use std::sync::{Arc, Mutex};

/// Space in the ring for one record, open until it is committed or discarded.
///
/// Returned by `Producer.reserve`. Dropping it discards the record.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct Reservation {
    owner: Arc<Shared>,
    id: u64,
    size: usize,
    /// `None` once it has ended.
    open: Mutex<Option<Views>>,
}

struct Views {
    space: Py<Space>,
    view: Py<PyAny>,
}

impl Reservation {
    pub(crate) fn new(
        py: Python<'_>,
        owner: Arc<Shared>,
        id: u64,
        size: usize,
        space: Py<Space>,
    ) -> PyResult<Self> {
        let view = PyMemoryView::from(space.bind(py).as_any())?.into_any().unbind();
        Ok(Reservation { owner, id, size, open: Mutex::new(Some(Views { space, view })) })
    }

    fn ended(py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", "the reservation has ended: make another one")
    }

    /// Ends the reservation and returns true if no view exists besides the one that was returned.
    /// Else returns false, and the record is discarded once all views are dead.
    fn end(&self, py: Python<'_>, commit: Option<usize>) -> PyResult<bool> {
        let Some(Views { space, view }) = lock(&self.open).take() else {
            return Err(Self::ended(py));
        };
        // Fails if an array or a slice of the view exists, which is found below.
        let _ = view.call_method0(py, "release");
        drop(view);
        if !is_only_reference(&space, py) {
            return Ok(false);
        }
        self.owner.spaces.end(py, self.id, commit)?;
        Ok(true)
    }
}

#[pymethods]
impl Reservation {
    /// The space of the record, writable.
    #[getter]
    fn view(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let view = lock(&self.open).as_ref().map(|views| views.view.clone_ref(py));
        view.ok_or_else(|| Self::ended(py))
    }

    /// Publish the record, or its first ``size`` bytes. The view is invalid afterwards.
    ///
    /// Raises:
    ///     BufferError: A view or an array of it still exists, and could write to the ring later.
    ///         The record is discarded once that is dead; until then an exclusive producer cannot
    ///         publish.
    #[pyo3(signature = (size=None))]
    fn commit(&self, py: Python<'_>, size: Option<usize>) -> PyResult<()> {
        let size = size.unwrap_or(self.size);
        if size > self.size {
            return Err(PyValueError::new_err(format!(
                "{size} bytes cannot be committed: {} were reserved",
                self.size
            )));
        }
        match self.end(py, Some(size))? {
            true => Ok(()),
            false => Err(PyBufferError::new_err(
                "a view of the reservation, a slice or an array of it, still exists and could write to \
                 the ring later: delete it before the end. The record is discarded once that is \
                 dead",
            )),
        }
    }

    /// Discard the record. Existing views keep the reservation open until they are dead.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, None).map(|_| ())
    }

    fn __len__(&self) -> usize {
        self.size
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.view(py)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if lock(&self.open).is_none() {
            return Ok(()); // ended inside the block
        }
        if kind.is_none() { self.commit(py, None) } else { self.discard(py) }
    }

    fn __repr__(&self) -> String {
        let state = if lock(&self.open).is_some() { "open" } else { "ended" };
        format!("<perfring.Reservation of {} bytes, {state}>", self.size)
    }
}

/// Records that are collected, and published at the end of a ``with`` block.
///
/// Returned by `Producer.batch`. If the block raises, none of them is published.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct ProducerBatch {
    owner: Arc<Shared>,
    timeout: Timeout,
    records: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    /// The type of each record, and where it ends.
    ends: Vec<(RecordType, usize)>,
    published: usize,
    lost: usize,
}

impl Pending {
    /// Removes the first `count` records.
    fn remove(&mut self, count: usize) {
        let start = count.checked_sub(1).map_or(0, |last| self.ends[last].1);
        self.bytes.drain(..start);
        self.ends.drain(..count);
        for (_, end) in &mut self.ends {
            *end -= start;
        }
    }

    fn append(&mut self, other: &Pending) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|(kind, end)| (*kind, start + end)));
    }
}

impl Records for Pending {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, nth: usize) -> (RecordType, &[u8]) {
        let start = nth.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (kind, end) = self.ends[nth];
        (kind, &self.bytes[start..end])
    }
}

impl ProducerBatch {
    pub(crate) fn new(owner: Arc<Shared>, timeout: Timeout) -> Self {
        ProducerBatch { owner, timeout, records: Mutex::default() }
    }
}

#[pymethods]
impl ProducerBatch {
    /// Add a record: bytes, or an object of a record's class, as for `Producer.publish`.
    ///
    /// Raises:
    ///     TooLarge: The record is too large for the ring; it is not counted as lost.
    #[pyo3(
        signature = (data, r#type=Kind::BYTES),
        text_signature = "($self, data, type=4096)"
    )]
    fn publish(&self, py: Python<'_>, data: &Bound<'_, PyAny>, r#type: Kind<'_>) -> PyResult<()> {
        let (kind, data) = types::object(data, r#type)?;
        types::check_array(&data, &kind)?;
        with_buffer(&data, |bytes, _| {
            let kind = self.owner.kind(py, kind, bytes.len())?;
            let max = self.owner.layout.max_len();
            if bytes.len() > max {
                let error = perfring_producer::ReserveError::TooLarge { len: bytes.len(), max };
                return Err(errors::reserve(py, error));
            }
            let mut records = lock(&self.records);
            records.bytes.extend_from_slice(bytes);
            let end = records.bytes.len();
            records.ends.push((kind, end));
            Ok(())
        })
    }

    /// Publish the records collected so far. Returns how many there was room for.
    fn flush(&self, py: Python<'_>) -> PyResult<usize> {
        let mut pending = {
            let mut records = lock(&self.records);
            let (bytes, ends) =
                (std::mem::take(&mut records.bytes), std::mem::take(&mut records.ends));
            Pending { bytes, ends, ..Pending::default() }
        };
        let (sent, done) = self.owner.publish_all(py, &pending, self.timeout);
        let mut records = lock(&self.records);
        records.published += sent.published;
        records.lost += sent.offered - sent.published;
        if done.is_err() {
            // Records that were not offered stay, before those added since.
            pending.remove(sent.offered);
            pending.append(&records);
            records.bytes = pending.bytes;
            records.ends = pending.ends;
        }
        drop(records);
        done.map(|()| sent.published)
    }

    /// The number of records published so far.
    #[getter]
    fn published(&self) -> usize {
        lock(&self.records).published
    }

    /// The number of records without room, which the ring counts as lost.
    #[getter]
    fn lost(&self) -> usize {
        lock(&self.records).lost
    }

    fn __len__(&self) -> usize {
        lock(&self.records).ends.len()
    }

    fn __repr__(&self) -> String {
        let Pending { ends, published, lost, .. } = &*lock(&self.records);
        let waiting = ends.len();
        format!(
            "<perfring.ProducerBatch: {waiting} records collected, {published} published, {lost} lost>"
        )
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*exc))]
    fn __exit__(&self, py: Python<'_>, exc: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exc.get_item(0).is_ok_and(|kind| !kind.is_none()) {
            *lock(&self.records) = Pending::default();
            return Ok(());
        }
        self.flush(py).map(|_| ())
    }
}
