//! A consumer or an observer that Python objects share, and records that stay in the ring for as long
//! as Python has them.
//!
//! The consumer of a drop ring is on hold: it reads ahead, and the tail follows once the oldest
//! record is let go of. That happens in any thread, whenever an object dies; who then cannot have
//! the source, as another thread uses it, leaves the rest to that thread.

use crate::errors;
use crate::fork::Process;
use crate::locks::{Leftover, lock, try_lock};
use crate::memory::pinned::{Pinned, pinned, pinned_span};
use crate::source::Source;
use perfring_consumer::advanced::ResumePoint;
use perfring_consumer::{Anchors, Location, Policy, ReadError, Trust, Types};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A place up to which all was read, and what keeps the tail from it.
struct Entry {
    resume_point: ResumePoint,
    cell: Weak<Cell>,
}

/// A source, and what is held of it.
pub(crate) struct Pins {
    source: Mutex<Option<Source>>,
    entries: Mutex<VecDeque<Entry>>,
    /// A cell has gone since the tail was last moved, or `close` was called.
    unsettled: Leftover,
    closing: AtomicBool,
    /// Whether records are pinned.
    pub(crate) pinning: bool,
    /// In a forked child the ring's memory is zeros.
    pub(crate) process: Process,
    pub(crate) location: Location,
    /// What the ring said last, once the source is gone.
    last: Mutex<Option<(Types, Anchors)>>,
}

/// A turn at the source, by one thread.
pub(crate) struct Turn<'a> {
    of: &'a Pins,
    source: Option<MutexGuard<'a, Option<Source>>>,
}

impl Turn<'_> {
    /// `None` if it is closed.
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
    pub(crate) fn new(mut source: Source) -> Arc<Self> {
        let location = source.location().clone();
        let mut pinning = false;
        if let Source::Consumer(consumer) = &mut source
            && consumer.layout().policy == Policy::Drop
            // Else what it lends is a copy of its own, until the next.
            && consumer.trust() == Trust::Peers
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
            process: Process::this(),
            location,
            last: Mutex::default(),
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Waits for other threads, of which none holds it for long but to wait.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let source = lock(&self.source);
        Turn { of: self, source: Some(source) }
    }

    /// As [`Pins::turn`], for a thread with the interpreter's lock.
    pub(crate) fn take_turn(&self, py: Python<'_>) -> PyResult<Turn<'_>> {
        self.process.check(py)?;
        let source = try_lock(&self.source).unwrap_or_else(|| {
            self.source.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
        });
        Ok(Turn { of: self, source: Some(source) })
    }

    /// Does something with the source. What goes wrong becomes an exception when others can have
    /// the source again: to make one runs Python code, which may want it.
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

    /// As [`Pins::with_source`], where nothing goes wrong.
    pub(crate) fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Source) -> R) -> PyResult<R> {
        self.with_source(py, |source| Ok(f(source)))
    }

    pub(crate) fn closed(&self, py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", format!("the reader of {} was closed", self.location))
    }

    /// Whether it was open, in this process.
    pub(crate) fn close(&self) -> bool {
        if self.closing.swap(true, Ordering::AcqRel) || !self.process.is_this() {
            return false;
        }
        self.unsettled.leave();
        self.settle();
        true
    }

    /// Moves the tail up to the oldest record that is still held; closes, once there is none. Or
    /// leaves it to the thread that has the source, which does it when it is done.
    fn settle(&self) {
        while self.unsettled.is_left() {
            let Some(mut source) = try_lock(&self.source) else { return };
            self.settle_locked(&mut source);
        }
    }

    fn settle_locked(&self, source: &mut Option<Source>) {
        self.unsettled.take();
        if self.is_closed() {
            self.leave_copies(); // only what somebody has a view of stays in the ring
            self.unsettled.take();
        }
        let mut entries = lock(&self.entries);
        let mut free = None;
        while let Some(entry) = entries.front()
            && entry.cell.strong_count() == 0
        {
            free = entries.pop_front().map(|entry| entry.resume_point);
        }
        if let (Some(resume_point), Some(Source::Consumer(consumer))) = (free, &mut *source) {
            consumer.advanced().release_to(&resume_point);
        }
        if entries.is_empty() && self.is_closed() {
            // What records that outlive it are asked for later.
            if let Some(source) = source.take() {
                let mut last = lock(&self.last);
                *last = Some((source.types(), source.anchors()));
            }
        }
    }

    /// What was read up to now needs not stay, but for what stands before it.
    pub(crate) fn pass(&self, source: &mut Source, cell: Weak<Cell>) {
        let resume_point = source.resume_point();
        let mut entries = lock(&self.entries);
        match source {
            Source::Consumer(consumer) if entries.is_empty() && cell.strong_count() == 0 => {
                consumer.advanced().release_to(&resume_point);
            }
            // Nothing was passed since.
            _ if cell.strong_count() == 0
                && entries.back().is_some_and(|last| last.resume_point.pos == resume_point.pos) => {
            }
            _ => entries.push_back(Entry { resume_point, cell }),
        }
    }

    /// Makes copies of pinned records that nobody has a view of. Returns whether there were any: then
    /// `settle` has something to do.
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

    /// When there is nothing to read: what was passed goes back to the producer, which may wait for the
    /// space while this waits for it. Holes do, and records that nobody has a view of.
    pub(crate) fn make_room(&self, source: &mut Source) {
        if self.pinning {
            self.pass(source, Weak::new());
            if self.leave_copies() {
                self.unsettled.leave(); // at the end of this turn
            }
        }
    }

    /// Keeps the record that was just read in its place. For a source that pins.
    pub(crate) fn pin(self: &Arc<Self>, bytes: &[u8]) -> Arc<Cell> {
        let bytes = CellBytes::Pinned { bytes: pinned(bytes), exported: false };
        Arc::new(Cell { of: Arc::clone(self), bytes: Mutex::new(bytes) })
    }

    /// Keeps all that was read since `start` in its place. For a source that pins.
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

    /// Asks the source, closed or not, or what is left of it.
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

/// A record's place in a drop ring, which keeps the tail before it while it is there.
pub(crate) struct Cell {
    of: Arc<Pins>,
    bytes: Mutex<CellBytes>,
}

enum CellBytes {
    /// In the ring. Once they were exported they stay there, as nobody can tell who has them.
    Pinned { bytes: Pinned, exported: bool },
    /// A copy, made when the reader was about to wait with this in the way.
    Copied(Box<[u8]>),
    /// Of a pinned batch, which has the bytes and stays where it is.
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

    /// Refuses in a forked child.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.of.process.check(py)
    }

    /// From now on the bytes stand where they are, as long as this is there.
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

    /// Makes a copy of bytes that nobody else knows the place of. Returns whether the ring's space is
    /// free now.
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
