//! The producer: exclusive or shared, as the ring is.

use crate::errors;
use crate::fork::Process;
use crate::kind::{At, Kind, Size};
use crate::memory::{self, Held, Space, StillOpen, Use};
use crate::reservation::{ProducerBatch, Reservation};
use crate::types;
use crate::wait::{self, Timeout};
use perfring_consumer::{Observer, Start};
use perfring_producer::{
    Count, Evict, Home, Layout, Options, Policy, Producers, RecordType, Refused, ReserveError,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

/// The most bytes of a shared ring that one batch takes.
const GROUP_MAX: u64 = 32 << 10;

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

    fn attach(py: Python<'_>, home: Home, name: Option<&str>) -> PyResult<Arc<Self>> {
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
        let mut state = self.take(py)?;
        let held = state.usable().ok_or_else(|| self.closed(py))?;
        held.producer().map(f).map_err(|error| memory::still_open(py, error))
    }

    /// What was written and refused.
    fn figures(&self, py: Python<'_>) -> PyResult<(Count, Refused)> {
        let mut state = self.take(py)?;
        state.usable().map(Held::figures).ok_or_else(|| self.closed(py))
    }

    fn closed(&self, py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", format!("the producer of {} was closed", self.home))
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
    fn register(&self, py: Python<'_>, kind: &types::RecordType) -> PyResult<Known> {
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
    fn publish(
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

    /// Waits for space; `None`, with nothing counted, if there is none in time.
    fn reserve_in_time(
        &self,
        py: Python<'_>,
        kind: RecordType,
        len: usize,
        timeout: Timeout,
    ) -> PyResult<Option<u64>> {
        self.in_time(py, timeout, |held, slice| held.reserve(kind, len, Some(slice)))
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

    fn close(&self, py: Python<'_>) {
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

/// As many records as fit, from `next` on; those that do not are lost, or left to wait for.
fn one(
    producer: &mut perfring_producer::Producer,
    records: &impl Records,
    next: &mut usize,
    published: &mut usize,
    waits: bool,
) -> Result<(), ReserveError> {
    let mut batch = producer.batch();
    while *next < records.len() {
        let (kind, bytes) = records.get(*next);
        let done = if waits {
            match batch.offer(kind, bytes)? {
                true => Ok(()),
                false => return Ok(()),
            }
        } else {
            batch.push(kind, bytes)
        };
        *next += 1;
        match done {
            Ok(()) => *published += 1,
            Err(ReserveError::Full) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As [`one`], in groups of a shared ring.
fn many(
    producer: &perfring_producer::SharedProducer,
    layout: &Layout,
    records: &impl Records,
    next: &mut usize,
    published: &mut usize,
    waits: bool,
) -> Result<(), ReserveError> {
    let most = GROUP_MAX.min(layout.data_size / 8);
    while *next < records.len() {
        let (mut end, mut bytes) = (*next, 0);
        while end < records.len() {
            let size = layout.record_size(records.get(end).1.len());
            if end > *next && bytes + size > most {
                break;
            }
            (end, bytes) = (end + 1, bytes + size);
        }
        if end - *next > 1
            && let Some(mut batch) = producer.offer_batch(bytes as usize)?
        {
            while *next < end {
                let (kind, bytes) = records.get(*next);
                if !batch.push(kind, bytes) {
                    break;
                }
                (*next, *published) = (*next + 1, *published + 1);
            }
            continue;
        }
        // One by one: those that fit, and the others are counted each.
        if waits {
            return Ok(());
        }
        for nth in *next..end {
            let (kind, bytes) = records.get(nth);
            *next = nth + 1;
            match producer.publish(kind, bytes) {
                Ok(()) => *published += 1,
                Err(
                    ReserveError::Full
                    | ReserveError::Contended { .. }
                    | ReserveError::Pending { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
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

/// What a ring shows as the name of who attached: the script, as its process's name would be
/// `python3` for all.
pub(crate) fn program(py: Python<'_>) -> PyResult<String> {
    let argv: Vec<String> = py.import("sys")?.getattr("argv")?.extract().unwrap_or_default();
    let script = argv.first().map(std::path::Path::new).and_then(|path| path.file_name());
    let script = script.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(match script.as_str() {
        "" | "-c" | "-m" => "python".to_owned(),
        _ => script,
    })
}

/// One row of a contiguous array is a record.
struct Rows<'a> {
    kind: RecordType,
    bytes: &'a [u8],
    rows: usize,
    row: usize,
}

impl Records for Rows<'_> {
    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, nth: usize) -> (RecordType, &[u8]) {
        (self.kind, &self.bytes[nth * self.row..(nth + 1) * self.row])
    }
}

/// What `perfring.Producer` is made of.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct Producer {
    shared: Arc<Shared>,
}

#[pymethods]
impl Producer {
    /// Attaches to a ring.
    #[new]
    #[pyo3(signature = (path, *, name=None))]
    fn new(py: Python<'_>, path: At, name: Option<&str>) -> PyResult<Self> {
        Ok(Producer { shared: Shared::attach(py, path.0, name)? })
    }

    /// Makes a ring.
    #[staticmethod]
    #[pyo3(signature = (path, *, size, policy, shared, slots, time, evict, mode, types_size))]
    #[expect(clippy::too_many_arguments, reason = "keywords, with names, in Python")]
    fn _make(
        py: Python<'_>,
        path: At,
        size: Size,
        policy: &str,
        shared: bool,
        slots: u32,
        time: bool,
        evict: &str,
        mode: u32,
        types_size: Size,
    ) -> PyResult<()> {
        let (policy, evict) = (policy_of(policy)?, evict_of(evict)?);
        let options = Options {
            size: size.0,
            policy,
            evict,
            producers: if shared { Producers::Many } else { Producers::One },
            slots,
            types_size: types_size.0,
            time,
            mode,
            ..Options::default()
        };
        perfring_producer::create(path.0, &options).map_err(|error| errors::create(py, &error))
    }

    /// Publish one record.
    ///
    /// Args:
    ///     data: Anything with the buffer protocol, contiguous; its bytes are copied. Or an object
    ///         of a class made by `perfring.record`, which has its type.
    ///     type: The record's type: its number, a `RecordType`, or a record's class. The ring's table
    ///         gets it, unless it is a mere number.
    ///     timeout: Seconds to wait for room, ``None`` for ever. Other threads run meanwhile.
    ///
    /// Returns:
    ///     Whether it was published. ``False``: there was no room in time, as the ring is full, or a
    ///     shared one is held up. The record is counted as lost then, and its reader is told.
    ///
    /// Raises:
    ///     TooLarge: No ring of this size can hold it; counted as lost.
    ///     Closed: The producer was closed.
    ///     Forked: This process is a forked child of the one that attached.
    #[pyo3(
        signature = (data, r#type=Kind::BYTES, *, timeout=Timeout::NOW),
        text_signature = "($self, data, type=4096, *, timeout=0.0)"
    )]
    fn publish(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        r#type: Kind<'_>,
        timeout: Timeout,
    ) -> PyResult<bool> {
        let shared = &self.shared;
        if let Some((kind, packed)) = types::object(data)? {
            return self.publish(py, &packed, kind, timeout);
        }
        memory::with_buffer(data, |bytes, _| {
            let kind = shared.kind(py, r#type, bytes.len())?;
            shared.publish(py, kind, bytes, timeout)
        })
    }

    /// Publish every item of an array, each as a record: as batches, without a call for each.
    ///
    /// Args:
    ///     array: A contiguous buffer, such as a numpy array, structured or not; of one with several
    ///         dimensions, every item of the first one is a record.
    ///     type: The type of all of them.
    ///     timeout: Seconds to wait for room for each, ``None`` for ever. Once that was in vain, the
    ///         rest goes without waiting.
    ///
    /// Returns:
    ///     How many were published. The others are counted as lost.
    ///
    /// Example:
    ///     >>> import numpy as np
    ///     >>> producer = perfring.Producer.create(tmp / "array")
    ///     >>> producer.publish_array(np.arange(1000, dtype="u8"))
    ///     1000
    #[pyo3(
        signature = (array, r#type=Kind::BYTES, *, timeout=Timeout::NOW),
        text_signature = "($self, array, type=4096, *, timeout=0.0)"
    )]
    fn publish_array(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        r#type: Kind<'_>,
        timeout: Timeout,
    ) -> PyResult<usize> {
        memory::with_buffer(array, |bytes, rows| {
            let row = bytes.len().checked_div(rows).unwrap_or(0);
            let kind = self.shared.kind(py, r#type, row)?;
            let rows = Rows { kind, bytes, rows, row };
            self.shared.publish_all(py, &rows, timeout)
        })
    }

    /// Put a type into the ring's table, so that readers see its fields by name.
    ///
    /// What publishes under a `RecordType` or a record's class does so by itself: this is for doing it,
    /// and knowing that it can be done, at the start.
    ///
    /// Args:
    ///     what: A class made by `perfring.record`, or a `RecordType`, of `perfring.record_type` or of
    ///         another ring's table.
    ///
    /// Returns:
    ///     The type.
    ///
    /// Raises:
    ///     BadType: The table is full, or has another type by this number.
    fn register(&self, py: Python<'_>, what: &Bound<'_, PyAny>) -> PyResult<Py<types::RecordType>> {
        let kind = types::type_of(what)?;
        self.shared.register(py, kind.get())?;
        Ok(kind.unbind())
    }

    /// Space for a record of ``size`` bytes, in the ring, to be written in place.
    ///
    /// ``with producer.reserve(n) as view`` commits it at the end of the block, and discards it if
    /// the block raises. The bytes are what the ring last held there: write all of them. An exclusive
    /// producer has one reservation open at a time; of a shared one, nothing younger is seen while one
    /// is open.
    ///
    /// Raises:
    ///     Full: There is no space, within ``timeout`` seconds; counted as lost.
    ///     TooLarge: No ring of this size can hold it; counted as lost.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "place")
    ///     >>> with producer.reserve(4) as view:
    ///     ...     view[:] = b"1234"
    ///     >>> reservation = producer.reserve(80)
    ///     >>> reservation.view[:5] = b"hello"
    ///     >>> reservation.commit(5)  # shorter than reserved: the rest is given back
    #[pyo3(
        signature = (size, r#type=Kind::BYTES, *, timeout=Timeout::NOW),
        text_signature = "($self, size, type=4096, *, timeout=0.0)"
    )]
    fn reserve(
        &self,
        py: Python<'_>,
        size: usize,
        r#type: Kind<'_>,
        timeout: Timeout,
    ) -> PyResult<Reservation> {
        let shared = &self.shared;
        let kind = shared.kind(py, r#type, size)?;
        let waited = match timeout.is_now() {
            true => None,
            false => shared.reserve_in_time(py, kind, size, timeout)?,
        };
        let mut state = shared.take(py)?;
        let held = state.usable().ok_or_else(|| shared.closed(py))?;
        let id = match waited {
            Some(id) => id,
            None => match held.reserve(kind, size, None) {
                Ok(Ok(Some(id))) => id,
                Ok(Ok(None)) => return Err(errors::reserve(py, ReserveError::Full)),
                Ok(Err(error)) => return Err(errors::reserve(py, error)),
                Err(still_open) => return Err(memory::still_open(py, still_open)),
            },
        };
        let Some(bytes) = held.bytes(id) else { return Err(shared.closed(py)) };
        let space = Space::new(Arc::clone(shared), id, bytes);
        drop(state); // if the object cannot be made, the space gives itself back
        Reservation::new(py, Arc::clone(shared), id, size, Py::new(py, space)?)
    }

    /// Records that are put together first, and published at once at the end of a ``with`` block.
    ///
    /// If the block raises, none of them is published. See `ProducerBatch`.
    ///
    /// Example:
    ///     >>> producer = perfring.Producer.create(tmp / "batch")
    ///     >>> with producer.batch() as batch:
    ///     ...     for n in range(3):
    ///     ...         batch.publish(b"%d" % n)
    ///     >>> batch.published, batch.lost
    ///     (3, 0)
    #[pyo3(
        signature = (*, timeout=Timeout::NOW),
        text_signature = "($self, *, timeout=0.0)"
    )]
    fn batch(&self, timeout: Timeout) -> ProducerBatch {
        ProducerBatch::new(Arc::clone(&self.shared), timeout)
    }

    /// Records, and bytes, written since the ring was made, by this producer and those before it; in
    /// a shared ring, by those who had its slot.
    #[getter]
    fn written(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let (written, _) = self.shared.figures(py)?;
        Ok((written.records, written.bytes))
    }

    /// Records that were refused, by cause, since the ring was made.
    #[getter]
    fn refused<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (_, Refused { full, too_large, contended, pending }) = self.shared.figures(py)?;
        let dict = PyDict::new(py);
        let causes: [(&str, Count); 4] = [
            ("full", full),
            ("too_large", too_large),
            ("contended", contended),
            ("pending", pending),
        ];
        for (cause, count) in causes {
            dict.set_item(cause, count.records)?;
        }
        Ok(dict)
    }

    /// The longest payload that this ring takes, in bytes.
    #[getter]
    fn max_len(&self) -> usize {
        self.shared.layout.max_len()
    }

    /// Where the ring is.
    #[getter]
    fn path(&self) -> String {
        self.shared.home.to_string()
    }

    /// ``"drop"`` or ``"overwrite"``.
    #[getter]
    fn policy(&self) -> &'static str {
        self.shared.layout.policy.name()
    }

    /// Whether the ring is for many producers at a time.
    #[getter(shared)]
    fn is_shared(&self) -> bool {
        self.shared.layout.producers == Producers::Many
    }

    /// Whether records are stamped.
    #[getter]
    fn timed(&self) -> bool {
        self.shared.layout.time
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        // In a forked child it is of no use, which is another thing: what is called says so.
        self.shared.take(py).is_ok_and(|state| state.closing)
    }

    /// Free the place for the next producer. What is open is discarded; it is waited for views of
    /// that which are still there. A second time does nothing.
    fn close(&self, py: Python<'_>) {
        self.shared.close(py);
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        if slf.get().closed(py) {
            return Err(slf.get().shared.closed(py));
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let closed = if self.closed(py) { ", closed" } else { "" };
        let kind = self.shared.layout.producers.name();
        format!("<perfring.Producer {} ({}, {kind}{closed})>", self.path(), self.policy())
    }
}

pub(crate) fn policy_of(given: &str) -> PyResult<Policy> {
    match given {
        "drop" => Ok(Policy::Drop),
        "overwrite" => Ok(Policy::Overwrite),
        other => Err(choice("policy", other, "\"drop\" or \"overwrite\"")),
    }
}

pub(crate) fn evict_of(given: &str) -> PyResult<Evict> {
    match given {
        "exact" => Ok(Evict::Exact),
        "half" => Ok(Evict::Half),
        other => Err(choice("evict", other, "\"exact\" or \"half\"")),
    }
}

fn choice(name: &str, given: &str, choices: &str) -> PyErr {
    PyValueError::new_err(format!("{name} {given:?} is none: it is {choices}"))
}
