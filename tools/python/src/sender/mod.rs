//! Publishing, with the type table and with waiting for room.

use crate::errors;
use crate::kind::{Kind, program};
use crate::locks::lock;
use crate::memory::held::{Held, StillOpen, Use};
use crate::spaces::{Space, Spaces, still_open};
use crate::types;
use crate::wait::{self, Timeout, Until};
use many::{Records, Sent, many, one};
use perfring_consumer::{Observer, Start};
use perfring_producer::{
    Layout, Location, ProducerOptions, Producers, RecordType, ReserveError, Trust,
};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) mod many;

/// A producer, and the types that it publishes under.
pub(crate) struct Shared {
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) layout: Layout,
    /// The types that this producer has registered.
    known: Mutex<Vec<Known>>,
}

/// A type that is registered.
struct Known {
    id: RecordType,
    layout: u64,
    class: Option<Py<PyType>>,
    /// The bytes of each record, if they are the same for all.
    size: Option<u32>,
}

impl Known {
    /// Returns whether `of`, a class or a `RecordType`, is this type.
    fn is(&self, of: &Bound<'_, PyAny>) -> bool {
        match of.cast::<types::RecordType>() {
            Ok(of) => (self.id, self.layout) == (of.get().id, of.get().layout()),
            Err(_) => self.class.as_ref().is_some_and(|class| class.is(of)),
        }
    }
}

/// The outcome of an attempt that may wait for room: `None` if there was none.
type Tried<T> = Result<Result<Option<T>, ReserveError>, StillOpen>;

/// The interval at which a thread checks whether another one's reservation has ended.
const NAP: Duration = Duration::from_millis(1);

/// The longest time for which a waiting thread keeps other threads from the producer.
const TURN: Duration = Duration::from_millis(20);

impl Shared {
    pub(crate) fn attach(
        py: Python<'_>,
        location: Location,
        name: Option<&str>,
        trust: Trust,
    ) -> PyResult<Arc<Self>> {
        let failed = |error| errors::attach(py, &error);
        let name = name.map_or_else(|| program(py), |name| Ok(name.to_owned()))?;
        let options = ProducerOptions { trust, ..ProducerOptions::named(&name) };
        // An observer reads the kind of ring without a trace in it.
        let producers = match Observer::attach(&location, Start::Latest) {
            Ok(observer) => observer.layout().producers,
            Err(_) => Producers::One, // attaching returns the error
        };
        let (held, layout) = match producers {
            Producers::One => {
                let producer = perfring_producer::Producer::attach_with(&location, &options)
                    .map_err(failed)?;
                let layout = *producer.layout();
                (Held::one(producer), layout)
            }
            // Attaching to the ring of a CPU says what it is.
            Producers::Many | Producers::Cpu => {
                let producer = perfring_producer::SharedProducer::attach_with(&location, &options)
                    .map_err(failed)?;
                let layout = *producer.layout();
                (Held::many(producer), layout)
            }
        };
        let spaces = Spaces::new(held, location);
        Ok(Arc::new(Shared { spaces, layout, known: Mutex::default() }))
    }

    /// Returns the type of a record of `len` bytes, and registers it if it is more than a number.
    pub(crate) fn kind(&self, py: Python<'_>, kind: Kind<'_>, len: usize) -> PyResult<RecordType> {
        let Kind(kind, Some(of)) = kind else { return Ok(kind.0) };
        let known = lock(&self.known).iter().find(|known| known.is(&of)).map(|known| known.size);
        let size = match known {
            Some(size) => size,
            None => {
                let class = of.cast::<PyType>().ok().cloned();
                self.register(py, types::type_of(&of)?.get(), class)?
            }
        };
        match size {
            Some(size) if size as usize != len => Err(errors::bad_type(
                py,
                format!("a record of this type has {size} bytes, and not {len}"),
            )),
            _ => Ok(kind),
        }
    }

    /// Registers a type, unless the ring's table has it. Returns the size of its records, if it is
    /// the same for all. `class` is its Python class, which is recognized the next time.
    pub(crate) fn register(
        &self,
        py: Python<'_>,
        kind: &types::RecordType,
        class: Option<Bound<'_, PyType>>,
    ) -> PyResult<Option<u32>> {
        if let Some(entry) = kind.entry() {
            let done = self.spaces.with(py, |producer| match producer {
                Use::One(producer) => producer.register_entry(&entry),
                Use::Many(producer) => producer.register_entry(&entry),
            })?;
            done.map_err(|error| errors::reserve(py, error))?;
        }
        let (id, layout, size) = (kind.id, kind.layout(), kind.fixed_size());
        let class = class.map(Bound::unbind);
        let mut all = lock(&self.known);
        if class.is_some() || !all.iter().any(|of| (of.id, of.layout) == (id, layout)) {
            all.push(Known { id, layout, size, class });
        }
        Ok(size)
    }

    /// Publishes one record. Returns whether there was room within the timeout.
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
        let done = self.spaces.with(py, |producer| match producer {
            Use::One(producer) => producer.publish_as(kind, bytes),
            Use::Many(producer) => producer.publish_as(kind, bytes),
        })?;
        taken(py, done)
    }

    /// Waits for room to publish. Returns whether there was room; if not, nothing is counted.
    fn publish_in_time(
        &self,
        py: Python<'_>,
        kind: RecordType,
        bytes: &[u8],
        timeout: Timeout,
    ) -> PyResult<bool> {
        // The caller's bytes may change while this waits without the interpreter's lock.
        let bytes: Box<[u8]> = bytes.into();
        let done = self.in_time(py, timeout.begin(), |held, slice| {
            held.publish_in_time(kind, &bytes, slice)
        })?;
        Ok(done.is_some())
    }

    /// Publishes one record if there is room, without reading a clock or releasing the
    /// interpreter's lock. If there is none, nothing is counted.
    fn offer(&self, py: Python<'_>, kind: RecordType, bytes: &[u8]) -> PyResult<bool> {
        let offer = |producer: Use<'_>| match producer {
            Use::One(producer) => {
                let mut batch = producer.batch();
                let done = batch.offer(kind, bytes);
                drop(batch);
                done
            }
            Use::Many(producer) => producer.offer(kind, bytes),
        };
        let done = self.spaces.take(py)?.usable().map(|held| held.producer().map(offer));
        match done {
            Some(Ok(done)) => done.map_err(|error| errors::reserve(py, error)),
            Some(Err(StillOpen)) => Ok(false), // the caller waits for it
            None => Err(self.spaces.closed(py)),
        }
    }

    /// Waits until the open reservation of another thread has ended, in an exclusive producer.
    fn wait_to_end(&self, py: Python<'_>, timeout: Timeout) -> PyResult<()> {
        let ended = |held: &mut Held, _| held.producer().map(|_| Ok(Some(())));
        let now = self.spaces.take(py)?.usable().is_some_and(|held| ended(held, ()).is_ok());
        if !now {
            self.in_time(py, timeout.begin(), |held, _| ended(held, ()))?;
        }
        Ok(())
    }

    /// Calls `attempt` until it succeeds or the time is over, without the interpreter's lock.
    fn in_time<T: Send>(
        &self,
        py: Python<'_>,
        until: Until,
        mut attempt: impl FnMut(&mut Held, Duration) -> Tried<T> + Send,
    ) -> PyResult<Option<T>> {
        self.spaces.process.check(py)?;
        let tried = wait::slices(py, until, |slice| {
            let tried = {
                let mut turn = self.spaces.lock();
                let Some(held) = turn.usable() else { return Some(None) };
                attempt(held, slice.min(TURN))
            };
            match tried {
                Ok(Ok(None)) => None,
                // Another thread has an open reservation, and is about to end it.
                Err(StillOpen) if !slice.is_zero() => {
                    std::thread::sleep(slice.min(NAP));
                    None
                }
                tried => Some(Some(tried)),
            }
        })?;
        match tried {
            None => Ok(None),
            Some(None) => Err(self.spaces.closed(py)),
            Some(Some(tried)) => self.outcome(py, tried),
        }
    }

    fn outcome<T>(&self, py: Python<'_>, tried: Tried<T>) -> PyResult<Option<T>> {
        match tried {
            Ok(Ok(got)) => Ok(got),
            Ok(Err(error)) => Err(errors::reserve(py, error)),
            Err(StillOpen) => Err(still_open(py)),
        }
    }

    /// Opens a reservation and returns its space.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        py: Python<'_>,
        kind: RecordType,
        size: usize,
        timeout: Timeout,
    ) -> PyResult<(u64, Space)> {
        let attempt = |held: &mut Held, slice| held.reserve(kind, size, Some(slice));
        if !timeout.is_now() {
            // With room, neither a clock is read nor the interpreter's lock released.
            let now = self.open(py, |held| match attempt(held, Duration::ZERO) {
                Err(StillOpen) => Ok(Ok(None)), // it is waited for
                tried => tried,
            })?;
            if let Some(opened) = now {
                return Ok(opened);
            }
            if let Some(id) = self.in_time(py, timeout.begin(), attempt)? {
                let opened = self.open(py, |_| Ok(Ok(Some(id))))?;
                return opened.ok_or_else(|| errors::reserve(py, ReserveError::Full));
            }
        }
        let opened = self.open(py, |held| held.reserve(kind, size, None))?;
        opened.ok_or_else(|| errors::reserve(py, ReserveError::Full))
    }

    /// Returns the space of what `reserve` opens.
    fn open(
        self: &Arc<Self>,
        py: Python<'_>,
        reserve: impl FnOnce(&mut Held) -> Tried<u64>,
    ) -> PyResult<Option<(u64, Space)>> {
        let opened = self.spaces.take(py)?.usable().map(|held| {
            reserve(held).map(|reserved| {
                reserved.map(|id| {
                    let id = id?;
                    let window = held.window(id)?;
                    // Dropping it releases the space.
                    Some((id, Space { of: Arc::clone(&self.spaces), id, window }))
                })
            })
        });
        let opened = opened.ok_or_else(|| self.spaces.closed(py))?;
        self.outcome(py, opened)
    }

    /// Publishes many records, in batches. Returns how far it came, also when it fails.
    pub(crate) fn publish_all(
        &self,
        py: Python<'_>,
        records: &impl Records,
        timeout: Timeout,
    ) -> (Sent, PyResult<()>) {
        let mut sent = Sent::default();
        let done = self.publish_from(py, records, timeout, &mut sent);
        (sent, done)
    }

    fn publish_from(
        &self,
        py: Python<'_>,
        records: &impl Records,
        mut timeout: Timeout,
        sent: &mut Sent,
    ) -> PyResult<()> {
        while sent.offered < records.len() {
            let (from, waits) = (sent.offered, !timeout.is_now());
            if waits {
                self.wait_to_end(py, timeout)?;
            }
            let done = self.spaces.with(py, |producer| match producer {
                Use::One(producer) => one(producer, records, sent, waits),
                Use::Many(producer) => many(producer, &self.layout, records, sent, waits),
            })?;
            done.map_err(|error| errors::reserve(py, error))?;
            if sent.offered == from {
                // The ring is full: the next record waits. If there is no room in time, the rest
                // are published without waiting.
                let (kind, bytes) = records.get(from);
                let published = self.publish(py, kind, bytes, timeout)?;
                sent.offered += 1;
                match published {
                    true => sent.published += 1,
                    false => timeout = Timeout::NOW,
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a record was published; errors other than a lack of room are exceptions.
fn taken(py: Python<'_>, done: Result<(), ReserveError>) -> PyResult<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(ReserveError::Full | ReserveError::Contended { .. } | ReserveError::Pending { .. }) => {
            Ok(false)
        }
        Err(error) => Err(errors::reserve(py, error)),
    }
}
