//! The state that changes with every record, moved from the producer's memory into a loop's
//! registers.
//!
//! A producer that is called record by record keeps its position in memory, and each record waits
//! until the store of the one before it can be loaded again: half of what a small record costs.
//! [`Hot`] is lent to a loop by value and returned by value wherever the loop needs anything else
//! of the producer, so that a compiler can see that nothing else reads it.

use crate::reserve::Reserved;
use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{RecordType, record_size};

/// An exclusive producer's position and limits, lent to a loop.
#[derive(Clone, Copy, Debug)]
pub struct Hot {
    changed: Changed,
    limit: u64,
    plain_end: usize,
}

/// The part of it that changes: so few words that they can be passed in registers, one by one.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// End of the last committed record.
    pub pos: u64,
    /// Records committed since it was lent.
    pub records: u64,
    /// What `data_head` holds.
    pub head: u64,
}

impl Hot {
    #[inline(always)]
    pub(crate) fn new(changed: Changed, limit: u64, plain_end: usize) -> Self {
        Hot { changed, limit, plain_end }
    }

    /// Returns what has changed since it was lent.
    #[must_use]
    #[inline(always)]
    pub fn changed(&self) -> Changed {
        self.changed
    }

    /// Returns where a record of `len` bytes would end, if it has no timestamp and is not too long.
    #[inline(always)]
    pub(crate) fn end_of(&self, len: usize) -> Option<u64> {
        (len < self.plain_end).then(|| self.changed.pos + record_size(len))
    }

    /// Returns whether a record of `len` bytes fits without reading anything else.
    #[must_use]
    #[inline(always)]
    pub fn fits(&self, len: usize) -> bool {
        self.end_of(len).is_some_and(|end| end <= self.limit)
    }

    /// Begins a record where [`Hot::fits`] or `Writer::evict_for` reported room for it.
    #[inline(always)]
    pub fn reserve(&self, ring: Ring<'_>, kind: RecordType, len: usize) -> Reserved {
        let reserved = Reserved { start: self.changed.pos, kind, len, lead: 0 };
        // Relaxed, as in the writer's own reservation.
        ring.word(self.changed.pos).store(reserved.word(len).raw(), Ordering::Relaxed);
        reserved
    }

    /// Ends a record and holds it back.
    #[inline(always)]
    pub fn commit(&mut self, reserved: Reserved) {
        self.changed.pos = reserved.start + reserved.size();
        self.changed.records += 1;
    }

    /// Records that everything held back is published, and returns up to where.
    #[inline(always)]
    pub(crate) fn publish(&mut self) -> u64 {
        self.changed.head = self.changed.pos;
        self.changed.head
    }
}
