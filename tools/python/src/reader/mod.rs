//! The common part of consumers and observers: reading items and batches, waiting, and types.

use crate::batch::Batch;
use crate::errors;
use crate::locks::lock;
use crate::lost::Lost;
use crate::pins::Pins;
use crate::record::{Body, Origin, Record};
use crate::runs::Builder;
use crate::source::Source;
use crate::spare::{Copies, Spare};
use crate::wait::{Timeout, Until};
use collect::{before_large, collect, good};
use perfring_consumer::{Acknowledge, Anchors, Item, Layout, Types};
use perfring_producer::RecordType;
use perfring_types::read::TypeTable;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, Weak};
use waiting::Waiting;

mod collect;
mod waiting;

/// A consumer or an observer, shared with the objects that come from it.
pub(crate) struct Reader {
    /// The source, and its records in use.
    pub(crate) pins: Arc<Pins>,
    waiting: Waiting,
    pub(crate) layout: Layout,
    spare: Arc<Spare>,
    /// The type table as it was last read.
    table: Mutex<(Arc<Types>, Arc<TypeTable>)>,
}

impl Reader {
    pub(crate) fn new(source: Source, acknowledge: Acknowledge) -> Arc<Self> {
        let layout = *source.layout();
        let (waiting, table) = (Waiting::default(), Mutex::default());
        let (pins, spare) = (Pins::new(source, acknowledge), Spare::new());
        Arc::new(Reader { pins, waiting, layout, spare, table })
    }

    fn origin(self: &Arc<Self>) -> Arc<dyn Origin> {
        Arc::clone(self) as Arc<dyn Origin>
    }

    pub(crate) fn close(&self) {
        if self.pins.close() {
            self.waiting.wake();
            self.spare.close();
        }
    }

    /// Waits until there may be something to read.
    pub(crate) fn wait(&self, py: Python<'_>, until: Until) -> PyResult<bool> {
        self.waiting.wait(&self.pins, py, until)
    }

    /// Returns the next item, if there is one.
    pub(crate) fn next<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Constructs no Python container here, so that no garbage collection runs.
        let next = self.pins.with_source(py, |source| {
            Ok(match source.read()? {
                None => {
                    self.pins.make_room(source);
                    None
                }
                Some(Item::Lost(lost)) => {
                    if self.pins.pinning {
                        self.pins.pass(source, Weak::new());
                    }
                    Some(Err(Lost::new(&lost)))
                }
                Some(Item::Record(record)) => {
                    let perfring_consumer::RecordRef { pos, kind, time, writer, .. } = record;
                    let body = if self.pins.pinning {
                        let cell = self.pins.pin(record.bytes);
                        self.pins.pass(source, Arc::downgrade(&cell));
                        Body::Cell(cell)
                    } else {
                        Body::Own(PyBytes::new(py, record.bytes).unbind())
                    };
                    Some(Ok((pos, kind, time, writer, body)))
                }
            })
        })?;
        Ok(match next {
            None => None,
            Some(Err(lost)) => Some(Bound::new(py, lost)?.into_any()),
            Some(Ok((pos, kind, time, writer, body))) => Some(
                Bound::new(py, Record { origin: self.origin(), pos, kind, time, writer, body })?
                    .into_any(),
            ),
        })
    }

    /// Returns the next item, and waits for it.
    pub(crate) fn read<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        timeout: Timeout,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.next(py)?;
        if next.is_some() || timeout.is_now() {
            return Ok(next);
        }
        let until = timeout.begin();
        // After a successful wait, another thread may have read the item.
        while self.wait(py, until)? {
            let next = self.next(py)?;
            if next.is_some() || until.is_over() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Returns copies of everything that the ring holds, at most `max` records.
    pub(crate) fn drain(
        self: &Arc<Self>,
        py: Python<'_>,
        max: Option<usize>,
        timeout: Timeout,
    ) -> PyResult<Batch> {
        let (max, until) = (max.unwrap_or(usize::MAX), timeout.begin());
        loop {
            let batch = self.pins.with_source(py, |source| {
                let unread = source.fill().unread;
                let end = source.resume_point().pos().saturating_add(unread);
                let copies = Copies::of(&self.spare, max, unread as usize);
                let mut batch = Builder::copies(copies, self.layout.lead());
                let done = collect(source, &mut batch, max, end, |source, batch| {
                    self.passed(source, batch)
                });
                self.passed(source, &batch);
                good(done, batch.is_empty())?;
                Ok(batch)
            })?;
            if !batch.is_empty() || max == 0 || until.is_over() || !self.wait(py, until)? {
                return Ok(Batch::new(self.origin(), batch.finish()));
            }
        }
    }

    /// Returns everything that the ring holds, in place, at most `max` records.
    pub(crate) fn pin(
        self: &Arc<Self>,
        py: Python<'_>,
        max: Option<usize>,
        timeout: Timeout,
    ) -> PyResult<Batch> {
        if !self.pins.pinning {
            return Err(errors::named(
                py,
                "PerfringError",
                "only the consumer of a drop ring can pin records, as other readers' are overwritten, \
                 and not one that trusts nobody: use drain()",
            ));
        }
        let (max, until) = (max.unwrap_or(usize::MAX), timeout.begin());
        loop {
            let got = self.pins.with_source(py, |source| {
                let start = source.resume_point().pos();
                let end = start.saturating_add(source.fill().unread);
                // A record in the AUX area has no place among the others: the batch ends before it,
                // or is a copy of it.
                let plain = before_large(source, self.layout.aux_size, start, end);
                if plain == 0 && max > 0 {
                    let mut batch = Builder::copies(Copies::default(), self.layout.lead());
                    let done = collect(source, &mut batch, 1, end, |_, _| {});
                    self.passed(source, &batch);
                    good(done, batch.is_empty())?;
                    return Ok(Err(batch.finish()));
                }
                let header = self.layout.record_size(0) as usize;
                let mut batch = Builder::in_place(start, header, self.layout.lead());
                let done = collect(source, &mut batch, max.min(plain), end, |_, _| {});
                let (bytes, cell) = self.pins.pin_span(source, start);
                if batch.is_empty() {
                    self.pins.make_room(source);
                }
                good(done, batch.is_empty())?;
                Ok(Ok((batch, bytes, cell)))
            })?;
            let (batch, bytes, cell) = match got {
                Ok(in_place) => in_place,
                Err(copy) => return Ok(Batch::new(self.origin(), copy)),
            };
            if !batch.is_empty() || max == 0 || until.is_over() || !self.wait(py, until)? {
                return Ok(Batch::new(self.origin(), batch.finish_in_place(bytes, cell)));
            }
        }
    }

    /// Releases what was passed, after items were added to a batch or there were none.
    fn passed(&self, source: &mut Source, batch: &Builder) {
        match batch.is_empty() {
            true => self.pins.make_room(source),
            false if self.pins.pinning => self.pins.pass(source, Weak::new()),
            false => {}
        }
    }

    /// Returns the type table as it is now.
    pub(crate) fn types(&self, py: Python<'_>) -> PyResult<Arc<TypeTable>> {
        let types = self.pins.ask(py, Source::types, |(types, _)| types.clone())?;
        Ok(Arc::new(TypeTable::from_words(types.words())))
    }
}

impl Origin for Reader {
    fn table(&self, py: Python<'_>, kind: RecordType) -> PyResult<Arc<TypeTable>> {
        self.pins.process.check(py)?;
        // No thread that has this lock waits for anything.
        let lock = || lock(&self.table);
        let (types, table) = lock().clone();
        if table.get(kind).is_some() {
            return Ok(table);
        }
        let now = |source: &Source| source.has_more_types(&types).then(|| source.types());
        let Some(types) =
            self.pins.ask(py, now, |(last, _)| (*last != *types).then(|| last.clone()))?
        else {
            return Ok(table); // the ring has no such type
        };
        let table = Arc::new(TypeTable::from_words(types.words()));
        *lock() = (Arc::new(types), Arc::clone(&table));
        Ok(table)
    }

    fn anchors(&self, py: Python<'_>) -> PyResult<Anchors> {
        self.pins.ask(py, Source::anchors, |(_, anchors)| *anchors)
    }
}
