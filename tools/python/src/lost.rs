//! Losses, as readers give them.

use perfring_consumer::Cause;
use pyo3::prelude::*;

/// Lost records, at the position in the stream where they would have been. Losses after the last record
/// of a ring are returned when all else was read: then ``at_end`` is true, and their place in the stream is unknown.
///
/// ``cause`` is the reason. Refused by the ring: it was ``"full"``, the record was ``"too_large"``,
/// or in a shared ring another producer was in the way, ``"contended"`` or ``"pending"``.
/// Overwritten before they were read: ``"lapped"``. Reported by another program: ``"foreign"``.
/// ``str(lost)`` is a sentence for people.
///
/// Example:
///     >>> producer = perfring.Producer.create(tmp / "lossy", size="4K")
///     >>> while producer.publish(bytes(1000)):
///     ...     pass
///     >>> reader = perfring.Consumer(tmp / "lossy")
///     >>> batch = reader.drain()
///     >>> len(batch), len(batch.lost)
///     (4, 1)
///     >>> print(batch.lost[0])
///     1 record (1008 bytes) lost: the ring was full (at some time before now)
#[pyclass(frozen, eq, hash, module = "perfring")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lost {
    /// The position in the stream where the loss is reported.
    #[pyo3(get)]
    pos: u64,
    /// The number of records.
    #[pyo3(get)]
    pub(crate) records: u64,
    /// The bytes of the ring that they took or would have taken, headers included.
    #[pyo3(get)]
    bytes: u64,
    cause: Cause,
    /// Whether the place in the stream is unknown. Everything before ``pos`` was read then, and records from there on
    /// may be older than the loss.
    #[pyo3(get)]
    at_end: bool,
}

impl Lost {
    pub(crate) fn new(lost: &perfring_consumer::Lost) -> Self {
        let perfring_consumer::Lost { pos, records, bytes, cause, at_end } = *lost;
        Lost { pos, records, bytes, cause, at_end }
    }
}

#[pymethods]
impl Lost {
    /// The reason.
    #[getter]
    fn cause(&self) -> &'static str {
        self.cause.name()
    }

    fn __str__(&self) -> String {
        let Lost { pos, records, bytes, cause, at_end } = *self;
        perfring_consumer::Lost { pos, records, bytes, cause, at_end }.to_string()
    }

    fn __repr__(&self) -> String {
        let Lost { pos, records, bytes, .. } = self;
        let cause = self.cause.name();
        let end = if self.at_end { ", at_end=True" } else { "" };
        format!("<perfring.Lost records={records}, bytes={bytes}, cause='{cause}', pos={pos}{end}>")
    }
}
