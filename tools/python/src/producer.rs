//! The producer, as Python sees it.

use crate::errors;
use crate::kind::{At, Kind, Size, evict_of, policy_of, shown};
use crate::memory::buffer::with_buffer;
use crate::reservation::{ProducerBatch, Reservation};
use crate::sender::Shared;
use crate::sender::many::Records;
use crate::types;
use crate::wait::Timeout;
use perfring_producer::{OpenError, Options, Producers, RecordType, create, create_if_missing};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::sync::Arc;

/// One row of a contiguous array is a record.
struct Rows<'a> {
    kind: RecordType,
    bytes: &'a [u8],
    rows: usize,
    row: usize,
}

impl Records for Rows<'_> {
    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, nth: usize) -> (RecordType, &[u8]) {
        (self.kind, &self.bytes[nth * self.row..(nth + 1) * self.row])
    }
}

/// The native half of `perfring.Producer`.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct Producer {
    shared: Arc<Shared>,
}

#[pymethods]
impl Producer {
    /// Attaches to a ring.
    #[new]
    #[pyo3(signature = (path, *, name=None))]
    fn new(py: Python<'_>, path: At, name: Option<&str>) -> PyResult<Self> {
        Ok(Producer { shared: Shared::attach(py, path.0, name)? })
    }

    /// Makes a ring; with `exist_ok` one of the same shape may be there.
    #[staticmethod]
    #[pyo3(signature = (path, *, size, policy, shared, slots, time, evict, mode, types_size, aux_size, exist_ok))]
    #[expect(clippy::too_many_arguments, reason = "keywords, with names, in Python")]
    fn _make(
        py: Python<'_>,
        path: At,
        size: Size,
        policy: &str,
        shared: bool,
        slots: u32,
        time: bool,
        evict: &str,
        mode: u32,
        types_size: Size,
        aux_size: Size,
        exist_ok: bool,
    ) -> PyResult<()> {
        let (policy, evict) = (policy_of(policy)?, evict_of(evict)?);
        let options = Options {
            size: size.0,
            policy,
            evict,
            producers: if shared { Producers::Many } else { Producers::One },
            slots,
            types_size: types_size.0,
            aux_size: aux_size.0,
            time,
            mode,
            ..Options::default()
        };
        let made = match exist_ok {
            true => create_if_missing(path.0, &options),
            false => create(path.0, &options).map_err(OpenError::Create),
        };
        made.map_err(|error| errors::open(py, &error))
    }

    /// Publish one record.
    ///
    /// Args:
    ///     data: Anything with the buffer protocol, contiguous; its bytes are copied. Or an object
    ///         of a class made by `perfring.record`, which has its type.
    ///     type: The record's type: its number, a `RecordType`, or a record's class. The ring's table
    ///         gets it, unless it is a mere number.
    ///     timeout: Seconds to wait for room, ``None`` for ever. Other threads run meanwhile.
    ///
    /// Returns:
    ///     Whether it was published. ``False``: there was no room in time, as the ring is full, or a
    ///     shared one is held up. The record is counted as lost then, and its reader is told.
    ///
    /// Raises:
    ///     TooLarge: No ring of this size can hold it; counted as lost.
    ///     Closed: The producer was closed.
    ///     Forked: This process is a forked child of the one that attached.
    #[pyo3(
        signature = (data, r#type=Kind::BYTES, *, timeout=Timeout::NOW),
        text_signature = "($self, data, type=4096, *, timeout=0.0)"
    )]
    fn publish(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        r#type: Kind<'_>,
        timeout: Timeout,
    ) -> PyResult<bool> {
        let shared = &self.shared;
        let (kind, data) = types::object(data, r#type)?;
        types::check_array(&data, &kind)?;
        with_buffer(&data, |bytes, _| {
            let kind = shared.kind(py, kind, bytes.len())?;
            shared.publish(py, kind, bytes, timeout)
        })
    }

    /// Publish every item of an array, each as a record: as batches, without a call for each.
    ///
    /// Args:
    ///     array: A contiguous buffer, such as a numpy array, structured or not; of one with several
    ///         dimensions, every item of the first one is a record.
    ///     type: The type of all of them.
    ///     timeout: Seconds to wait for room, of each record that waits; ``None`` for ever. Once that
    ///         was in vain, the rest goes without waiting.
    ///
    /// Returns:
    ///     How many were published. The others are counted as lost.
    ///
    /// Example:
    ///     >>> import numpy as np
    ///     >>> producer = perfring.Producer.create(tmp / "array")
    ///     >>> producer.publish_array(np.arange(1000, dtype="u8"))
    ///     1000
    #[pyo3(
        signature = (array, r#type=Kind::BYTES, *, timeout=Timeout::NOW),
        text_signature = "($self, array, type=4096, *, timeout=0.0)"
    )]
    fn publish_array(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        r#type: Kind<'_>,
        timeout: Timeout,
    ) -> PyResult<usize> {
        types::check_array(array, &r#type)?;
        with_buffer(array, |bytes, rows| {
            if rows == 0 {
                return Ok(0);
            }
            let row = bytes.len().checked_div(rows).unwrap_or(0);
            let kind = self.shared.kind(py, r#type, row)?;
            let rows = Rows { kind, bytes, rows, row };
            let (sent, done) = self.shared.publish_all(py, &rows, timeout);
            done.map(|()| sent.published)
        })
    }

    /// Put a type into the ring's table, so that readers see its fields by name.
    ///
    /// What publishes under a `RecordType` or a record's class does so by itself: this is for doing it,
    /// and knowing that it can be done, at the start.
    ///
    /// Args:
    ///     what: A class made by `perfring.record`, or a `RecordType`, of `perfring.record_type` or of
    ///         another ring's table.
    ///
    /// Returns:
    ///     The type.
    ///
    /// Raises:
    ///     BadType: The table is full, or has another type by this number.
    fn register(&self, py: Python<'_>, what: &Bound<'_, PyAny>) -> PyResult<Py<types::RecordType>> {
        let kind = types::type_of(what)?;
        self.shared.register(py, kind.get(), None)?;
        Ok(kind.unbind())
    }

    /// Space for a record of ``size`` bytes, in the ring, to be written in place.
    ///
    /// ``with producer.reserve(n) as view`` commits it at the end of the block, and discards it if
    /// the block raises. The bytes are what the ring last held there: write all of them. An exclusive
    /// producer has one reservation open at a time; of a shared one, nothing younger is seen while one
    /// is open.
    ///
    /// Nothing may have a view of it when the block ends: ``np.frombuffer(view, "u8")[:] = 7`` is fine;
    /// of ``a = np.frombuffer(view, "u8")`` say ``del a`` before the end, or it is a ``BufferError`` and
    /// the record is discarded.
    ///
    /// Raises:
    ///     Full: There is no space, within ``timeout`` seconds; counted as lost.
    ///     TooLarge: No ring of this size can hold it; counted as lost.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "place")
    ///     >>> with producer.reserve(4) as view:
    ///     ...     view[:] = b"1234"
    ///     >>> reservation = producer.reserve(80)
    ///     >>> reservation.view[:5] = b"hello"
    ///     >>> reservation.commit(5)  # shorter than reserved: the rest is given back
    #[pyo3(
        signature = (size, r#type=Kind::BYTES, *, timeout=Timeout::NOW),
        text_signature = "($self, size, type=4096, *, timeout=0.0)"
    )]
    fn reserve(
        &self,
        py: Python<'_>,
        size: usize,
        r#type: Kind<'_>,
        timeout: Timeout,
    ) -> PyResult<Reservation> {
        let shared = &self.shared;
        let kind = shared.kind(py, r#type, size)?;
        let (id, space) = shared.reserve(py, kind, size, timeout)?;
        Reservation::new(py, Arc::clone(shared), id, size, Py::new(py, space)?)
    }

    /// Records that are put together first, and published at once at the end of a ``with`` block.
    ///
    /// If the block raises, none of them is published. ``timeout`` is how long each of them that has
    /// to may wait for room, in seconds. See `ProducerBatch`.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "batch")
    ///     >>> with producer.batch() as batch:
    ///     ...     for n in range(3):
    ///     ...         batch.publish(b"%d" % n)
    ///     >>> batch.published, batch.lost
    ///     (3, 0)
    #[pyo3(
        signature = (*, timeout=Timeout::NOW),
        text_signature = "($self, *, timeout=0.0)"
    )]
    fn batch(&self, timeout: Timeout) -> ProducerBatch {
        ProducerBatch::new(Arc::clone(&self.shared), timeout)
    }

    /// The producer's totals since the ring was created, by the names that `stat` has.
    ///
    /// ``written``, ``discarded``, ``reclaimed`` and the refusals ``full``, ``too_large``,
    /// ``contended`` and ``pending`` are present as ``..._records`` and ``..._bytes``; with
    /// ``reported_`` before them, the refusals that are in the stream already. They cover this
    /// producer and its predecessors; in a shared ring, those of its slot. While an exclusive
    /// producer has a reservation open, they are those from before it.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let totals = self.shared.spaces.totals(py)?;
        let dict = PyDict::new(py);
        crate::stat::put_producer_totals(&dict, &totals)?;
        Ok(dict)
    }

    /// The longest payload that this ring takes, in bytes.
    #[getter]
    fn max_len(&self) -> usize {
        self.shared.layout.max_len()
    }

    /// Where the ring is.
    #[getter]
    fn path(&self) -> OsString {
        shown(&self.shared.spaces.location)
    }

    /// ``"drop"`` or ``"overwrite"``.
    #[getter]
    fn policy(&self) -> &'static str {
        self.shared.layout.policy.name()
    }

    /// Whether the ring is for many producers at a time.
    #[getter(shared)]
    fn is_shared(&self) -> bool {
        self.shared.layout.producers == Producers::Many
    }

    /// Whether records are stamped.
    #[getter]
    fn timed(&self) -> bool {
        self.shared.layout.time
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.shared.spaces.is_closed(py)
    }

    /// Free the place for the next producer.
    ///
    /// What is open is discarded; if something still has a view of that, once this is gone. A second
    /// time does nothing.
    fn close(&self, py: Python<'_>) {
        self.shared.spaces.close(py);
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        if slf.get().closed(py) {
            return Err(slf.get().shared.spaces.closed(py));
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let closed = if self.closed(py) { ", closed" } else { "" };
        let kind = self.shared.layout.producers.name();
        let location = &self.shared.spaces.location;
        format!("<perfring.Producer {location} ({}, {kind}{closed})>", self.policy())
    }
}
