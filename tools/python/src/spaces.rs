//! A producer that Python objects share, and the space of its open reservations.

use crate::errors;
use crate::fork::Process;
use crate::locks::{Leftover, lock, try_lock};
use crate::memory::held::{Held, StillOpen, Use, Window};
use perfring_producer::{Location, stat::ProducerTotals};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A producer, shared with its open reservations.
pub(crate) struct Spaces {
    state: Mutex<State>,
    pub(crate) process: Process,
    pub(crate) location: Location,
    /// Reservations whose space is dropped, and that are still to be ended.
    gone: Mutex<Vec<u64>>,
    /// Whether there are any.
    unsettled: Leftover,
}

struct State {
    /// `None` once it is closed and no reservation is open.
    held: Option<Held>,
    closing: bool,
}

/// A turn at the producer, by one thread.
pub(crate) struct Turn<'a> {
    of: &'a Spaces,
    state: Option<MutexGuard<'a, State>>,
}

impl Turn<'_> {
    /// Returns the producer; `None` if it was closed.
    pub(crate) fn usable(&mut self) -> Option<&mut Held> {
        let state = self.state.as_mut()?;
        if state.closing { None } else { state.held.as_mut() }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.state.take());
        self.of.settle(); // what others left to this thread
    }
}

impl Spaces {
    pub(crate) fn new(held: Held, location: Location) -> Arc<Self> {
        Arc::new(Spaces {
            state: Mutex::new(State { held: Some(held), closing: false }),
            process: Process::this(),
            location,
            gone: Mutex::default(),
            unsettled: Leftover::default(),
        })
    }

    /// Waits for a turn, in a thread without the interpreter's lock.
    pub(crate) fn lock(&self) -> Turn<'_> {
        let state = lock(&self.state);
        Turn { of: self, state: Some(state) }
    }

    /// Waits for a turn, in a thread that has the interpreter's lock.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Turn<'_>> {
        self.process.check(py)?;
        let state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        Ok(Turn { of: self, state: Some(state) })
    }

    /// Ends reservations whose space is dropped. If another thread has the state, that thread does
    /// it: a thread with the interpreter's lock must not wait for a state whose owner may wait for
    /// that lock.
    fn settle(&self) {
        while self.unsettled.is_left() {
            let Some(mut state) = try_lock(&self.state) else { return };
            self.unsettled.take();
            for id in std::mem::take(&mut *lock(&self.gone)) {
                state.end(id, None);
            }
            state.settle();
        }
    }

    /// Calls `f` with the producer. An exclusive one must not have an open reservation.
    pub(crate) fn with<R>(&self, py: Python<'_>, f: impl FnOnce(Use<'_>) -> R) -> PyResult<R> {
        // Exceptions are constructed after the turn: that runs Python code.
        let done = self.take(py)?.usable().map(|held| held.producer().map(f));
        match done {
            Some(Ok(done)) => Ok(done),
            Some(Err(StillOpen)) => Err(still_open(py)),
            None => Err(self.closed(py)),
        }
    }

    /// Returns the producer's totals.
    pub(crate) fn totals(&self, py: Python<'_>) -> PyResult<ProducerTotals> {
        let totals = self.take(py)?.usable().map(Held::totals);
        totals.ok_or_else(|| self.closed(py))
    }

    pub(crate) fn closed(&self, py: Python<'_>) -> PyErr {
        errors::named(py, "Closed", format!("the producer of {} was closed", self.location))
    }

    /// Ends a reservation whose space has no views, whether this was closed or not.
    pub(crate) fn end(&self, py: Python<'_>, id: u64, commit: Option<usize>) -> PyResult<()> {
        if let Some(state) = &mut self.take(py)?.state {
            state.end(id, commit);
            state.settle();
        }
        Ok(())
    }

    /// Returns false in a forked child, where every call raises `Forked`.
    pub(crate) fn is_closed(&self, py: Python<'_>) -> bool {
        self.take(py).is_ok_and(|turn| turn.state.as_ref().is_some_and(|state| state.closing))
    }

    pub(crate) fn close(&self, py: Python<'_>) {
        // In a forked child there is nothing to close.
        if let Ok(mut turn) = self.take(py)
            && let Some(state) = &mut turn.state
        {
            state.closing = true;
            state.settle();
        }
    }
}

impl State {
    fn end(&mut self, id: u64, commit: Option<usize>) {
        if let Some(held) = &mut self.held {
            held.end(id, commit);
        }
    }

    fn settle(&mut self) {
        if self.closing && self.held.as_ref().is_some_and(|held| !held.is_open()) {
            self.held = None;
        }
    }
}

/// Returns the exception for an exclusive producer's open reservation.
pub(crate) fn still_open(py: Python<'_>) -> PyErr {
    errors::named(
        py,
        "Busy",
        "a reservation of this producer is open, or a view of one still exists: end it first, \
         and delete its views",
    )
}

/// The space of an open reservation, which Python writes. The reservation stays open while this or
/// any view of it is alive.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Space {
    pub(crate) of: Arc<Spaces>,
    /// The number of the reservation.
    pub(crate) id: u64,
    pub(crate) window: Window,
}

impl Drop for Space {
    /// The last view of the space is dead.
    fn drop(&mut self) {
        if self.of.process.is_this() {
            lock(&self.of.gone).push(self.id);
            self.of.unsettled.leave();
            self.of.settle();
        }
    }
}
