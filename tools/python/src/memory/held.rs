//! A producer, and its open reservations, whose space Python writes.

use perfring_producer::{
    Producer, RecordType, Reservation, ReserveError, SharedProducer, stat::ProducerTotals,
};
use pyo3::prelude::*;
use pyo3::{PyClass, ffi};
use std::ptr::NonNull;
use std::time::Duration;

/// A producer and its open reservations.
pub(crate) struct Held {
    /// The few open reservations, with their numbers.
    open: Vec<(u64, Open)>,
    next: u64,
    /// As of the last call that could read them.
    totals: ProducerTotals,
    producer: Owned,
}

enum Owned {
    One(NonNull<Producer>),
    Many(NonNull<SharedProducer>),
}

enum Open {
    One(Reservation<'static, Producer>),
    Many(Reservation<'static, SharedProducer>),
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
        let producer = Owned::One(NonNull::from(Box::leak(Box::new(producer))));
        Held { open: Vec::new(), next: 0, totals: ProducerTotals::default(), producer }
    }

    pub(crate) fn many(producer: SharedProducer) -> Self {
        let producer = Owned::Many(NonNull::from(Box::leak(Box::new(producer))));
        Held { open: Vec::new(), next: 0, totals: ProducerTotals::default(), producer }
    }

    /// Returns the producer; an exclusive one only while it has no open reservation.
    pub(crate) fn producer(&mut self) -> Result<Use<'_>, StillOpen> {
        match self.producer {
            Owned::One(_) if !self.open.is_empty() => Err(StillOpen),
            // SAFETY: made by `one`, freed by `drop` alone; nothing else points to it, as nothing
            // is open, and `&mut self` lasts as long as the reference.
            Owned::One(mut producer) => Ok(Use::One(unsafe { producer.as_mut() })),
            // SAFETY: as above; reservations that are open share it.
            Owned::Many(producer) => Ok(Use::Many(unsafe { producer.as_ref() })),
        }
    }

    /// Opens a reservation. Returns `None` if there was no room within `wait`.
    pub(crate) fn reserve(
        &mut self,
        kind: RecordType,
        len: usize,
        wait: Option<Duration>,
    ) -> Result<Result<Option<u64>, ReserveError>, StillOpen> {
        self.totals();
        let open = match self.producer()? {
            Use::One(producer) => {
                let opened = match wait {
                    None => producer.reserve(kind, len).map(Some),
                    Some(wait) => producer.offer_timeout(kind, len, wait),
                };
                match opened {
                    // SAFETY: the producer is not moved until `self` is dropped, where what is open
                    // ends first; and is not touched by others while this is open, see `producer`.
                    Ok(Some(open)) => Open::One(unsafe {
                        std::mem::transmute::<
                            Reservation<'_, Producer>,
                            Reservation<'static, Producer>,
                        >(open)
                    }),
                    Ok(None) => return Ok(Ok(None)),
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
                        std::mem::transmute::<
                            Reservation<'_, SharedProducer>,
                            Reservation<'static, SharedProducer>,
                        >(open)
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

    /// Publishes a record. Returns `None` if there was no room within `wait`.
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

    /// Returns the totals. While an exclusive producer has a reservation open, they are those from
    /// before it.
    pub(crate) fn totals(&mut self) -> ProducerTotals {
        if let Ok(producer) = self.producer() {
            self.totals = match producer {
                Use::One(producer) => producer.totals(),
                Use::Many(producer) => producer.totals(),
            };
        }
        self.totals
    }

    /// Returns the location of an open reservation's bytes.
    pub(crate) fn window(&mut self, id: u64) -> Option<Window> {
        self.bytes(id)
            .map(|bytes| Window { start: NonNull::from(&mut *bytes).cast(), len: bytes.len() })
    }

    fn bytes(&mut self, id: u64) -> Option<&mut [u8]> {
        let (_, open) = self.open.iter_mut().find(|(open, _)| *open == id)?;
        Some(match open {
            Open::One(open) => open,
            Open::Many(open) => open,
        })
    }

    /// Commits the first `len` bytes of an open reservation, or discards it. Does nothing if it has
    /// ended.
    pub(crate) fn end(&mut self, id: u64, commit: Option<usize>) {
        let Some(at) = self.open.iter().position(|(open, _)| *open == id) else { return };
        match (self.open.swap_remove(at).1, commit) {
            (Open::One(open), Some(len)) => open.commit_len(len),
            (Open::Many(open), Some(len)) => open.commit_len(len),
            (open, None) => drop(open),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.open.clear();
        match self.producer {
            // SAFETY: made by `one` from a box, and nothing points to it any more.
            Owned::One(producer) => drop(unsafe { Box::from_raw(producer.as_ptr()) }),
            // SAFETY: as above, by `many`.
            Owned::Many(producer) => drop(unsafe { Box::from_raw(producer.as_ptr()) }),
        }
    }
}

/// The location of a reservation's bytes, for as long as it is open.
pub(crate) struct Window {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are those of an open reservation, which only holders of a view touch; a program
// that writes one view from two threads races with itself, as with any `bytearray`.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    pub(crate) fn export(&self) -> (*mut u8, usize) {
        (self.start.as_ptr(), self.len)
    }
}

/// Returns whether only the caller, which has one reference, can reach the object. Each buffer that
/// it exported has a reference, too.
pub(crate) fn is_only_reference<T: PyClass>(this: &Py<T>, py: Python<'_>) -> bool {
    // The GIL is held (`py`), so nobody makes another reference before the caller lets go of it. The module asks for the GIL
    // also in an interpreter that can do without: there the count would say nothing, as others change it meanwhile.
    // SAFETY: `this` is a reference, so the object is there.
    (unsafe { ffi::Py_REFCNT(this.bind(py).as_ptr()) }) == 1
}
