//! A consumer or an observer that Python objects share, and records that stay in the ring for as
//! long as Python uses them.
//!
//! The consumer of a drop ring is on hold: it reads ahead, and the tail follows once the oldest
//! record is dead and acknowledged. Objects die in any thread. A thread that cannot lock the source
//! then, as another thread uses it, leaves the release to that thread.

use crate::errors;
use crate::fork::Process;
use crate::locks::{Leftover, lock, try_lock};
use crate::memory::pinned::{Pinned, pinned, pinned_span};
use crate::source::Source;
use perfring_consumer::advanced::ResumePoint;
use perfring_consumer::{Acknowledge, Anchors, Location, Policy, ReadError, Types};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A position up to which everything was read, and what keeps the tail before it.
struct Entry {
    resume_point: ResumePoint,
    /// Dead once nothing uses the records before the position.
    cell: Weak<Cell>,
    /// Whether the records may be released, as far as acknowledgement goes.
    acknowledged: bool,
}

/// A source, and the records of it that are in use.
pub(crate) struct Pins {
    source: Mutex<Option<Source>>,
    entries: Mutex<VecDeque<Entry>>,
    /// A cell died since the tail was last moved, or `close` or `acknowledge` was called.
    unsettled: Leftover,
    closing: AtomicBool,
    /// Whether records are pinned.
    pub(crate) pinning: bool,
    /// Whether records are acknowledged by being read: else by [`Pins::acknowledge`].
    acknowledged_when_read: bool,
    /// In a forked child the ring's memory is zeros.
    pub(crate) process: Process,
    pub(crate) location: Location,
    /// The last types and anchors of a source that is closed.
    last: Mutex<Option<(Types, Anchors)>>,
}

/// A turn at the source, by one thread.
pub(crate) struct Turn<'a> {
    of: &'a Pins,
    source: Option<MutexGuard<'a, Option<Source>>>,
}

impl Turn<'_> {
    /// Returns the source; `None` if it is closed.
    pub(crate) fn source(&mut self) -> Option<&mut Source> {
        if self.of.is_closed() {
            return None;
        }
        self.source.as_mut().and_then(|source| source.as_mut())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.source.take());
        self.of.settle(); // what others left to this thread
    }
}

impl Pins {
    pub(crate) fn new(mut source: Source, acknowledge: Acknowledge) -> Arc<Self> {
        let location = source.location().clone();
        let mut pinning = false;
        if let Source::Consumer(consumer) = &mut source
            && consumer.layout().policy == Policy::Drop
            // Else what it lends is a copy of its own, until the next.
            && !consumer.is_guarded()
        {
            consumer.advanced().hold();
            pinning = true;
        }
        Arc::new(Pins {
            source: Mutex::new(Some(source)),
            entries: Mutex::default(),
            unsettled: Leftover::default(),
            closing: AtomicBool::new(false),
            pinning,
            acknowledged_when_read: acknowledge == Acknowledge::AtNextRead,
            process: Process::this(),
            location,
            last: Mutex::default(),
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Waits for a turn. No thread keeps its turn for long, unless it waits.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let source = lock(&self.source);
        Turn { of: self, source: Some(source) }
    }

    /// Waits for a turn, in a thread that has the interpreter's lock.
    pub(crate) fn take_turn(&self, py: Python<'_>) -> PyResult<Turn<'_>> {
        self.process.check(py)?;
        let source = try_lock(&self.source).unwrap_or_else(|| {
            self.source.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
        });
        Ok(Turn { of: self, source: Some(source) })
    }

    /// Calls `f` with the source. An error becomes an exception after the turn: constructing one
    /// runs Python code, which may use the source.
    pub(crate) fn with_source<R>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Source) -> Result<R, ReadError>,
    ) -> PyResult<R> {
        let done = self.take_turn(py)?.source().map(f);
        match done {
            Some(Ok(done)) => Ok(done),
            Some(Err(error)) => Err(errors::read(py, error)),
            None => Err(self.closed(py)),
        }
    }

    /// Calls `f`, which does not fail, with the source.
    pub(crate) fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Source) -> R) -> PyResult<R> {
        self.with_source(py, |source| Ok(f(source)))
    }

    pub(crate) fn closed(&self, py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", format!("the reader of {} was closed", self.location))
    }

    /// Closes it. Returns whether it was open, in this process.
    pub(crate) fn close(&self) -> bool {
        if self.closing.swap(true, Ordering::AcqRel) || !self.process.is_this() {
            return false;
        }
        self.unsettled.leave();
        self.settle();
        true
    }

    /// Moves the tail up to the oldest record in use; closes the source once there is none. If
    /// another thread has the source, that thread does it at the end of its turn.
    fn settle(&self) {
        while self.unsettled.is_left() {
            let Some(mut source) = try_lock(&self.source) else { return };
            self.settle_locked(&mut source);
        }
    }

    fn settle_locked(&self, source: &mut Option<Source>) {
        self.unsettled.take();
        if self.is_closed() {
            self.leave_copies(); // only records with views stay in the ring
            self.unsettled.take();
        }
        let mut entries = lock(&self.entries);
        let closed = self.is_closed();
        let mut free = None;
        while let Some(entry) = entries.front()
            && entry.cell.strong_count() == 0
            && (entry.acknowledged || closed)
        {
            // Unacknowledged records follow all acknowledged ones, and stay in the ring.
            let entry = entries.pop_front().filter(|entry| entry.acknowledged);
            free = entry.map(|entry| entry.resume_point).or(free);
        }
        if let (Some(resume_point), Some(Source::Consumer(consumer))) = (free, &mut *source) {
            consumer.advanced().release_to(&resume_point);
        }
        if entries.is_empty() && closed {
            // What records that outlive it are asked for later.
            if let Some(source) = source.take() {
                let mut last = lock(&self.last);
                *last = Some((source.types(), source.anchors()));
            }
        }
    }

    /// Releases everything that was read up to now once `cell` is dead, everything before it is
    /// released, and it is acknowledged.
    pub(crate) fn pass(&self, source: &mut Source, cell: Weak<Cell>) {
        let resume_point = source.resume_point();
        let acknowledged = self.acknowledged_when_read;
        let dead = cell.strong_count() == 0;
        let mut entries = lock(&self.entries);
        match (source, entries.back_mut()) {
            (Source::Consumer(consumer), None) if dead && acknowledged => {
                consumer.advanced().release_to(&resume_point);
            }
            // Nothing was passed since.
            (_, Some(last)) if dead && last.resume_point == resume_point => {}
            // Both are released together.
            (_, Some(last))
                if dead && last.cell.strong_count() == 0 && last.acknowledged == acknowledged =>
            {
                last.resume_point = resume_point;
            }
            _ => entries.push_back(Entry { resume_point, cell, acknowledged }),
        }
    }

    /// Releases everything that was returned so far; what a view uses, once that is dead.
    pub(crate) fn acknowledge(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |source| {
            if self.pinning {
                for entry in lock(&self.entries).iter_mut() {
                    entry.acknowledged = true;
                }
                self.unsettled.leave(); // at the end of this turn
            } else if let Source::Consumer(consumer) = source {
                consumer.acknowledge();
            }
        })
    }

    /// Copies the pinned records that have no views. Returns whether there were any: then `settle`
    /// has something to do.
    fn leave_copies(&self) -> bool {
        let mut cells = Vec::new(); // dropped after the entries' lock
        for entry in lock(&self.entries).iter_mut() {
            if let Some(cell) = entry.cell.upgrade() {
                if cell.leave() {
                    entry.cell = Weak::new();
                }
                cells.push(cell);
            }
        }
        !cells.is_empty()
    }

    /// Gives space back when there is nothing to read: holes, and records that have no views. Else
    /// the producer could wait for the space while this reader waits for the producer.
    pub(crate) fn make_room(&self, source: &mut Source) {
        if self.pinning {
            self.pass(source, Weak::new());
            if self.leave_copies() {
                self.unsettled.leave(); // at the end of this turn
            }
        }
    }

    /// Pins the record that was just read. For a source that pins.
    pub(crate) fn pin(self: &Arc<Self>, bytes: &[u8]) -> Arc<Cell> {
        let bytes = CellBytes::Pinned { bytes: pinned(bytes), exported: false };
        Arc::new(Cell { of: Arc::clone(self), bytes: Mutex::new(bytes) })
    }

    /// Pins everything that was read since `start`. For a source that pins.
    pub(crate) fn pin_span(
        self: &Arc<Self>,
        source: &mut Source,
        start: u64,
    ) -> (Pinned, Arc<Cell>) {
        let bytes = pinned_span(source, start);
        let cell = Cell { of: Arc::clone(self), bytes: Mutex::new(CellBytes::Batch) };
        let cell = Arc::new(cell);
        self.pass(source, Arc::downgrade(&cell));
        (bytes, cell)
    }

    /// Calls `now` with the source, or, once it is closed, `then` with its last types and anchors.
    pub(crate) fn ask<T>(
        &self,
        py: Python<'_>,
        now: impl FnOnce(&Source) -> T,
        then: impl FnOnce(&(Types, Anchors)) -> T,
    ) -> PyResult<T> {
        let turn = self.take_turn(py)?;
        let done = turn.source.as_ref().and_then(|source| source.as_ref()).map(now);
        drop(turn);
        let done = done.or_else(|| lock(&self.last).as_ref().map(then));
        done.ok_or_else(|| self.closed(py))
    }
}

/// A record of a drop ring, which keeps the tail before it while it is alive.
pub(crate) struct Cell {
    of: Arc<Pins>,
    bytes: Mutex<CellBytes>,
}

enum CellBytes {
    /// In the ring. Exported bytes stay there, as it is unknown when the last view dies.
    Pinned { bytes: Pinned, exported: bool },
    /// A copy, made when the reader was about to wait.
    Copied(Box<[u8]>),
    /// Of a pinned batch, which has the bytes.
    Batch,
}

impl Cell {
    pub(crate) fn with<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match &*lock(&self.bytes) {
            CellBytes::Pinned { bytes, .. } => f(bytes.bytes()),
            CellBytes::Copied(bytes) => f(bytes),
            CellBytes::Batch => f(&[]),
        }
    }

    /// Returns an error in a forked child.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.of.process.check(py)
    }

    /// Returns the bytes, which stay where they are for as long as `self` is alive.
    pub(crate) fn export(&self) -> (*const u8, usize) {
        match &mut *lock(&self.bytes) {
            CellBytes::Pinned { bytes, exported } => {
                *exported = true;
                (bytes.bytes().as_ptr(), bytes.bytes().len())
            }
            CellBytes::Copied(bytes) => (bytes.as_ptr(), bytes.len()),
            CellBytes::Batch => ([].as_ptr(), 0),
        }
    }

    /// Copies bytes that were not exported. Returns whether the ring's space is free now.
    fn leave(&self) -> bool {
        let mut this = lock(&self.bytes);
        match &*this {
            CellBytes::Pinned { exported: true, .. } | CellBytes::Batch => false,
            CellBytes::Pinned { bytes, .. } => {
                *this = CellBytes::Copied(bytes.bytes().into());
                true
            }
            CellBytes::Copied(_) => true,
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if self.of.process.is_this() {
            self.of.unsettled.leave();
            self.of.settle();
        }
    }
}
