//! Refusals: they are counted, and those of a ring that stays full need no lock.

use crate::reserve::{FullFor, Refusal, refused_size};
use crate::shared::locked_room::LockedRoom;
use crate::shared::publish::SharedWriter;
use crate::view::{Ring, Shared};
use crate::wait::{Fences, Wake};
use perfring_abi::atomic::Ordering;
use perfring_abi::{Header, Slot, record_size};

impl SharedWriter {
    /// Returns whether the ring has been full for a payload of `len` bytes since this producer's last refusal. Takes no lock.
    /// After false, only an attempt under the lock tells.
    #[must_use]
    pub fn is_full_still(&self, ring: Ring<'_>, len: usize) -> bool {
        self.ends.fences.light(); // I, pairs with J
        self.room.is_full_still(ring.header, record_size(len + self.lead.len()))
    }

    /// Counts a refusal, to be reported in the stream before the next record of this producer that
    /// fits. Returns whether a wake is owed, since a full ring needs to be read.
    #[cold]
    pub fn refuse(&mut self, at: Shared<'_>, refusal: Refusal, len: usize) -> bool {
        let size = if len > self.max_len {
            refused_size(self.allotted.size, len, self.lead.len())
        } else {
            record_size(len + self.lead.len())
        };
        // What is found to be so here was found so before the fence of `is_full_still`.
        if refusal == Refusal::Full && self.room.refuse_again(at.ring.header, at.slots, size) {
            return false;
        }
        self.room.figures.add_refused(at, refusal, size);
        // The next reservation makes room, which reports the loss.
        self.room.poll_again();
        // Where a reader goes to sleep without a fence of this producer, and the record is a plain one.
        let plain = len < self.plain_end && self.ends.fences == Fences::Asymmetric;
        if refusal == Refusal::Full && (plain || self.room.per_cpu) {
            self.room.expect_refusals(at.ring, size);
        }
        self.ends.wake(at.ring.header, Wake::Force, at.ring.head())
    }
}

impl LockedRoom {
    /// Counts a refusal of `size` bytes, in the slot too, if the ring has stayed full since the last refusals, and no reader
    /// sleeps that would have to be woken. Returns whether it did; if not, nothing has changed.
    ///
    /// Takes no lock: what was found under the lock is true until the tail moves. A dead producer in the ring is in nobody's
    /// way before the consumer has read on.
    #[inline(never)]
    pub(crate) fn refuse_again(&mut self, header: &Header, slots: &[Slot], size: u64) -> bool {
        self.is_full_still(header, size) && self.figures.refuse_again(slots, size)
    }

    /// Returns whether the next refusal needs no more than [`LockedRoom::refuse_again`].
    #[inline(always)]
    pub(crate) fn is_full_still(&self, header: &Header, size: u64) -> bool {
        let (full, written) = self.again;
        // Relaxed, both: nothing is published, so this orders nothing.
        full.has(size)
            && self.figures.written.records == written
            && header.data_tail.load(Ordering::Relaxed) == self.full_at
            && header.wait.armed.load(Ordering::Relaxed) == 0
    }

    /// Finds out, after a full ring has refused a record of `size` bytes, whether the next refusals need no more than
    /// [`LockedRoom::refuse_again`].
    pub(crate) fn expect_refusals(&mut self, ring: Ring<'_>, size: u64) {
        let markers = self.marker_bytes(ring, size);
        // With named consumers the producers move the tail, and look for dead ones.
        if self.search.is_none()
            && self.full_at != u64::MAX
            && markers + size >= self.full_for
            && self.figures.is_alike()
        {
            let full = FullFor::of(ring.data_size(), markers, size);
            self.again = (full, self.figures.written.records);
        }
    }
}
