//! Refusals of a producer of a shared ring.

use crate::reserve::{Refusal, refused_size};
use crate::shared::publish::SharedWriter;
use crate::view::{Ring, Shared};
use crate::wait::Wake;
use perfring_abi::record_size;

impl SharedWriter {
    /// Returns whether the ring has been full for a payload of `len` bytes since this producer's last refusal. Takes no lock.
    /// After false, only an attempt under the lock tells.
    #[must_use]
    pub fn is_full_still(&self, ring: Ring<'_>, len: usize) -> bool {
        self.room.is_full_still(ring.header, ring.data, record_size(len + self.lead.len()))
    }

    /// Counts a refusal, to be reported in the stream before the next record of this producer that
    /// fits. Returns whether a wake is owed, since a full ring needs to be read. Takes no lock.
    #[inline]
    pub fn refuse(&mut self, at: Shared<'_>, refusal: Refusal, len: usize) -> bool {
        let size = if len > self.max_len {
            refused_size(self.allotted.size, len, self.lead.len())
        } else {
            record_size(len + self.lead.len())
        };
        self.room.figures.add_refused(at, refusal, size);
        // The next reservation makes room, which reports the loss.
        self.room.poll_again();
        self.ends.wake(at.ring.header, Wake::Force, at.ring.head())
    }
}
