//! Losses, as readers give them.

use pyo3::prelude::*;

/// Records that are not there, in the place where they would have been.
///
/// ``cause`` is why. The ring refused them: it was ``"full"``, the record was ``"too_large"``, or in a
/// shared ring another producer was in the way, ``"contended"`` or ``"pending"``. Or they were
/// overwritten before they were read, ``"lapped"``. ``"foreign"``: another program has told so.
#[pyclass(frozen, eq, hash, module = "perfring")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lost {
    /// The position in the stream where it is told.
    #[pyo3(get)]
    pos: u64,
    /// How many records.
    #[pyo3(get)]
    pub(crate) records: u64,
    /// How many bytes of the ring they took or would have taken, headers included.
    #[pyo3(get)]
    bytes: u64,
    /// Why, as a word.
    #[pyo3(get)]
    cause: &'static str,
}

impl Lost {
    pub(crate) fn new(lost: &perfring_consumer::Lost) -> Self {
        let perfring_consumer::Lost { pos, records, bytes, cause } = *lost;
        Lost { pos, records, bytes, cause: cause.name() }
    }
}

#[pymethods]
impl Lost {
    fn __repr__(&self) -> String {
        let Lost { pos, records, bytes, cause } = self;
        format!("<perfring.Lost records={records}, bytes={bytes}, cause='{cause}', pos={pos}>")
    }
}
