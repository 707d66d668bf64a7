//! All memory that Python sees without a copy, and the only unsafe code of the package.
//!
//! Two kinds of it: bytes that readers were given ([`Pinned`]), which nobody writes while their
//! record is pinned; and the space of open reservations ([`Held`]), which only this process
//! writes. Both live in a mapping of a ring, which lives as long as its producer or consumer does;
//! whoever has such memory keeps that alive.
//!
//! What is exported to Python is exported by an object that keeps the memory, so that it stays while
//! the object does: also for users of the buffer protocol that give the buffer back and keep only a
//! reference to its owner, as `numpy.ndarray(buffer=...)` does.
#![allow(unsafe_code)]

use crate::batch::{Batch, Span};
use crate::errors;
use crate::reader::{Reader, Source};
use crate::record::Record;
use crate::sender;
use perfring_producer::{
    Count, Producer, RecordType, Refused, Reservation, ReserveError, SharedProducer,
    SharedReservation,
};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyClass, ffi};
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Calls `f` with the bytes of an object with the buffer protocol, and the number of items of its
/// first dimension (1 if it has none).
pub(crate) fn with_buffer<R>(
    given: &Bound<'_, PyAny>,
    f: impl FnOnce(&[u8], usize) -> PyResult<R>,
) -> PyResult<R> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return f(bytes, bytes.len());
    }
    refuse_objects(given)?;
    let buffer = Buffer::get(given)?;
    let (bytes, items) = buffer.bytes();
    f(bytes, items)
}

/// What is behind the pointers of an array of objects is of no use to any other process.
fn refuse_objects(given: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = given.py();
    if let Some(dtype) = given.getattr_opt(pyo3::intern!(py, "dtype"))?
        && let Some(objects) = dtype.getattr_opt(pyo3::intern!(py, "hasobject"))?
        && objects.is_truthy()?
    {
        return Err(PyTypeError::new_err(
            "an array of Python objects holds pointers, which no reader can use: give it a dtype of \
             numbers or bytes",
        ));
    }
    Ok(())
}

/// The contiguous bytes of an object, until they are given back.
struct Buffer {
    view: Box<ffi::Py_buffer>,
}

impl Buffer {
    fn get(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the interpreter is attached, and fills `view` or leaves it; its place in memory
        // stays, as some exporters ask.
        let got = unsafe { ffi::PyObject_GetBuffer(given.as_ptr(), &mut *view, ffi::PyBUF_ND) };
        if got != 0 {
            let error = PyErr::fetch(given.py());
            if error.is_instance_of::<PyBufferError>(given.py()) {
                return Err(PyBufferError::new_err(format!(
                    "{}: give a contiguous buffer, such as numpy.ascontiguousarray makes",
                    error.value(given.py())
                )));
            }
            return Err(error);
        }
        Ok(Buffer { view })
    }

    /// The bytes, and the number of items of the first dimension: 1 if it has none.
    fn bytes(&self) -> (&[u8], usize) {
        let view = &*self.view;
        let len = view.len.max(0) as usize;
        let bytes = if len == 0 || view.buf.is_null() {
            &[]
        } else {
            // SAFETY: the exporter keeps so many bytes there until the buffer is given back, which
            // is when `self` is dropped. Asked for without strides, they are contiguous. Python code
            // that writes them at this moment, in a thread of its own without the interpreter's
            // lock, races with this read as it does with any other reader of that object; what is
            // done with the bytes is to copy them.
            unsafe { std::slice::from_raw_parts(view.buf.cast::<u8>(), len) }
        };
        let items = if view.ndim < 1 || view.shape.is_null() {
            1
        } else {
            // SAFETY: `ndim` numbers stand there, and it is at least one.
            unsafe { *view.shape }.max(0) as usize
        };
        (bytes, items)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `view` was filled by `PyObject_GetBuffer`; this lives only in a call from Python,
        // which has the interpreter, and what is done inside gives that away for a while at most.
        unsafe { ffi::PyBuffer_Release(&mut *self.view) };
    }
}

/// Bytes that stand still, somewhere in a ring's mapping.
#[derive(Debug)]
pub(crate) struct Pinned {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody writes the bytes while this lives (see `new`), so any thread may read them.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// # Safety
    /// `len` bytes from `start` on are mapped, and nobody writes them, for as long as this lives:
    /// they are records before `data_head` of a drop ring whose consumer is this process, lives
    /// longer, and does not move the tail past them. A process that breaks the protocol can still
    /// change them under a reader; no code of the package relies on them but to copy them.
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> Self {
        // A pointer from a slice or a mapping is never null; if it were, there is nothing.
        match NonNull::new(start.cast_mut()) {
            Some(start) => Pinned { start, len },
            None => Pinned { start: NonNull::dangling(), len: 0 },
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the promise of `new`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// The payload of a record that the consumer of a drop ring has just lent, to [`Reader::next`] alone.
pub(crate) fn pinned(bytes: &[u8], _of: &Arc<Reader>) -> Pinned {
    // SAFETY: the consumer is on hold (`Reader::new`), so the tail stays before the record until
    // `Reader::settle` moves it, which waits for the cell that is to own this; the cell keeps the
    // reader, and that the mapping.
    unsafe { Pinned::new(bytes.as_ptr(), bytes.len()) }
}

/// The ring's bytes from `start` up to what was read, of the consumer of a drop ring, for
/// [`Reader::pin`] alone: `start` is where it began to read. Nothing of an overwrite ring.
pub(crate) fn pinned_span(source: &mut Source, start: u64, _of: &Arc<Reader>) -> Pinned {
    let Source::Consumer(consumer) = source else {
        // SAFETY: of no bytes at all.
        return unsafe { Pinned::new(std::ptr::null(), 0) };
    };
    let (end, data_offset) = (consumer.mark().pos, consumer.layout().data_offset());
    let Some(raw) = consumer.raw() else {
        // SAFETY: as above.
        return unsafe { Pinned::new(std::ptr::null(), 0) };
    };
    let ring = raw.ring();
    let at = data_offset + (start & (ring.data_size() - 1));
    let len = (end - start).min(ring.data_size());
    // SAFETY: as for `pinned`, of all records between. The data area is mapped twice in a row, so a
    // span of up to its size stands in one piece wherever it begins.
    unsafe { Pinned::new(ring.base().wrapping_add(at as usize), len as usize) }
}

/// A producer and what of it is open in Python's hands.
pub(crate) struct Held {
    /// By the number of the reservation. Few.
    open: Vec<(u64, Open)>,
    next: u64,
    /// When they were last to be had.
    figures: (Count, Refused),
    door: Door,
}

enum Door {
    One(NonNull<Producer>),
    Many(NonNull<SharedProducer>),
}

enum Open {
    One(Reservation<'static>),
    Many(SharedReservation<'static>),
}

/// A producer, to use for a moment.
pub(crate) enum Use<'a> {
    One(&'a mut Producer),
    Many(&'a SharedProducer),
}

/// An exclusive producer has one reservation at a time.
pub(crate) struct StillOpen;

// SAFETY: producers can be sent to other threads. A shared one's reservations point to it and go
// with it: all of them are reached through this value alone, which its owner has behind a lock.
unsafe impl Send for Held {}

impl Held {
    pub(crate) fn one(producer: Producer) -> Self {
        let door = Door::One(NonNull::from(Box::leak(Box::new(producer))));
        Held { open: Vec::new(), next: 0, figures: Default::default(), door }
    }

    pub(crate) fn many(producer: SharedProducer) -> Self {
        let door = Door::Many(NonNull::from(Box::leak(Box::new(producer))));
        Held { open: Vec::new(), next: 0, figures: Default::default(), door }
    }

    /// The producer; an exclusive one only while it has nothing open.
    pub(crate) fn producer(&mut self) -> Result<Use<'_>, StillOpen> {
        match self.door {
            Door::One(_) if !self.open.is_empty() => Err(StillOpen),
            // SAFETY: made by `one`, freed by `drop` alone; nothing else points to it, as nothing
            // is open, and `&mut self` lasts as long as the reference.
            Door::One(mut producer) => Ok(Use::One(unsafe { producer.as_mut() })),
            // SAFETY: as above; reservations that are open share it.
            Door::Many(producer) => Ok(Use::Many(unsafe { producer.as_ref() })),
        }
    }

    /// Opens a reservation. `None` if it was waited for in vain.
    pub(crate) fn reserve(
        &mut self,
        kind: RecordType,
        len: usize,
        wait: Option<Duration>,
    ) -> Result<Result<Option<u64>, ReserveError>, StillOpen> {
        self.figures();
        let open = match self.producer()? {
            Use::One(producer) => {
                match wait.map(|wait| producer.wait_for_room(len, wait)) {
                    None | Some(Ok(true)) => {}
                    Some(Ok(false)) => return Ok(Ok(None)),
                    Some(Err(error)) => return Ok(Err(error)),
                }
                match producer.reserve(kind, len) {
                    // SAFETY: the producer stands still until `self` is dropped, where what is open
                    // ends first; and is not touched by others while this is open, see `producer`.
                    Ok(open) => Open::One(unsafe {
                        std::mem::transmute::<Reservation<'_>, Reservation<'static>>(open)
                    }),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Use::Many(producer) => {
                let opened = match wait {
                    None => producer.reserve(kind, len).map(Some),
                    Some(wait) => producer.offer_timeout(kind, len, wait),
                };
                match opened {
                    // SAFETY: as above; others may share it meanwhile.
                    Ok(Some(open)) => Open::Many(unsafe {
                        std::mem::transmute::<SharedReservation<'_>, SharedReservation<'static>>(
                            open,
                        )
                    }),
                    Ok(None) => return Ok(Ok(None)),
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        let id = self.next;
        self.next += 1;
        self.open.push((id, open));
        Ok(Ok(Some(id)))
    }

    /// Publishes a record; waits for room as [`Held::reserve`] does. `None` if that was in vain.
    pub(crate) fn publish_in_time(
        &mut self,
        kind: RecordType,
        payload: &[u8],
        wait: Duration,
    ) -> Result<Result<Option<()>, ReserveError>, StillOpen> {
        let reserved = self.reserve(kind, payload.len(), Some(wait))?;
        Ok(reserved.map(|reserved| {
            reserved.map(|id| {
                if let Some(space) = self.bytes(id) {
                    space.copy_from_slice(payload);
                }
                self.end(id, Some(payload.len()));
            })
        }))
    }

    /// What was written and refused: by an exclusive producer, while it has something open, up to then.
    pub(crate) fn figures(&mut self) -> (Count, Refused) {
        if let Ok(producer) = self.producer() {
            let now = match producer {
                Use::One(producer) => (producer.book().written, producer.book().refused),
                Use::Many(producer) => (producer.written(), producer.refused()),
            };
            self.figures = now;
        }
        self.figures
    }

    /// The bytes of an open reservation.
    pub(crate) fn bytes(&mut self, id: u64) -> Option<&mut [u8]> {
        let (_, open) = self.open.iter_mut().find(|(open, _)| *open == id)?;
        Some(match open {
            Open::One(open) => open,
            Open::Many(open) => open,
        })
    }

    /// Commits the first `len` bytes of an open reservation, or gives it back. Nothing is done if it
    /// has ended.
    pub(crate) fn end(&mut self, id: u64, commit: Option<usize>) {
        let Some(at) = self.open.iter().position(|(open, _)| *open == id) else { return };
        match (self.open.swap_remove(at).1, commit) {
            (Open::One(open), Some(len)) => open.commit_len(len),
            (Open::Many(open), Some(len)) => open.commit_len(len),
            (open, None) => drop(open),
        }
    }

    /// Whether anything is open.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.open.clear();
        match self.door {
            // SAFETY: made by `one` from a box, and nothing points to it any more.
            Door::One(producer) => drop(unsafe { Box::from_raw(producer.as_ptr()) }),
            // SAFETY: as above, by `many`.
            Door::Many(producer) => drop(unsafe { Box::from_raw(producer.as_ptr()) }),
        }
    }
}

/// The space of an open reservation, as Python writes it. The reservation stays open while this or
/// any view of it is there.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Space {
    owner: Arc<sender::Shared>,
    id: u64,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are those of an open reservation, which only whoever has a view of this object
// touches; a program that writes one view from two threads races with itself, as with any
// `bytearray`.
unsafe impl Send for Space {}
// SAFETY: as above.
unsafe impl Sync for Space {}

impl Space {
    /// Of the reservation `id` of `owner`, which has these bytes and stays open until this is
    /// dropped or found free by [`Space::is_free`].
    pub(crate) fn new(owner: Arc<sender::Shared>, id: u64, bytes: &mut [u8]) -> Self {
        let (start, len) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        Space { owner, id, start, len }
    }

    /// Whether nobody but the caller, who has one reference, can reach the bytes: each buffer that
    /// was given out has a reference, too.
    pub(crate) fn is_free(this: &Py<Space>, py: Python<'_>) -> bool {
        // SAFETY: `this` is a reference, so the object is there.
        (unsafe { ffi::Py_REFCNT(this.bind(py).as_ptr()) }) == 1
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.owner.space_is_gone(self.id);
    }
}

#[pymethods]
impl Space {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let (start, len) = (this.start.as_ptr(), this.len);
        // SAFETY: the caller's promise for `view`; the bytes stay while the object does.
        unsafe { fill(&slf, view, start, len, Access::Write, flags) }
    }
}

#[pymethods]
impl Record {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, len) = slf.get().export(slf.py())?;
        // SAFETY: the caller's promise for `view`; what was exported stays while the record does.
        unsafe { fill(&slf, view, start.cast_mut(), len, Access::Read, flags) }
    }
}

#[pymethods]
impl Batch {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().export()?;
        // SAFETY: the caller's promise for `view`; a batch's bytes stay while it does.
        unsafe { fill(&slf, view, bytes.as_ptr().cast_mut(), bytes.len(), Access::Read, flags) }
    }
}

#[pymethods]
impl Span {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().bytes();
        // SAFETY: the caller's promise for `view`; the batch stays as long as this.
        unsafe { fill(&slf, view, bytes.as_ptr().cast_mut(), bytes.len(), Access::Read, flags) }
    }
}

enum Access {
    Read,
    Write,
}

/// # Safety
/// `view` is one that the interpreter gave to `__getbuffer__` of `owner`; `len` bytes at `start` stay
/// there while `owner` does, and may be written if `access` says so.
unsafe fn fill<T: PyClass>(
    owner: &Bound<'_, T>,
    view: *mut ffi::Py_buffer,
    start: *mut u8,
    len: usize,
    access: Access,
    flags: c_int,
) -> PyResult<()> {
    let read_only = c_int::from(matches!(access, Access::Read));
    // SAFETY: the promise of this function; it takes a reference to `owner`.
    let done = unsafe {
        ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start.cast(), len as isize, read_only, flags)
    };
    match done {
        0 => Ok(()),
        _ => Err(PyErr::fetch(owner.py())),
    }
}

/// The exception for what an exclusive producer has open.
pub(crate) fn still_open(py: Python<'_>, _: StillOpen) -> PyErr {
    errors::named(
        py,
        "Busy",
        "a reservation of this producer is open, or a view of one is still there: end it first, \
         and let go of its views",
    )
}
