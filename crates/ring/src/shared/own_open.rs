//! The open reservations of one producer of a shared ring.
//!
//! The producer's caller has slices of this memory, so it must not be reserved a second time. A sound ring never
//! does that, because the tail never passes an open reservation. But a process that may write the file can move
//! head, tail and `producer_pos` together by a ring's size. The next position is then another number for
//! the same place. Therefore the producer does not rely on the page for this.

use alloc::vec::Vec;

/// A reservation: the position of its record, and where its memory begins.
type Open = (u64, u64);

const NONE: Open = (u64::MAX, u64::MAX);

/// The open reservations of one producer in one area of the ring.
#[derive(Debug)]
pub(crate) struct OwnOpen {
    oldest: Open,
    /// The other open reservations, in the order of their positions. Mostly empty.
    others: Vec<Open>,
    area: u64,
}

impl OwnOpen {
    /// Creates an empty list for an area of so many bytes.
    pub(crate) fn new(area: u64) -> Self {
        OwnOpen { oldest: NONE, others: Vec::new(), area }
    }

    /// Notes a reservation, and where its memory begins.
    #[inline(always)]
    pub(crate) fn add(&mut self, record: u64, start: u64) {
        if self.oldest == NONE {
            self.oldest = (record, start);
        } else {
            self.add_other((record, start));
        }
    }

    #[cold]
    #[inline(never)]
    fn add_other(&mut self, open: Open) {
        self.others.push(open);
    }

    /// Forgets a reservation that ends.
    #[inline(always)]
    pub(crate) fn remove(&mut self, record: u64) {
        if self.others.is_empty() && self.oldest.0 == record {
            self.oldest = NONE;
        } else {
            self.remove_of_several(record);
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_of_several(&mut self, record: u64) {
        if self.oldest.0 != record {
            self.others.retain(|(open, _)| *open != record);
        } else if !self.others.is_empty() {
            self.oldest = self.others.remove(0);
        }
    }

    /// Returns the position up to which memory can be reserved beside the open reservations.
    pub(crate) fn limit(&self) -> u64 {
        self.oldest.1.saturating_add(self.area)
    }
}
