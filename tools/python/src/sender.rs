//! A producer that Python objects share: itself, and what is open of it.

use crate::errors;
use crate::fork::Process;
use crate::kind::Kind;
use crate::memory::{self, Held, Space, StillOpen, Use};
use crate::producer::program;
use crate::sender::many::{many, one};
use crate::types;
use crate::wait::{self, Timeout};
use perfring_consumer::{Observer, Start};
use perfring_producer::{Count, Home, Layout, Producers, RecordType, Refused, ReserveError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod many;

/// A producer, for itself and for what is open of it.
pub(crate) struct Shared {
    state: Mutex<State>,
    process: Process,
    home: Home,
    layout: Layout,
    /// Types that this producer has put into the ring's table.
    known: Mutex<Vec<Known>>,
}

/// A type, and how many bytes each record of it has, if that is the same for all.
type Known = (RecordType, Option<u32>);

struct State {
    /// `None` once it is closed and nothing is open.
    held: Option<Held>,
    closing: bool,
}

/// Records to be published, in order.
pub(crate) trait Records {
    fn len(&self) -> usize;
    fn get(&self, nth: usize) -> (RecordType, &[u8]);
}

/// What comes of an attempt that may wait for room: `None` if there was none.
type Tried<T> = Result<Result<Option<T>, ReserveError>, StillOpen>;

/// For how long a thread that waits keeps others from the producer.
const TURN: Duration = Duration::from_millis(20);

impl Shared {
    fn new(held: Held, home: Home, layout: Layout) -> Arc<Self> {
        let state = State { held: Some(held), closing: false };
        Arc::new(Shared {
            state: Mutex::new(state),
            process: Process::this(),
            home,
            layout,
            known: Mutex::default(),
        })
    }

    pub(crate) fn attach(py: Python<'_>, home: Home, name: Option<&str>) -> PyResult<Arc<Self>> {
        let failed = |error| errors::attach(py, &error);
        let name = name.map_or_else(|| program(py), |name| Ok(name.to_owned()))?;
        // Which kind it is for, told without a trace.
        let producers = match Observer::open(&home, Start::Latest) {
            Ok(observer) => observer.layout().producers,
            Err(_) => Producers::One, // attaching says what is wrong
        };
        Ok(match producers {
            Producers::One => {
                let producer =
                    perfring_producer::Producer::attach_as(&home, &name).map_err(failed)?;
                let layout = *producer.layout();
                Shared::new(Held::one(producer), home, layout)
            }
            Producers::Many => {
                let producer =
                    perfring_producer::SharedProducer::attach_as(&home, &name).map_err(failed)?;
                let layout = *producer.layout();
                Shared::new(Held::many(producer), home, layout)
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a thread with the interpreter's lock.
    fn take(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        self.process.check(py)?;
        Ok(self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    /// Does something with the producer, while nothing of an exclusive one is open.
    pub(crate) fn with<R>(&self, py: Python<'_>, f: impl FnOnce(Use<'_>) -> R) -> PyResult<R> {
        // Exceptions are made when others can have it again: that runs Python code.
        let done = self.take(py)?.usable().map(|held| held.producer().map(f));
        match done {
            Some(Ok(done)) => Ok(done),
            Some(Err(still_open)) => Err(memory::still_open(py, still_open)),
            None => Err(self.closed(py)),
        }
    }

    /// What was written and refused.
    pub(crate) fn figures(&self, py: Python<'_>) -> PyResult<(Count, Refused)> {
        let figures = self.take(py)?.usable().map(Held::figures);
        figures.ok_or_else(|| self.closed(py))
    }

    pub(crate) fn closed(&self, py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", format!("the producer of {} was closed", self.home))
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The type of a record of `len` bytes, which the ring's table has from now on, if it is more
    /// than a number.
    pub(crate) fn kind(&self, py: Python<'_>, kind: Kind<'_>, len: usize) -> PyResult<RecordType> {
        let Kind(kind, Some(of)) = kind else { return Ok(kind.0) };
        let known = self.known().iter().find(|(id, _)| *id == kind).copied();
        let (_, size) = match known {
            Some(known) => known,
            None => self.register(py, types::type_of(&of)?.get())?,
        };
        match size {
            Some(size) if size as usize != len => Err(errors::named(
                py,
                "BadType",
                format!("a record of this type has {size} bytes, and not {len}"),
            )),
            _ => Ok(kind),
        }
    }

    fn known(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a type into the ring's table, unless it is there.
    pub(crate) fn register(&self, py: Python<'_>, kind: &types::RecordType) -> PyResult<Known> {
        if let Some(entry) = kind.entry() {
            let done = self.with(py, |producer| match producer {
                Use::One(producer) => producer.register_entry(&entry),
                Use::Many(producer) => producer.register_entry(&entry),
            })?;
            done.map_err(|error| errors::reserve(py, error))?;
        }
        let known = (kind.number(), kind.fixed_size());
        self.known().push(known);
        Ok(known)
    }

    /// Publishes one record. Returns whether there was room for it in time.
    pub(crate) fn publish(
        &self,
        py: Python<'_>,
        kind: RecordType,
        bytes: &[u8],
        timeout: Timeout,
    ) -> PyResult<bool> {
        if !timeout.is_now()
            && (self.offer(py, kind, bytes)? || self.publish_in_time(py, kind, bytes, timeout)?)
        {
            return Ok(true);
        }
        let done = self.with(py, |producer| match producer {
            Use::One(producer) => producer.publish(kind, bytes),
            Use::Many(producer) => producer.publish(kind, bytes),
        })?;
        taken(py, done)
    }

    /// Waits for room; returns whether there was some. If not, nothing is counted.
    fn publish_in_time(
        &self,
        py: Python<'_>,
        kind: RecordType,
        bytes: &[u8],
        timeout: Timeout,
    ) -> PyResult<bool> {
        // Others may change what was given while this waits without the interpreter's lock.
        let bytes: Box<[u8]> = bytes.into();
        let done =
            self.in_time(py, timeout, |held, slice| held.publish_in_time(kind, &bytes, slice))?;
        Ok(done.is_some())
    }

    /// Publishes one record if there is room, as there mostly is: then nobody looks at a clock or
    /// gives the interpreter's lock away. If there is none, nothing is counted.
    fn offer(&self, py: Python<'_>, kind: RecordType, bytes: &[u8]) -> PyResult<bool> {
        let done = self.with(py, |producer| match producer {
            Use::One(producer) => {
                let mut batch = producer.batch();
                let done = batch.offer(kind, bytes);
                batch.publish();
                done
            }
            Use::Many(producer) => {
                let offered = producer.offer_timeout(kind, bytes.len(), Duration::ZERO)?;
                Ok(offered.is_some_and(|mut space| {
                    space.copy_from_slice(bytes);
                    space.commit();
                    true
                }))
            }
        })?;
        done.map_err(|error| errors::reserve(py, error))
    }

    /// Tries again and again, each time for a while, without the interpreter's lock.
    fn in_time<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Timeout,
        mut attempt: impl FnMut(&mut Held, Duration) -> Tried<T> + Send,
    ) -> PyResult<Option<T>> {
        self.process.check(py)?;
        let tried = wait::slices(py, timeout, |slice| {
            let mut state = self.lock();
            let Some(held) = state.usable() else { return Some(None) };
            match attempt(held, slice.min(TURN)) {
                Ok(Ok(None)) => None,
                tried => Some(Some(tried)),
            }
        })?;
        match tried {
            None => Ok(None),
            Some(None) => Err(self.closed(py)),
            Some(Some(tried)) => self.outcome(py, tried),
        }
    }

    fn outcome<T>(&self, py: Python<'_>, tried: Tried<T>) -> PyResult<Option<T>> {
        match tried {
            Ok(Ok(got)) => Ok(got),
            Ok(Err(error)) => Err(errors::reserve(py, error)),
            Err(still_open) => Err(memory::still_open(py, still_open)),
        }
    }

    /// Opens a reservation, and gives its space.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        py: Python<'_>,
        kind: RecordType,
        size: usize,
        timeout: Timeout,
    ) -> PyResult<(u64, Space)> {
        let waited = match timeout.is_now() {
            true => None,
            false => {
                let attempt = |held: &mut Held, slice| held.reserve(kind, size, Some(slice));
                self.in_time(py, timeout, attempt)?
            }
        };
        let opened = self.take(py)?.usable().map(|held| {
            let reserved = match waited {
                Some(id) => Ok(Ok(Some(id))),
                None => held.reserve(kind, size, None),
            };
            reserved.map(|reserved| {
                reserved.map(|id| {
                    let id = id?;
                    let bytes = held.bytes(id)?;
                    // Whoever drops it gives the space back.
                    Some((id, Space::new(Arc::clone(self), id, bytes)))
                })
            })
        });
        let opened = opened.ok_or_else(|| self.closed(py))?;
        let opened = self.outcome(py, opened)?;
        opened.ok_or_else(|| errors::reserve(py, ReserveError::Full))
    }

    /// Publishes many, as batches; returns how many of them there was room for in time.
    pub(crate) fn publish_all(
        &self,
        py: Python<'_>,
        records: &impl Records,
        timeout: Timeout,
    ) -> PyResult<usize> {
        let (mut next, mut published) = (0, 0);
        while next < records.len() {
            let (from, waits) = (next, !timeout.is_now());
            let done = self.with(py, |producer| match producer {
                Use::One(producer) => one(producer, records, &mut next, &mut published, waits),
                Use::Many(producer) => {
                    many(producer, &self.layout, records, &mut next, &mut published, waits)
                }
            })?;
            done.map_err(|error| errors::reserve(py, error))?;
            if next == from {
                // The ring is full: the next record waits, and if it is in vain, the rest goes
                // the way of records that wait for nobody.
                let (kind, bytes) = records.get(next);
                if !self.publish(py, kind, bytes, timeout)? {
                    return Ok(published + self.publish_rest(py, records, next + 1)?);
                }
                (next, published) = (next + 1, published + 1);
            }
        }
        Ok(published)
    }

    fn publish_rest(&self, py: Python<'_>, records: &impl Records, from: usize) -> PyResult<usize> {
        let mut published = 0;
        for nth in from..records.len() {
            let (kind, bytes) = records.get(nth);
            published += usize::from(self.publish(py, kind, bytes, Timeout::NOW)?);
        }
        Ok(published)
    }

    /// Ends a reservation whose space nobody sees any more.
    pub(crate) fn end(&self, py: Python<'_>, id: u64, commit: Option<usize>) -> PyResult<()> {
        let mut state = self.take(py)?;
        if let Some(held) = &mut state.held {
            held.end(id, commit);
        }
        state.settle();
        Ok(())
    }

    /// The last view of a reservation's space has gone.
    pub(crate) fn space_is_gone(&self, id: u64) {
        if !self.process.is_this() {
            return;
        }
        let mut state = self.lock();
        if let Some(held) = &mut state.held {
            held.end(id, None);
        }
        state.settle();
    }

    /// In a forked child it is of no use, which is another thing: what is called says so.
    pub(crate) fn is_closed(&self, py: Python<'_>) -> bool {
        self.take(py).is_ok_and(|state| state.closing)
    }

    pub(crate) fn close(&self, py: Python<'_>) {
        if !self.process.is_this() {
            return;
        }
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        state.closing = true;
        state.settle();
    }
}

impl State {
    fn usable(&mut self) -> Option<&mut Held> {
        if self.closing { None } else { self.held.as_mut() }
    }

    fn settle(&mut self) {
        if self.closing && self.held.as_ref().is_some_and(|held| !held.is_open()) {
            self.held = None;
        }
    }
}

/// Whether a record was taken; what is no want of room is an exception.
fn taken(py: Python<'_>, done: Result<(), ReserveError>) -> PyResult<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(ReserveError::Full | ReserveError::Contended { .. } | ReserveError::Pending { .. }) => {
            Ok(false)
        }
        Err(error) => Err(errors::reserve(py, error)),
    }
}
