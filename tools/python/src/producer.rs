//! The native half of the producer.

use crate::errors;
use crate::kind::{At, Kind, Size, evict_of, policy_of, shown};
use crate::memory::buffer::with_buffer;
use crate::memory::held::Use;
use crate::memory::trust_of;
use crate::reservation::{ProducerBatch, Reservation};
use crate::sender::Shared;
use crate::sender::many::Records;
use crate::types;
use crate::wait::Timeout;
use perfring_figures::json::producer_totals;
use perfring_producer::{
    OpenError, Options, Producers, RecordType,
    files::{create, create_if_missing},
};
use pyo3::prelude::*;
use pythonize::pythonize;
use std::ffi::OsString;
use std::sync::Arc;

/// A contiguous array, each row of which is a record.
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
    #[pyo3(signature = (path, *, name=None, trust="auto"))]
    fn new(py: Python<'_>, path: At, name: Option<&str>, trust: &str) -> PyResult<Self> {
        Ok(Producer { shared: Shared::attach(py, path.0, name, trust_of(trust)?)? })
    }

    /// Creates a ring; with `exist_ok`, a ring with the same options may exist.
    #[staticmethod]
    #[pyo3(signature = (path, *, size, policy, shared, slots, time, evict, mode, types_size, aux_size, consumers, exist_ok, any_owner))]
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
        consumers: u32,
        exist_ok: bool,
        any_owner: bool,
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
            consumers,
            time,
            mode,
            any_owner,
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
    ///     data: A contiguous object with the buffer protocol, whose bytes are copied; or an object
    ///         of a class made by `perfring.record`, which has its type.
    ///     type: The record's type: a number, a `RecordType`, or a record's class. A type that is
    ///         more than a number is registered in the ring's type table.
    ///     timeout: The seconds to wait for room, ``None`` for ever. Other threads run meanwhile.
    ///
    /// Returns:
    ///     Whether it was published. ``False``: there was no room within the timeout, because the
    ///     ring is full or a shared ring is held up. The record is counted as lost and reported to
    ///     readers.
    ///
    /// Raises:
    ///     TooLarge: The record is too large for the ring; it is counted as lost.
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

    /// Publish every item of an array as a record, in batches.
    ///
    /// Args:
    ///     array: A contiguous buffer, such as a numpy array, structured or not. With several
    ///         dimensions, every item of the first one is a record.
    ///     type: The type of all records.
    ///     timeout: The seconds that each record waits for room; ``None`` for ever. After the first
    ///         record that found none, the rest are published without waiting.
    ///
    /// Returns:
    ///     The number of records published. The others are counted as lost.
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

    /// Register a type in the ring's type table, so that readers see its fields by name.
    ///
    /// Publishing with a `RecordType` or a record's class registers it as well. Call this to do it,
    /// and to find errors, at the start.
    ///
    /// Args:
    ///     what: A class made by `perfring.record`, or a `RecordType`, from `perfring.record_type`
    ///         or another ring's table.
    ///
    /// Returns:
    ///     The type.
    ///
    /// Raises:
    ///     BadType: The table is full, or has another type with this number.
    fn register(&self, py: Python<'_>, what: &Bound<'_, PyAny>) -> PyResult<Py<types::RecordType>> {
        let kind = types::type_of(what)?;
        self.shared.register(py, kind.get(), None)?;
        Ok(kind.unbind())
    }

    /// Reserve space for a record of ``size`` bytes in the ring, to be written in place.
    ///
    /// ``with producer.reserve(n) as view`` commits it at the end of the block, and discards it if
    /// the block raises. The space holds old bytes of the ring at first: write all of it. An
    /// exclusive producer has one open reservation at a time. In a shared ring, readers see no
    /// later record while a reservation is open.
    ///
    /// No view may exist when the block ends: ``np.frombuffer(view, "u8")[:] = 7`` is fine; after
    /// ``a = np.frombuffer(view, "u8")``, ``del a`` before the end, or a ``BufferError`` is raised
    /// and the record is discarded.
    ///
    /// Raises:
    ///     Full: There is no room within ``timeout`` seconds; the record is counted as lost.
    ///     TooLarge: The record is too large for the ring; it is counted as lost.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "place")
    ///     >>> with producer.reserve(4) as view:
    ///     ...     view[:] = b"1234"
    ///     >>> reservation = producer.reserve(80)
    ///     >>> reservation.view[:5] = b"hello"
    ///     >>> reservation.commit(5)  # shorter than reserved: the rest is released
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

    /// Return a `ProducerBatch`: it collects records, and publishes them at the end of a ``with``
    /// block.
    ///
    /// If the block raises, none of them is published. ``timeout`` is the seconds for which each
    /// record may wait for room.
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

    /// The producer's totals since the ring was created, as `ProducerTotals`: a dict with the names
    /// that `stat` has.
    ///
    /// ``written``, ``discarded``, ``reclaimed`` and the refusals ``full``, ``too_large``,
    /// ``contended`` and ``pending`` are present as ``..._records`` and ``..._bytes``; with
    /// ``reported_`` before them, the refusals that are in the stream already. They cover this
    /// producer and its predecessors; in a shared ring, those of its slot. While an exclusive
    /// producer has a reservation open, they are those from before it.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, &producer_totals(&self.shared.spaces.totals(py)?))?)
    }

    /// The length of the longest payload, in bytes.
    #[getter]
    fn max_len(&self) -> usize {
        self.shared.layout.max_len()
    }

    /// The ring's path.
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

    /// Whether records have timestamps.
    #[getter]
    fn timed(&self) -> bool {
        self.shared.layout.time
    }

    /// Whether the ring's file was removed, or another file has its name.
    ///
    /// Only readers that have this file open get what is published then: attach again, or create
    /// the ring again. Cleaners of temporary files remove rings, and so does systemd when a user
    /// logs out (``RemoveIPC``). A file that was moved is not removed. It takes two system calls:
    /// look now and then, not for each record.
    ///
    /// Raises:
    ///     Busy: An exclusive producer has a reservation open.
    ///     Closed: The producer was closed.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "short-lived")
    ///     >>> (tmp / "short-lived").unlink()
    ///     >>> producer.publish(b"nobody can open this file any more"), producer.removed
    ///     (True, True)
    #[getter]
    fn removed(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.spaces.with(py, |producer| match producer {
            Use::One(producer) => producer.is_removed(),
            Use::Many(producer) => producer.is_removed(),
        })
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.shared.spaces.is_closed(py)
    }

    /// Detach from the ring, which frees the seat for the next producer.
    ///
    /// Discards an open reservation; if a view of it exists, once that is dead. A second call does
    /// nothing.
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
