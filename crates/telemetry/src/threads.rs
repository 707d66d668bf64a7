//! Per thread: a producer of each ring that the thread writes to, and buffers for records under construction.

use crate::handle::Handle;
use crate::place::Place;
use perfring_producer::ReserveError;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

/// A thread's attachment to a sink.
struct Attachment {
    /// The place's address.
    key: usize,
    /// Keeps the address from being reused for another sink.
    place: Weak<Place>,
    /// `None` if no slot was free: then the sink's own producer publishes.
    handle: Option<Handle>,
    /// Without a handle: calls until the next attempt to get one.
    patience: Cell<u32>,
    /// The process that made the last attempt.
    pid: u32,
}

/// Calls between two attempts to get a slot when none was free: an attempt costs some 100 µs.
const TRIES: u32 = 4096;
/// A buffer's initial capacity; most records fit.
const BUFFER: usize = 1024;

/// A buffer for a record under construction.
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    next: Option<Box<Buffer>>,
}

struct Local {
    attachments: RefCell<Vec<Attachment>>,
    /// The thread's free buffers: more than one if formatting a value has published another record.
    buffers: Cell<Option<Box<Buffer>>>,
}

thread_local! {
    // At the thread's end its producers are dropped, which frees their slots.
    static LOCAL: Local =
        const {
            Local {
                attachments: RefCell::new(Vec::new()),
                buffers: Cell::new(None),
            }
        };
}

/// Returns an empty buffer.
#[inline(always)]
pub(crate) fn take_buffer() -> Box<Buffer> {
    let taken = LOCAL.try_with(|local| {
        let mut buffer = local.buffers.take()?;
        // What is forgotten here and below is `None`, and need not be asked whether to drop it.
        std::mem::forget(local.buffers.replace(buffer.next.take()));
        Some(buffer)
    });
    let mut buffer = taken.ok().flatten().unwrap_or_else(new_buffer);
    buffer.bytes.clear();
    buffer
}

#[cold]
#[inline(never)]
fn new_buffer() -> Box<Buffer> {
    Box::new(Buffer { bytes: Vec::with_capacity(BUFFER), next: None })
}

/// Returns a buffer to the thread.
#[inline(always)]
pub(crate) fn give_buffer(mut buffer: Box<Buffer>) {
    let _ = LOCAL.try_with(|local| {
        std::mem::forget(std::mem::replace(&mut buffer.next, local.buffers.take()));
        std::mem::forget(local.buffers.replace(Some(buffer)));
    });
}

/// Calls `act` with the thread's own producer. `None` if it has none, or no longer; `Forked` if it would
/// get one now, and this is not the process with this pid.
pub(crate) fn with<R>(
    place: &Arc<Place>,
    pid: u32,
    attach: impl FnOnce() -> Option<Handle>,
    act: impl Fn(&Handle) -> Result<R, ReserveError>,
) -> Option<Result<R, ReserveError>> {
    LOCAL.try_with(|local| local.with(place, pid, attach, act)).ok().flatten()
}

/// Asks the thread's own producer. False if there is none.
#[inline(always)]
pub(crate) fn ask(place: &Arc<Place>, ask: impl FnOnce(&Handle) -> bool) -> bool {
    let asked = LOCAL.try_with(|local| {
        let Ok(attachments) = local.attachments.try_borrow() else { return false };
        let attachment = attachments.iter().find(|attachment| attachment.is_of(place));
        attachment.and_then(|attachment| attachment.handle.as_ref()).is_some_and(ask)
    });
    asked.unwrap_or(false)
}

/// Calls `act` with the thread's own producer, to replace it. `None` if it has none, or no longer.
pub(crate) fn with_own<R>(place: &Arc<Place>, act: impl Fn(&mut Handle) -> R) -> Option<R> {
    let done = LOCAL.try_with(|local| {
        let mut attachments = local.attachments.try_borrow_mut().ok()?;
        let attachment = attachments.iter_mut().find(|attachment| attachment.is_of(place))?;
        attachment.handle.as_mut().map(act)
    });
    done.ok().flatten()
}

/// Drops the thread's producer: in a forked child it is the parent's. Keeps the note that this process
/// found no slot, or else each record would try again.
pub(crate) fn forget(place: &Arc<Place>) {
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut attachments) = local.attachments.try_borrow_mut() {
            let stays = |attachment: &Attachment| {
                attachment.handle.is_none() && attachment.pid == std::process::id()
            };
            attachments.retain(|attachment| !attachment.is_of(place) || stays(attachment));
        }
    });
}

/// Frees the thread's slot of a sink that is being dropped. Other threads do so when they next attach to a sink, or end.
pub(crate) fn sweep(place: &Arc<Place>) {
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut attachments) = local.attachments.try_borrow_mut() {
            attachments.retain(|attachment| !attachment.is_of(place));
        }
    });
}

impl Attachment {
    #[inline(always)]
    fn is_of(&self, place: &Arc<Place>) -> bool {
        self.key == Arc::as_ptr(place).addr()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let (Some(handle), Some(place)) = (&self.handle, self.place.upgrade()) {
            place.lose(handle.last_look());
        }
    }
}

impl Local {
    #[inline(always)]
    fn with<R>(
        &self,
        place: &Arc<Place>,
        pid: u32,
        attach: impl FnOnce() -> Option<Handle>,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Option<Result<R, ReserveError>> {
        let attachments = self.attachments.try_borrow().ok()?;
        if let Some(attachment) = attachments.iter().find(|attachment| attachment.is_of(place)) {
            if let Some(handle) = &attachment.handle {
                return Some(act(handle));
            }
            if let Some(left) = attachment.patience.get().checked_sub(1) {
                attachment.patience.set(left);
                return None;
            }
        }
        drop(attachments);
        // A thread without a producer notices a fork only here.
        if std::process::id() != pid {
            return Some(Err(ReserveError::Forked));
        }
        self.attach(place, attach())?;
        let attachments = self.attachments.try_borrow().ok()?;
        let attachment = attachments.iter().find(|attachment| attachment.is_of(place))?;
        attachment.handle.as_ref().map(act)
    }

    #[cold]
    #[inline(never)]
    fn attach(&self, place: &Arc<Place>, handle: Option<Handle>) -> Option<()> {
        let (patience, pid) = (Cell::new(TRIES), std::process::id());
        let (key, place) = (Arc::as_ptr(place).addr(), Arc::downgrade(place));
        let attachment = Attachment { key, place, handle, patience, pid };
        let mut attachments = self.attachments.try_borrow_mut().ok()?;
        attachments.retain(|other| other.place.strong_count() > 0 && other.key != key);
        attachments.push(attachment);
        Some(())
    }
}
