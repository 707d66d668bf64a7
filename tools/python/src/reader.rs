//! What consumers and observers have in common: reading, waiting, and records that stay in the ring
//! for as long as Python has them.
//!
//! The consumer of a drop ring is on hold: it reads ahead, and the tail follows once the oldest
//! record is let go of. That happens in any thread, whenever an object dies; who then cannot have
//! the reader, as another thread uses it, leaves the rest to that thread.

use crate::batch::{Batch, Builder};
use crate::errors;
use crate::fork::Process;
use crate::leftover::Leftover;
use crate::memory;
use crate::record::{Body, Cell, Lost, Origin, Record};
use crate::wait::Timeout;
use perfring_consumer::{
    Anchors, Consumer, Corrupt, Count, Fill, Guard, Home, Item, Layout, Mark, Observer, Policy,
    Sleeper, Types,
};
use perfring_producer::RecordType;
use perfring_types::read::TypeTable;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

mod waiting;

/// Bytes that a record whose payload stands in the AUX area takes in the data area.
const LARGE: u64 = 48;
/// Its type in the stream, where raw words are looked at; and those of losses and holes.
const LARGE_TYPE: u32 = 11;
const NO_RECORDS: [u32; 2] = [2, 0x5046_0001];

/// The most bytes that a batch is made for before it is known how many come: a ring may lie.
const GUESS: u64 = 1 << 20;

/// What is read from.
pub(crate) enum Source {
    Consumer(Consumer),
    Observer(Observer),
}

impl Source {
    #[inline(always)]
    fn read(&mut self) -> Result<Option<Item<'_>>, Corrupt> {
        match self {
            Source::Consumer(consumer) => consumer.read(),
            Source::Observer(observer) => observer.read(),
        }
    }

    pub(crate) fn fill(&self) -> Fill {
        match self {
            Source::Consumer(consumer) => consumer.fill(),
            Source::Observer(observer) => observer.fill(),
        }
    }

    pub(crate) fn position(&self) -> u64 {
        match self {
            Source::Consumer(consumer) => consumer.position(),
            Source::Observer(observer) => observer.mark().pos,
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        match self {
            Source::Consumer(consumer) => consumer.mark(),
            Source::Observer(observer) => observer.mark(),
        }
    }

    fn types(&self) -> Types {
        match self {
            Source::Consumer(consumer) => consumer.types(),
            Source::Observer(observer) => observer.types(),
        }
    }

    fn has_more_types(&self, than: &Types) -> bool {
        match self {
            Source::Consumer(consumer) => consumer.has_more_types(than),
            Source::Observer(observer) => observer.has_more_types(than),
        }
    }

    pub(crate) fn anchors(&self) -> Anchors {
        match self {
            Source::Consumer(consumer) => consumer.anchors(),
            Source::Observer(observer) => observer.anchors(),
        }
    }
}

/// A place up to which all was read, and what keeps the tail from it.
struct Entry {
    mark: Mark,
    cell: Weak<Cell>,
}

/// A consumer or an observer, for all objects that come from it.
pub(crate) struct Reader {
    source: Mutex<Option<Source>>,
    entries: Mutex<VecDeque<Entry>>,
    /// A cell has gone since the tail was last moved, or `close` was called.
    unsettled: Leftover,
    closing: AtomicBool,
    /// Whether records are pinned.
    pins: bool,
    process: Process,
    home: Home,
    layout: Layout,
    /// What the ring's table said last.
    table: Mutex<(Arc<Types>, Arc<TypeTable>)>,
    /// What the ring said last, once the source is gone.
    last: Mutex<Option<(Types, Anchors)>>,
    /// What sleeps for a consumer, once one has waited; and how many threads do.
    sleeper: Mutex<Option<Arc<Sleeper>>>,
    sleeping: AtomicUsize,
}

/// A turn at the source, by one thread.
pub(crate) struct Turn<'a> {
    reader: &'a Reader,
    source: Option<MutexGuard<'a, Option<Source>>>,
}

impl Turn<'_> {
    /// `None` if it is closed.
    pub(crate) fn source(&mut self) -> Option<&mut Source> {
        if self.reader.closing.load(Ordering::Acquire) {
            return None;
        }
        self.source.as_mut().and_then(|source| source.as_mut())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.source.take());
        self.reader.settle(); // what others left to this thread
    }
}

impl Reader {
    pub(crate) fn new(mut source: Source) -> Arc<Self> {
        let (home, layout) = match &mut source {
            Source::Consumer(consumer) => (consumer.home().clone(), *consumer.layout()),
            Source::Observer(observer) => (observer.home().clone(), *observer.layout()),
        };
        let mut pins = false;
        if let Source::Consumer(consumer) = &mut source
            && layout.policy == Policy::Drop
            // Else what it lends is a copy of its own, until the next.
            && consumer.guard() == Guard::Never
        {
            consumer.hold();
            pins = true;
        }
        Arc::new(Reader {
            source: Mutex::new(Some(source)),
            entries: Mutex::default(),
            unsettled: Leftover::default(),
            closing: AtomicBool::new(false),
            pins,
            process: Process::this(),
            home,
            layout,
            table: Mutex::default(),
            last: Mutex::default(),
            sleeper: Mutex::default(),
            sleeping: AtomicUsize::new(0),
        })
    }

    /// Refuses in a forked child, where the ring's memory is zeros.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check(py)
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for other threads, of which none holds it for long but to wait.
    fn turn(&self) -> Turn<'_> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        Turn { reader: self, source: Some(source) }
    }

    /// As [`Reader::turn`], for a thread with the interpreter's lock.
    pub(crate) fn take_turn(&self, py: Python<'_>) -> PyResult<Turn<'_>> {
        self.process.check(py)?;
        let source = match self.source.try_lock() {
            Ok(source) => source,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                use pyo3::sync::MutexExt;
                self.source.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
            }
        };
        Ok(Turn { reader: self, source: Some(source) })
    }

    /// Does something with the source. What goes wrong becomes an exception when others can have
    /// the source again: to make one runs Python code, which may want it.
    fn with_source<R>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Source) -> Result<R, Corrupt>,
    ) -> PyResult<R> {
        let done = self.take_turn(py)?.source().map(f);
        match done {
            Some(Ok(done)) => Ok(done),
            Some(Err(error)) => Err(errors::corrupt(py, error)),
            None => Err(self.closed(py)),
        }
    }

    /// As [`Reader::with_source`], where nothing goes wrong.
    pub(crate) fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Source) -> R) -> PyResult<R> {
        self.with_source(py, |source| Ok(f(source)))
    }

    fn closed(&self, py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", format!("the reader of {} was closed", self.home))
    }

    pub(crate) fn close(&self) {
        if self.closing.swap(true, Ordering::AcqRel) || !self.process.is_this() {
            return;
        }
        self.unsettled.leave();
        self.settle();
        if let Some(sleeper) = &*self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) {
            sleeper.wake();
        }
    }

    /// A cell was dropped.
    pub(crate) fn cell_is_gone(&self) {
        if self.process.is_this() {
            self.unsettled.leave();
            self.settle();
        }
    }

    /// Moves the tail up to the oldest record that is still held; closes, once there is none. Or
    /// leaves it to the thread that has the source, which does it when it is done.
    fn settle(&self) {
        while self.unsettled.is_left() {
            let mut source = match self.source.try_lock() {
                Ok(source) => source,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            self.settle_locked(&mut source);
        }
    }

    fn settle_locked(&self, source: &mut Option<Source>) {
        self.unsettled.take();
        if self.is_closed() {
            self.leave_copies(); // only what somebody has a view of stays in the ring
            self.unsettled.take();
        }
        let mut entries = self.entries();
        let mut free = None;
        while let Some(entry) = entries.front()
            && entry.cell.strong_count() == 0
        {
            free = entries.pop_front().map(|entry| entry.mark);
        }
        if let (Some(mark), Some(Source::Consumer(consumer))) = (free, &mut *source) {
            consumer.release_to(&mark);
        }
        if entries.is_empty() && self.is_closed() {
            // What records that outlive it are asked for later.
            if let Some(source) = source.take() {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some((source.types(), source.anchors()));
            }
        }
    }

    /// What was read up to now needs not stay, but for what stands before it.
    fn pass(&self, source: &mut Source, cell: Weak<Cell>) {
        let mark = source.mark();
        let mut entries = self.entries();
        match source {
            Source::Consumer(consumer) if entries.is_empty() && cell.strong_count() == 0 => {
                consumer.release_to(&mark);
            }
            // Nothing was passed since.
            _ if cell.strong_count() == 0
                && entries.back().is_some_and(|last| last.mark.pos == mark.pos) => {}
            _ => entries.push_back(Entry { mark, cell }),
        }
    }

    /// Makes copies of pinned records that nobody has a view of. Returns whether there were any: then
    /// `settle` has something to do.
    fn leave_copies(&self) -> bool {
        let mut cells = Vec::new(); // dropped after the entries' lock
        for entry in self.entries().iter_mut() {
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
    fn make_room(&self, source: &mut Source) {
        if self.pins {
            self.pass(source, Weak::new());
            if self.leave_copies() {
                self.unsettled.leave(); // at the end of this turn
            }
        }
    }

    /// The next item that is there.
    pub(crate) fn next<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Only what is no container is made of Python's objects here, so that no collector runs.
        let next = self.with_source(py, |source| {
            Ok(match source.read()? {
                None => {
                    self.make_room(source);
                    None
                }
                Some(Item::Lost(lost)) => {
                    if self.pins {
                        self.pass(source, Weak::new());
                    }
                    Some(Err(Lost::new(&lost)))
                }
                Some(Item::Record(record)) => {
                    let (pos, kind, time) = (record.pos, record.kind, record.time);
                    let body = if self.pins {
                        let bytes = memory::pinned(record.bytes, self);
                        let cell = Arc::new(Cell::new(Arc::clone(self), bytes));
                        self.pass(source, Arc::downgrade(&cell));
                        Body::Cell(cell)
                    } else {
                        Body::Own(PyBytes::new(py, record.bytes).unbind())
                    };
                    Some(Ok((pos, kind, time, body)))
                }
            })
        })?;
        Ok(match next {
            None => None,
            Some(Err(lost)) => Some(Bound::new(py, lost)?.into_any()),
            Some(Ok((pos, kind, time, body))) => {
                let origin = Arc::clone(self) as Arc<dyn Origin>;
                Some(Bound::new(py, Record::new(origin, pos, kind, time, body))?.into_any())
            }
        })
    }

    /// The next item, for which it may wait.
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
        // After a wait that was not in vain, somebody else may have been quicker.
        while self.wait(py, until)? {
            let next = self.next(py)?;
            if next.is_some() || until.is_over() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Copies of what is there, at most `max` records.
    pub(crate) fn drain(
        self: &Arc<Self>,
        py: Python<'_>,
        max: Option<usize>,
        timeout: Timeout,
    ) -> PyResult<Batch> {
        let (max, until) = (max.unwrap_or(usize::MAX), timeout.begin());
        loop {
            let batch = self.with_source(py, |source| {
                let unread = source.fill().unread;
                let end = source.mark().pos.saturating_add(unread);
                let guess = unread.min(GUESS) as usize;
                let guess = guess.min(max.saturating_mul(64));
                let mut batch = Builder::copies(guess, self.layout.time);
                let done = collect(source, &mut batch, max, end);
                self.passed(source, &batch);
                good(done, batch.is_empty())?;
                Ok(batch)
            })?;
            if !batch.is_empty() || max == 0 || until.is_over() || !self.wait(py, until)? {
                return Ok(batch.finish(Arc::clone(self) as Arc<dyn Origin>));
            }
        }
    }

    /// What is there, in place, at most `max` records.
    pub(crate) fn pin(
        self: &Arc<Self>,
        py: Python<'_>,
        max: Option<usize>,
        timeout: Timeout,
    ) -> PyResult<Batch> {
        if !self.pins {
            return Err(errors::named(
                py,
                "PerfringError",
                "only the consumer of a drop ring can pin records, as others' are overwritten, and none \
                 that is guarded: use drain()",
            ));
        }
        let (max, until) = (max.unwrap_or(usize::MAX), timeout.begin());
        loop {
            let copies = Arc::clone(self) as Arc<dyn Origin>;
            let got = self.with_source(py, |source| {
                let start = source.mark().pos;
                let end = start.saturating_add(source.fill().unread);
                // Those of the AUX area stand elsewhere: the batch ends before one, or is a copy of
                // one.
                let plain = before_large(source, self.layout.aux_size, start, end);
                if plain == 0 && max > 0 {
                    let mut batch = Builder::copies(0, self.layout.time);
                    let done = collect(source, &mut batch, 1, end);
                    self.passed(source, &batch);
                    good(done, batch.is_empty())?;
                    return Ok(Err(batch.finish(copies)));
                }
                let header = self.layout.record_size(0) as usize;
                let mut batch = Builder::in_place(start, header, self.layout.time);
                let done = collect(source, &mut batch, max.min(plain), end);
                let bytes = memory::pinned_span(source, start, self);
                let cell = Arc::new(Cell::of_batch(Arc::clone(self)));
                self.pass(source, Arc::downgrade(&cell));
                if batch.is_empty() {
                    self.make_room(source);
                }
                good(done, batch.is_empty())?;
                Ok(Ok((batch, bytes, cell)))
            })?;
            let (batch, bytes, cell) = match got {
                Ok(in_place) => in_place,
                Err(copy) => return Ok(copy),
            };
            if !batch.is_empty() || max == 0 || until.is_over() || !self.wait(py, until)? {
                let origin = Arc::clone(self) as Arc<dyn Origin>;
                return Ok(batch.finish_in_place(origin, bytes, cell));
            }
        }
    }

    /// After items were taken into a batch, or none were there.
    fn passed(&self, source: &mut Source, batch: &Builder) {
        match batch.is_empty() {
            true => self.make_room(source),
            false if self.pins => self.pass(source, Weak::new()),
            false => {}
        }
    }

    /// The type table, as it is now.
    pub(crate) fn types(&self, py: Python<'_>) -> PyResult<Arc<TypeTable>> {
        let types = self.ask(py, Source::types, |(types, _)| types.clone())?;
        Ok(Arc::new(TypeTable::from_words(types.words())))
    }

    /// Asks the source, closed or not, or what is left of it.
    fn ask<T>(
        &self,
        py: Python<'_>,
        now: impl FnOnce(&Source) -> T,
        then: impl FnOnce(&(Types, Anchors)) -> T,
    ) -> PyResult<T> {
        let mut done = None;
        {
            let turn = self.take_turn(py)?;
            if let Some(source) = turn.source.as_ref().and_then(|source| source.as_ref()) {
                done = Some(now(source));
            }
        }
        if done.is_none() {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            done = last.as_ref().map(then);
        }
        done.ok_or_else(|| self.closed(py))
    }

    pub(crate) fn lapped(&self, py: Python<'_>) -> PyResult<Count> {
        self.with(py, |source| match source {
            Source::Consumer(consumer) => consumer.lapped(),
            Source::Observer(observer) => observer.lapped(),
        })
    }
}

/// What stands before damage is good: the next call tells of it.
fn good(done: Result<(), Corrupt>, nothing: bool) -> Result<(), Corrupt> {
    if nothing { done } else { Ok(()) }
}

/// Records before the first that stands in the AUX area; `usize::MAX` if there is no such.
fn before_large(source: &mut Source, aux_size: u64, start: u64, end: u64) -> usize {
    let Source::Consumer(consumer) = source else { return usize::MAX };
    let Some(raw) = consumer.raw().filter(|_| aux_size > 0) else { return usize::MAX };
    let (mut pos, mut before) = (start, 0);
    while pos < end {
        let header = raw.ring().word(pos).to_ne_bytes();
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let size = u16::from_ne_bytes([header[6], header[7]]);
        if kind == LARGE_TYPE {
            return before;
        }
        if size < 8 {
            break; // damage, which whoever reads it tells
        }
        pos += u64::from(size);
        before += usize::from(!NO_RECORDS.contains(&kind));
    }
    usize::MAX
}

/// Items that are there, up to `max` records; not for ever, of a producer that is faster: what comes
/// at `end` or later is for the next time.
fn collect(source: &mut Source, batch: &mut Builder, max: usize, end: u64) -> Result<(), Corrupt> {
    match source {
        Source::Consumer(consumer) => {
            while batch.len() < max {
                let left = (max - batch.len()) as u64;
                if let Some(run) = consumer.read_run(left) {
                    batch.push_run(&run);
                    if run.pos() + run.bytes().len() as u64 >= end {
                        break;
                    }
                } else if !put(consumer.read()?, batch, end) {
                    break;
                }
            }
        }
        Source::Observer(observer) => {
            while batch.len() < max && put(observer.read()?, batch, end) {}
        }
    }
    Ok(())
}

/// Returns whether there may be more.
#[inline(always)]
fn put(item: Option<Item<'_>>, batch: &mut Builder, end: u64) -> bool {
    match item {
        Some(Item::Record(record)) => {
            batch.push(record.kind, record.pos, record.time, record.bytes);
            // Its size is not known here, but what follows it is no nearer than this: a long one may
            // stand in the AUX area.
            record.pos + (record.bytes.len() as u64 + 8).min(LARGE) < end
        }
        Some(Item::Lost(lost)) => {
            batch.lost(Lost::new(&lost));
            lost.pos < end
        }
        None => false,
    }
}

impl Origin for Reader {
    fn table(&self, py: Python<'_>, kind: RecordType) -> PyResult<Arc<TypeTable>> {
        self.process.check(py)?;
        // Nobody has this lock and waits for something.
        let lock = || self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (types, table) = lock().clone();
        if table.get(kind).is_some() {
            return Ok(table);
        }
        let now = |source: &Source| source.has_more_types(&types).then(|| source.types());
        let Some(types) = self.ask(py, now, |(last, _)| (*last != *types).then(|| last.clone()))?
        else {
            return Ok(table); // it has no such type
        };
        let table = Arc::new(TypeTable::from_words(types.words()));
        *lock() = (Arc::new(types), Arc::clone(&table));
        Ok(table)
    }

    fn anchors(&self, py: Python<'_>) -> PyResult<Anchors> {
        self.ask(py, Source::anchors, |(_, anchors)| *anchors)
    }
}
