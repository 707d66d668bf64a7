//! The producer of an exclusive ring.
//!
//! Private copies decide. The only shared word that this producer reads for a decision is the tail
//! of a drop ring, and that is checked. The fast path is one comparison, the header store, the
//! payload copy and a release store of `data_head`; everything else is in [`crate::producer::room`]
//! behind one branch.

use crate::aux_area;
use crate::counters::{Count, ProducerTotals};
use crate::named::Waits;
use crate::producer::ranges::Ranges;
use crate::producer::room::Room;
use crate::record::{BODY_LEN, Corrupt};
use crate::recount::totals_interval;
use crate::reserve::{Refusal, Reserved, Site, max_len, wanted_size};
use crate::time::{self, Reading};
use crate::view::{Ring, System, sane};
use crate::wait::{Fences, Owed, Wake, claim_wake};
use alloc::sync::Arc;
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    AUX_SIZE, Header, Hole, Layout, RecordType, RecordWord, range_size, record_size,
};

/// The effect of a record's end on `data_head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Publishes the record, and all that was held back.
    Publish(Wake),
    /// Holds the record back until the next publish.
    Hold,
}

/// The private state of an exclusive producer.
#[derive(Debug)]
pub struct Writer {
    pub(super) room: Room,
    pub(super) max_len: usize,
    /// A payload of this length or longer is too long, or needs a timestamp: one test for both, so
    /// that a ring without timestamps pays nothing for them.
    pub(super) plain_end: usize,
    /// The same for a reservation, which is written in place: 0 where reservations are lent.
    pub(super) in_place_end: usize,
    /// A reservation of this length or longer is too long for the data area, or is lent.
    pub(super) elsewhere_from: usize,
    pub(super) timestamp: usize,
    fences: Fences,
    pub(super) ranges: Ranges,
}

impl Writer {
    /// Takes over a ring as its one producer: from a new ring's zeros, or from the position where the last
    /// producer stopped, killed or not. Its uncommitted reservation leaves no trace,
    /// because nothing of it was published.
    ///
    /// # Errors
    /// [`Corrupt`] if no producer leaves such positions or records.
    pub fn attach(ring: Ring<'_>, layout: &Layout, fences: Fences) -> Result<Self, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A of the last one
        let tail = ring.header.data_tail.load(Ordering::Acquire); // D, pairs with C
        if !sane(ring, head, tail) {
            return Err(Corrupt { pos: tail });
        }
        let (mut room, from) = Room::attach(ring, layout, head, tail)?;
        let ranges = Ranges::attach(ring, layout, from, head)?;
        // The records from the old totals to the head may be overwritten from now on.
        room.account.begin(ring);
        let max_len = max_len(ring, layout);
        let plain_end = if layout.time { 0 } else { max_len + 1 };
        let (in_place_end, elsewhere_from) = (plain_end, max_len + 1);
        let timestamp = layout.lead().len();
        Ok(Writer {
            room,
            max_len,
            plain_end,
            in_place_end,
            elsewhere_from,
            timestamp,
            fences,
            ranges,
        })
    }

    /// Sets that the ring has named consumers. `system` finds out which of them are dead. The consumers release, and this
    /// producer moves `data_tail`.
    #[must_use]
    pub fn with_consumers(mut self, system: Arc<dyn System + Send + Sync>) -> Self {
        self.room.waits = Some(Waits::new(system));
        self
    }

    /// Ends a reservation. Its first `len` bytes are kept, and the rest is returned to the ring. A held-back record with
    /// its payload in the AUX area is published at once, with everything before it. The next publish wakes a sleeping
    /// consumer.
    #[inline(always)]
    pub fn end(&mut self, ring: Ring<'_>, reserved: Reserved, len: usize, end: End) -> Owed {
        if reserved.site.is_large() {
            let Reserved { site, kind, len: most } = reserved;
            let (header, data, len) = (ring.header, ring.data, len.min(most));
            let End::Publish(wake) = end else {
                let _ = self.commit_large(header, data, site, kind, len, Wake::No);
                return Owed::NOTHING;
            };
            return self.commit_large(header, data, site, kind, len, wake);
        }
        if end == End::Hold {
            self.room.hold();
        }
        let start = reserved.pos();
        let len = len.min(reserved.len);
        // Two branches, so that each adds a constant if the caller knows the length.
        let word = match reserved.site.lead {
            0 => RecordWord::of(reserved.kind, len),
            timestamp => RecordWord::of(reserved.kind, len + timestamp as usize),
        };
        if len != reserved.len {
            // Relaxed: A publishes it.
            ring.word(start).store(word.raw(), Ordering::Relaxed);
        }
        self.room.account.add_one(word.size());
        let End::Publish(wake) = end else { return Owed::NOTHING };
        let pos = start + word.size(); // known without a load of the private state
        self.room.publish_at(ring, pos);
        self.owes_wake(ring, wake, pos)
    }

    /// Ends a reservation whose payload is in the AUX area, and publishes it with everything that was
    /// held back.
    ///
    /// All arguments are scalars: a value to which a call from the hot path has a reference must be in memory.
    #[cold]
    #[inline(never)]
    fn commit_large(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        site: Site,
        kind: RecordType,
        len: usize,
        wake: Wake,
    ) -> Owed {
        let ring = Ring::new(header, data);
        site.write_body(ring, kind, len, self.newest_timestamp(), self.room.policy);
        self.ranges.pos += range_size(len);
        self.room.account.add_one(AUX_SIZE.into());
        let owed = self.publish(ring, wake);
        self.ranges.store_head(ring);
        owed
    }

    /// Discards a reservation: leaves a hole that readers skip, as in the BPF ring buffer, so that
    /// positions do not depend on discards.
    pub fn discard(&mut self, ring: Ring<'_>, reserved: Reserved) {
        self.room.hold();
        let size = if reserved.site.is_large() { AUX_SIZE.into() } else { reserved.size() };
        let word = RecordWord::nop(size, Hole::Discarded);
        // Relaxed: A publishes it.
        ring.word(reserved.pos()).store(word.raw(), Ordering::Relaxed);
        self.room.account.discard(size);
    }

    /// Publishes everything that is committed.
    #[inline(always)]
    pub fn publish(&mut self, ring: Ring<'_>, wake: Wake) -> Owed {
        let pos = self.pos();
        self.room.publish_at(ring, pos);
        self.owes_wake(ring, wake, pos)
    }

    #[inline(always)]
    fn owes_wake(&self, ring: Ring<'_>, wake: Wake, pos: u64) -> Owed {
        if wake == Wake::No {
            return Owed::NOTHING;
        }
        self.fences.light(); // I, pairs with J
        // Relaxed: I orders it.
        if ring.header.wait.armed.load(Ordering::Relaxed) == 0 {
            return Owed::NOTHING;
        }
        claim_wake(&ring.header.wait, wake, pos, self.room.account.records())
    }

    /// Prepares a batch: makes sure that no totals are due for the next eighth of the ring, or 32
    /// KiB, of records. Totals are true at a published head, so writing them would split the batch.
    #[inline]
    pub fn begin_batch(&mut self, ring: Ring<'_>) {
        let room = &mut self.room;
        let since = room.pos() - room.account.totals.pos;
        if room.head() == room.pos() && since >= totals_interval(ring) / 2 {
            room.account.write(ring);
            room.forget_limits();
        }
    }

    /// Counts a refusal, to be reported in the stream before the next record that fits. A full ring
    /// needs to be read: the consumer may be owed a wake.
    #[inline]
    pub fn refuse(&mut self, ring: Ring<'_>, refusal: Refusal, len: usize) -> Owed {
        if self.room.account.is_replaced(ring) {
            return Owed::NOTHING; // it would publish the other producer's bytes
        }
        let size = wanted_size(len, self.timestamp, self.max_len, self.ranges.size);
        self.room.publish_at(ring, self.pos());
        self.room.account.refuse(ring, refusal, size);
        // The next reservation makes room, which reports the loss.
        self.room.forget_limits();
        self.owes_wake(ring, Wake::Force, self.pos())
    }

    /// Returns the tail to wait for: with it, a record of `len` bytes fits.
    #[must_use]
    pub fn tail_for(&self, ring: Ring<'_>, len: usize) -> u64 {
        if len <= self.max_len {
            return self.tail_for_record(ring, record_size(len + self.timestamp));
        }
        let small = self.tail_for_record(ring, record_size(BODY_LEN));
        aux_area::tail_for(ring, self.ranges.size, self.ranges.pos, len).max(small)
    }

    fn tail_for_record(&self, ring: Ring<'_>, size: u64) -> u64 {
        let need = size + self.room.marker_bytes(ring, size);
        (self.pos() + need + 8).saturating_sub(ring.data_size())
    }

    /// Prepares the producer's exit: publishes what is held back, reports an unreported loss if
    /// there is room, and writes the final totals.
    pub fn detach(&mut self, ring: Ring<'_>) -> Owed {
        if self.room.account.is_replaced(ring) {
            return Owed::NOTHING; // the ring is the other producer's
        }
        let owed = self.publish(ring, Wake::Auto);
        // Requesting room for nothing writes the markers, if they fit.
        let reported =
            self.room.make_room(ring.header, ring.data, 0).is_ok() && self.room.held.is_some();
        let owed = if reported { owed.or(self.publish(ring, Wake::Auto)) } else { owed };
        self.room.account.write(ring);
        owed
    }

    /// Returns the end of the last committed record (the BPF ring buffer's `producer_pos`).
    #[must_use]
    #[inline]
    pub fn pos(&self) -> u64 {
        self.room.pos()
    }

    /// Returns the private counts, true at [`Writer::pos`].
    #[must_use]
    pub fn totals(&self) -> ProducerTotals {
        self.room.account.totals()
    }

    /// Returns the count evicted from an overwrite ring.
    #[must_use]
    pub fn overwritten(&self, ring: Ring<'_>) -> Count {
        self.room.tail.overwritten(ring)
    }

    /// Returns the length of the longest payload.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.max_len.max(self.ranges.size as usize)
    }

    /// Payloads shorter than this get no timestamp, and are in the data area.
    #[must_use]
    #[inline]
    pub fn plain_end(&self) -> usize {
        self.plain_end
    }

    /// Reservations shorter than this get no timestamp, are in the data area, and are not lent.
    #[must_use]
    #[inline]
    pub fn in_place_end(&self) -> usize {
        self.in_place_end
    }

    /// Returns the newest timestamp.
    #[must_use]
    pub fn newest_timestamp(&self) -> u64 {
        self.room.account.last
    }

    /// Records the clocks in a timed ring: after attaching, before the first record.
    pub fn begin_time(&mut self, ring: Ring<'_>, reading: &Reading) {
        if time::begin(ring, reading, self.pos(), self.newest_timestamp()) {
            self.room.account.last = 0;
        }
    }

    /// Records the clocks in a timed ring again, from time to time.
    pub fn keep_time(&mut self, ring: Ring<'_>, reading: &Reading) {
        time::keep(ring, reading, self.pos());
    }
}
