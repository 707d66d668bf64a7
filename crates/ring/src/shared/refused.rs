//! Refusals of a producer of a shared ring: those of a ring that stays full need no lock.

use crate::reserve::{Refusal, refused_size};
use crate::shared::locked_room::LockedRoom;
use crate::shared::publish::SharedWriter;
use crate::view::{Ring, Shared};
use crate::wait::{Owed, Wake};
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{Header, record_size};

impl SharedWriter {
    /// Returns whether the ring has been full for a payload of `len` bytes since this producer last found it full. Takes no lock.
    /// After false, only an attempt under the lock tells.
    #[must_use]
    pub fn is_full_still(&self, ring: Ring<'_>, len: usize) -> bool {
        self.room.is_full_still(ring.header, ring.data, record_size(len + self.lead.len()))
    }

    /// Counts a refusal, to be reported in the stream before the next record of this producer that
    /// fits. A full ring needs to be read: the consumer may be owed a wake. Takes no lock.
    #[inline]
    pub fn refuse(&mut self, at: Shared<'_>, refusal: Refusal, len: usize) -> Owed {
        let size = if len > self.max_len {
            refused_size(self.allotted.size, len, self.lead.len())
        } else {
            record_size(len + self.lead.len())
        };
        self.room.figures.add_refused(at, refusal, size);
        // The next reservation makes room, which reports the loss.
        self.room.forget_limits();
        self.ends.wake(at.ring.header, Wake::Force, at.ring.head())
    }
}

impl LockedRoom {
    /// Returns whether the ring is full for `size` bytes as it was when this producer last found it full. Takes no lock: what
    /// was found under the lock is true until the tail moves. A dead producer in the ring is in nobody's way before the
    /// consumer has read on.
    ///
    /// Takes the ring in two parts, so that the call from the hot path passes it in registers.
    #[inline(never)]
    pub(super) fn is_full_still(&self, header: &Header, data: &[AtomicU64], size: u64) -> bool {
        let markers = self.marker_bytes(Ring::new(header, data), size);
        // With named consumers the producers move the tail, and look for dead ones.
        self.search.is_none()
            && size.saturating_add(markers) >= self.full_for
            // Relaxed: nothing is published, so this orders nothing.
            && header.data_tail.load(Ordering::Relaxed) == self.full_at
    }
}
