//! What each thread has: producers of the sinks that it writes to, and buffers to make records in.

use crate::sink::Ring;
use perfring_producer::{ReserveError, SharedProducer};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

/// A producer and how many bytes it has published that the sink has not counted.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) producer: SharedProducer,
    pub(crate) bytes: Cell<u64>,
    /// Another producer was in the way for too long when it last published.
    pub(crate) held_up: Cell<bool>,
}

impl Handle {
    pub(crate) fn new(producer: SharedProducer) -> Self {
        Handle { producer, bytes: Cell::new(0), held_up: Cell::new(false) }
    }
}

/// A thread's place at a sink.
struct Place {
    /// Keeps the address from being given to another sink.
    ring: Weak<Ring>,
    /// None if there was no slot left: then the sink's own producer does it.
    handle: Option<Handle>,
    /// Without a handle: calls until the next try to get one.
    patience: Cell<u32>,
    /// The process that has tried.
    pid: u32,
}

/// Calls between two tries to get a slot where there was none: a try costs some 100 µs.
const PATIENCE: u32 = 4096;
/// Buffers that a thread keeps: one for each record that is in the making, and a record in the
/// making may make another.
const BUFFERS: usize = 8;
/// A buffer's first size. Most records fit.
const BUFFER: usize = 1024;

struct Local {
    places: RefCell<Vec<Place>>,
    buffers: RefCell<Vec<Vec<u8>>>,
}

thread_local! {
    // At the thread's end the producers go, and with that their slots are free.
    static LOCAL: Local =
        const { Local { places: RefCell::new(Vec::new()), buffers: RefCell::new(Vec::new()) } };
}

/// An empty buffer.
pub(crate) fn take_buffer() -> Vec<u8> {
    let kept = LOCAL.try_with(|local| local.buffers.try_borrow_mut().ok()?.pop());
    kept.ok().flatten().unwrap_or_else(|| Vec::with_capacity(BUFFER))
}

/// Gives it back.
pub(crate) fn give_buffer(mut buffer: Vec<u8>) {
    buffer.clear();
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut buffers) = local.buffers.try_borrow_mut()
            && buffers.len() < BUFFERS
        {
            buffers.push(buffer);
        }
    });
}

/// Does this with the thread's own producer. `None` if it has none, or no longer; `Forked` if it would
/// get one now, and this is not the process with this pid.
pub(crate) fn with<R>(
    ring: &Arc<Ring>,
    pid: u32,
    act: impl Fn(&Handle) -> Result<R, ReserveError>,
) -> Option<Result<R, ReserveError>> {
    LOCAL.try_with(|local| local.with(ring, pid, act)).ok().flatten()
}

/// Forgets the thread's producer: in a forked child it is the parent's. That this process has found no
/// slot is remembered, or else each record would try again.
pub(crate) fn forget(ring: &Arc<Ring>) {
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut places) = local.places.try_borrow_mut() {
            let stays = |place: &Place| place.handle.is_none() && place.pid == std::process::id();
            places.retain(|place| !place.is_of(ring) || stays(place));
        }
    });
}

/// Gives back the thread's slots at sinks that are gone. (Other threads do so when they next attach
/// to a sink, or end.)
pub(crate) fn sweep() {
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut places) = local.places.try_borrow_mut() {
            places.retain(|place| place.ring.strong_count() > 0);
        }
    });
}

impl Place {
    #[inline(always)]
    fn is_of(&self, ring: &Arc<Ring>) -> bool {
        Weak::as_ptr(&self.ring) == Arc::as_ptr(ring)
    }
}

impl Local {
    #[inline(always)]
    fn with<R>(
        &self,
        ring: &Arc<Ring>,
        pid: u32,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Option<Result<R, ReserveError>> {
        let places = self.places.try_borrow().ok()?;
        if let Some(place) = places.iter().find(|place| place.is_of(ring)) {
            if let Some(handle) = &place.handle {
                return Some(act(handle));
            }
            if let Some(left) = place.patience.get().checked_sub(1) {
                place.patience.set(left);
                return None;
            }
        }
        drop(places);
        // A thread that has no producer from before the fork learns only here that there was one.
        if std::process::id() != pid {
            return Some(Err(ReserveError::Forked));
        }
        self.attach(ring)?;
        let places = self.places.try_borrow().ok()?;
        let place = places.iter().find(|place| place.is_of(ring))?;
        place.handle.as_ref().map(act)
    }

    #[cold]
    #[inline(never)]
    fn attach(&self, ring: &Arc<Ring>) -> Option<()> {
        let handle = ring.attach().map(Handle::new);
        let (patience, pid) = (Cell::new(PATIENCE), std::process::id());
        let place = Place { ring: Arc::downgrade(ring), handle, patience, pid };
        let mut places = self.places.try_borrow_mut().ok()?;
        places.retain(|place| place.ring.strong_count() > 0 && !place.is_of(ring));
        places.push(place);
        Some(())
    }
}
