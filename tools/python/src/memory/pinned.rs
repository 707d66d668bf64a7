//! Bytes of a ring that no process writes while they are pinned.

use crate::source::Source;
use std::ptr::NonNull;

/// Bytes of a ring's mapping that do not change.
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
    const NOTHING: Self = Pinned { start: NonNull::dangling(), len: 0 };

    /// # Safety
    /// `len` bytes from `start` on are mapped, and nobody writes them, for as long as this lives:
    /// they are records before `data_head` of a drop ring whose consumer is this process, lives
    /// longer, and does not move the tail past them. A process that breaks the protocol can still
    /// change them under a reader; no code of the package relies on them but to copy them.
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> Self {
        // A pointer from a slice or a mapping is never null; if it were, there is nothing.
        match NonNull::new(start.cast_mut()) {
            Some(start) => Pinned { start, len },
            None => Self::NOTHING,
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the promise of `new`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// The payload of a record that the consumer of a drop ring has just lent, to `Pins::pin` alone.
pub(crate) fn pinned(bytes: &[u8]) -> Pinned {
    // SAFETY: the consumer is on hold (`Pins::new`), so the tail stays before the record until
    // `Pins::settle` moves it, which waits for the cell that is to own this; the cell keeps the
    // pins, and those the mapping.
    unsafe { Pinned::new(bytes.as_ptr(), bytes.len()) }
}

/// The ring's bytes from `start` up to what was read, of the consumer of a drop ring, for
/// `Pins::pin_span` alone: `start` is where it began to read. Nothing of an overwrite ring.
pub(crate) fn pinned_span(source: &mut Source, start: u64) -> Pinned {
    let Source::Consumer(consumer) = source else { return Pinned::NOTHING };
    let (end, data_offset) = (consumer.resume_point().pos(), consumer.layout().areas().data.start);
    let Some(raw) = consumer.advanced().raw() else { return Pinned::NOTHING };
    let ring = raw.ring();
    let at = data_offset + (start & (ring.data_size() - 1));
    let len = (end - start).min(ring.data_size());
    // SAFETY: as for `pinned`, of all records between. The data area is mapped twice in a row, so a
    // span of up to its size is contiguous wherever it begins.
    unsafe { Pinned::new(ring.base().wrapping_add(at as usize), len as usize) }
}
