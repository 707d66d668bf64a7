//! Snapshots: a ring's content at one moment.

use crate::batch::Batch;
use crate::errors;
use crate::kind::{At, shown};
use crate::locks::lock;
use crate::lost::Lost;
use crate::record::{Body, Origin, Record};
use crate::runs::Builder;
use crate::spare::Copies;
use crate::types::TypeTable as Types;
use perfring_consumer::{Anchors, Item, Location, OwnedItem, ReadError, RecordRef};
use perfring_figures::json::totals;
use perfring_producer::RecordType;
use perfring_types::read::TypeTable;
use pyo3::prelude::*;
use pythonize::pythonize;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

/// A copy of everything intact in a ring: a live one, while its producer runs at full speed, or the
/// file of dead processes.
///
/// Iteration returns its records and losses, oldest first; damage ends it with `Corrupt`.
///
/// Example:
///     >>> producer = perfring.Producer.create(tmp / "flight", policy="overwrite")
///     >>> producer.publish(b"last words")
///     True
///     >>> snapshot = perfring.Snapshot(tmp / "flight")
///     >>> [bytes(record) for record in snapshot], snapshot.totals["written_records"]
///     ([b'last words'], 1)
#[pyclass(frozen, module = "perfring")]
pub(crate) struct Snapshot {
    taken: Arc<Taken>,
    path: Location,
}

struct Taken {
    table: Arc<TypeTable>,
    snapshot: perfring_consumer::Snapshot,
}

impl Origin for Taken {
    fn table(&self, _: Python<'_>, _: RecordType) -> PyResult<Arc<TypeTable>> {
        Ok(Arc::clone(&self.table))
    }

    fn anchors(&self, _: Python<'_>) -> PyResult<Anchors> {
        Ok(*self.snapshot.anchors())
    }
}

impl Snapshot {
    pub(crate) fn of(snapshot: perfring_consumer::Snapshot, path: Location) -> Self {
        let table = Arc::new(TypeTable::from_words(snapshot.types().words()));
        Snapshot { taken: Arc::new(Taken { table, snapshot }), path }
    }

    fn origin(&self) -> Arc<dyn Origin> {
        Arc::clone(&self.taken) as Arc<dyn Origin>
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(py: Python<'_>, path: At) -> PyResult<Self> {
        let taken = perfring_consumer::Snapshot::take(&path.0);
        taken.map(|taken| Snapshot::of(taken, path.0)).map_err(|error| errors::attach(py, &error))
    }

    fn __iter__(&self) -> Items {
        let items = self.taken.snapshot.iter();
        let items = items.map(|item| item.map(|item| item.map(RecordRef::into_owned)));
        Items { origin: self.origin(), items: Mutex::new(items.collect()) }
    }

    /// Return all records as a `Batch`.
    fn drain(&self, py: Python<'_>) -> PyResult<Batch> {
        let mut batch = Builder::copies(Copies::default(), self.taken.snapshot.layout().lead());
        for item in &self.taken.snapshot {
            match item {
                Ok(Item::Record(record)) => {
                    batch.push(&record);
                }
                Ok(Item::Lost(lost)) => batch.lost(Lost::new(&lost)),
                Err(error) => return Err(errors::read(py, error)),
            }
        }
        Ok(Batch::new(self.origin(), batch.finish()))
    }

    /// The ring's types.
    #[getter]
    fn types(&self) -> Types {
        Types { table: Arc::clone(&self.taken.table) }
    }

    /// The ring's path.
    #[getter]
    fn path(&self) -> OsString {
        shown(&self.path)
    }

    /// The ring's totals just before the snapshot, as `RingTotals`: a dict with the names that
    /// `stat` has.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, &totals(self.taken.snapshot.totals()))?)
    }

    fn __repr__(&self) -> String {
        let present = self.taken.snapshot.totals().present.records;
        format!("<perfring.Snapshot of {}: {present} records>", self.path)
    }
}

/// An iterator over a snapshot's items.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Items {
    origin: Arc<dyn Origin>,
    items: Mutex<VecDeque<Result<OwnedItem, ReadError>>>,
}

#[pymethods]
impl Items {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Exceptions are constructed without a lock: that runs Python code.
        let next = lock(&self.items).pop_front();
        Ok(match next {
            Some(Ok(OwnedItem::Record(record))) => {
                let RecordRef { pos, kind, time, writer, bytes } = record.as_record();
                let body = Body::Own(pyo3::types::PyBytes::new(py, bytes).unbind());
                let origin = Arc::clone(&self.origin);
                Some(Bound::new(py, Record { origin, pos, kind, time, writer, body })?.into_any())
            }
            Some(Ok(OwnedItem::Lost(lost))) => Some(Bound::new(py, Lost::new(&lost))?.into_any()),
            Some(Err(error)) => return Err(errors::read(py, error)),
            None => None,
        })
    }
}
