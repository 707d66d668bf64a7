//! Refusals of a producer of a shared ring, and the markers that report them. A ring that stays full refuses without
//! its lock.

use crate::record::write_lost;
use crate::reserve::{Refusal, wanted_size};
use crate::shared::locked_room::{LockedRoom, Positions};
use crate::shared::publish::SharedWriter;
use crate::shared::running;
use crate::shared::sweep::{advance_under_lock, note_stuck};
use crate::view::{Ring, Shared, System};
use crate::wait::{Owed, Wake};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Header, LOST_SIZE, Policy, Report, record_size};

impl SharedWriter {
    /// Returns whether the ring has been full for a payload of `len` bytes since this producer last found it full. Takes no lock.
    /// After false, only an attempt under the lock finds out.
    #[must_use]
    pub fn is_full_still(&self, ring: Ring<'_>, len: usize) -> bool {
        self.room.is_full_still(ring.header, ring.data, record_size(len + self.lead.len()))
    }

    /// Counts a refusal, to be reported in the stream before the next record of this producer that
    /// fits. A full ring needs to be read: the consumer may be owed a wake. Takes no lock.
    #[inline]
    pub fn refuse(&mut self, at: Shared<'_>, refusal: Refusal, len: usize) -> Owed {
        let size = wanted_size(len, self.lead.len(), self.max_len, self.allotted.size);
        self.room.figures.add_refused(at, refusal, size);
        // The next reservation makes room, which reports the loss.
        self.room.forget_limits();
        self.ends.wake(at.ring.header, Wake::Force, at.ring.head())
    }
}

impl LockedRoom {
    /// Returns whether the ring is full for `size` bytes as it was when this producer last found it full. Takes no lock: the
    /// result of the check under the lock is true until the tail moves. A dead producer's reservation blocks nothing before
    /// the consumer has read up to it, which moves the tail.
    ///
    /// Takes the ring in two parts, so that the call from the hot path passes it in registers.
    #[inline(never)]
    pub(super) fn is_full_still(&self, header: &Header, data: &[AtomicU64], size: u64) -> bool {
        let markers = self.marker_bytes(Ring::new(header, data), size);
        // With named consumers the producers move the tail, and look for dead consumers.
        self.search.is_none()
            && size.saturating_add(markers) >= self.full_for
            // Relaxed: nothing is published, so this orders nothing.
            && header.data_tail.load(Ordering::Relaxed) == self.full_at
    }

    /// Returns the refusal: full, or held up, if the consumer of a drop ring has read everything
    /// that it may.
    pub(super) fn no_room<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        positions: Positions,
    ) -> Refusal {
        match self.blocker(at, positions) {
            Some(slot) if self.policy == Policy::Overwrite || positions.tail == positions.head => {
                note_stuck(at, liveness, positions.head);
                Refusal::Pending { slot }
            }
            // An overwrite ring is never full: each blocking reservation ended just before it
            // was checked, and the next reservation blocked.
            _ if self.policy == Policy::Overwrite => Refusal::Pending { slot: self.owner.index },
            _ => {
                if positions.tail != positions.head {
                    (self.full_at, self.full_for) = (positions.tail, positions.need);
                    self.forget_limits(); // the next attempt asks before it takes the lock
                }
                Refusal::Full
            }
        }
    }

    /// Returns the bytes of the markers due before a record, like the exclusive producer's.
    pub(super) fn marker_bytes(&self, ring: Ring<'_>, size: u64) -> u64 {
        let bytes = self.unreported() * u64::from(LOST_SIZE);
        if size.saturating_add(bytes) < ring.data_size() { bytes } else { 0 }
    }

    pub(super) fn has_losses_to_report(&self) -> bool {
        self.unreported() != 0
    }

    fn unreported(&self) -> u64 {
        if self.report == Report::CountersOnly {
            return 0;
        }
        self.figures.losses.refused.differences(&self.figures.losses.reported)
    }

    /// Writes the markers and publishes them as separate records.
    pub(super) fn report_losses(&mut self, at: Shared<'_>, positions: Positions) {
        let header = at.ring.header;
        let unreported = self.figures.unreported();
        // E, like before every store over evicted records.
        fence(Ordering::Release);
        let markers = write_lost(at.ring, positions.end, unreported);
        let pos = positions.end + markers * u64::from(LOST_SIZE);
        self.figures.report(at, positions.end);
        running::add_reported(at, unreported, markers);
        // B: this store also publishes what is before it.
        if header.data_head.load(Ordering::Acquire) == positions.end {
            header.data_head.store(pos, Ordering::Release); // A, pairs with B
            header.shared.producer_pos.store(pos, Ordering::Release); // O
        } else {
            header.shared.producer_pos.store(pos, Ordering::Release);
            fence(Ordering::SeqCst); // O
            // The end of the reservation that this makes room for advances `data_head` further.
            advance_under_lock(at);
        }
    }
}
