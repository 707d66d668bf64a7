//! Losses, as readers give them.

use perfring_consumer::Cause;
use pyo3::prelude::*;

/// Lost records, at the position in the stream where they would have been.
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
///     >>> len(reader.drain()), producer.publish(b"next")
///     (4, True)
///     >>> print(reader.read())
///     1 record (1008 bytes) lost: the ring was full
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
}

impl Lost {
    pub(crate) fn new(lost: &perfring_consumer::Lost) -> Self {
        let perfring_consumer::Lost { pos, records, bytes, cause } = *lost;
        Lost { pos, records, bytes, cause }
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
        let Lost { pos, records, bytes, cause } = *self;
        perfring_consumer::Lost { pos, records, bytes, cause }.to_string()
    }

    fn __repr__(&self) -> String {
        let Lost { pos, records, bytes, .. } = self;
        let cause = self.cause.name();
        format!("<perfring.Lost records={records}, bytes={bytes}, cause='{cause}', pos={pos}>")
    }
}
