//! A producer of a shared ring: one of many, in any processes.
//!
//! A reservation is a few stores under the lock. A small payload is written and published there
//! too, which costs one locked instruction in all. A larger one is written outside, with the header
//! word marked as open, and ended by a swap of that word, after which `data_head` advances over
//! everything that has ended.

use crate::aux_area;
use crate::counters::{Count, ProducerTotals};
use crate::holder::{OwnerInfo, sign_off};
use crate::record::BODY_LEN;
use crate::reserve::{Refusal, Reserved, Site, max_len};
use crate::shared::allot::Allotted;
use crate::shared::end::Committer;
use crate::shared::locked_room::{LockedRoom, Unattached};
use crate::shared::owner::Owner;
use crate::shared::running;
use crate::shared::slot::Losses;
use crate::shared::span::BatchSpan;
use crate::time::{self, Reading};
use crate::view::{Ring, Shared, System};
use crate::wait::{Fences, Owed, Wake};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{
    AUX_SIZE, Header, Hole, Layout, Lead, RecordType, RecordWord, Slot, aux_record, record_size,
};

/// The private state of one producer of a shared ring.
#[derive(Debug)]
pub struct SharedWriter {
    pub(super) room: LockedRoom,
    pub(super) max_len: usize,
    /// Records without anything before their payload are shorter than this.
    pub(super) plain_end: usize,
    /// A reservation of this length or longer is too long for the data area, or is lent.
    pub(super) elsewhere_from: usize,
    pub(super) lead: Lead,
    /// The writer of the next records, in a ring whose records name theirs: [`WriterId::to_word`].
    pub(super) writer: u64,
    pub(super) allotted: Allotted,
    pub(super) ends: Committer,
}

impl SharedWriter {
    /// Attaches to a slot whose lock the caller holds: ends the last holder's open reservations, and
    /// writes the owner info.
    ///
    /// If the ring's lock cannot be taken, `again` gets the slot that holds the lock, and returns whether to try
    /// again. All tries are one attach: the epoch rises once.
    ///
    /// # Errors
    /// See [`Unattached`].
    pub fn attach<P: System>(
        at: Shared<'_>,
        layout: &Layout,
        fences: Fences,
        index: u32,
        owner_info: &OwnerInfo,
        liveness: &P,
        mut again: impl FnMut(u32) -> bool,
    ) -> Result<Self, Unattached> {
        let seat = &at.slots[index as usize].holder;
        // The new epoch before anything else, so that no lock word of an earlier holder equals this holder's.
        let epoch = owner_info.sign(seat);
        let room = loop {
            match LockedRoom::attach(at, layout, Owner::new(index, epoch), liveness) {
                Err(Unattached::Contended { slot }) if again(slot) => {}
                tried => break tried,
            }
        };
        let room = room.inspect_err(|_| sign_off(seat, epoch))?;
        let max_len = max_len(at.ring, layout);
        Ok(SharedWriter {
            ends: Committer { me: room.owner, fences, behind: (u64::MAX, 0) },
            room,
            max_len,
            plain_end: if layout.time { 0 } else { max_len + 1 },
            elsewhere_from: max_len + 1,
            lead: layout.lead(),
            writer: 0,
            allotted: Allotted::new(layout.aux_size),
        })
    }

    /// Sets the thread that writes the next records: [`WriterId::to_word`](perfring_abi::WriterId::to_word). Only a ring
    /// with [`Lead::SampleId`] needs it.
    #[inline]
    pub fn set_writer(&mut self, writer: u64) {
        self.writer = writer;
    }

    /// Records without anything before their payload are shorter than this.
    #[must_use]
    #[inline(always)]
    pub fn plain_end(&self) -> usize {
        self.plain_end
    }

    #[inline(always)]
    pub(super) fn is_timed(&self) -> bool {
        self.lead != Lead::None
    }

    /// Publishes a record that `fill` writes, entirely under the lock. Counts no refusal: see [`SharedWriter::refuse`].
    ///
    /// `now` is the current time of the timestamps' clock, read before. The record's timestamp is `now`, or the newest
    /// timestamp in the ring, if that is later. A ring without timestamps ignores `now`. `None` is for a caller that knows the
    /// payload to be shorter than [`SharedWriter::plain_end`]: the caller's code contains nothing for timestamps then. A
    /// longer payload is refused as too large.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[expect(clippy::too_many_arguments, reason = "all of them are a record's")]
    #[inline(always)]
    pub fn publish<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        kind: RecordType,
        len: usize,
        now: Option<u64>,
        wake: Wake,
        fill: impl FnOnce(&Reserved),
    ) -> Result<Owed, Refusal> {
        let Some(now) = now else {
            if len >= self.plain_end {
                return Err(Refusal::TooLarge { max: self.max_len });
            }
            let start = self.room.begin(&at, liveness, record_size(len))?;
            fill(&Reserved { site: Site { start, lead: 0 }, kind, len });
            return Ok(self.end_locked(&at, liveness, start, RecordWord::of(kind, len), wake));
        };
        if len > self.max_len {
            return Err(Refusal::TooLarge { max: self.max_len });
        }
        let reserved = self.begin(&at, liveness, kind, len, now)?;
        fill(&reserved);
        Ok(self.end_locked(&at, liveness, reserved.pos(), reserved.word(len), wake))
    }

    /// Commits the record at `start`: under the lock, which this releases.
    #[inline(always)]
    fn end_locked<P: System>(
        &mut self,
        at: &Shared<'_>,
        liveness: &P,
        start: u64,
        word: RecordWord,
        wake: Wake,
    ) -> Owed {
        let (header, end) = (at.ring.header, start + word.size());
        // Relaxed: A or O publishes it.
        at.ring.word(start).store(word.raw(), Ordering::Relaxed);
        self.room.figures.add_written(at.slots, start, 1, word.size());
        running::expect(header, 1);
        // Nothing is open before it: no other process can move the head elsewhere. (B)
        if header.data_head.load(Ordering::Acquire) == start {
            header.data_head.store(end, Ordering::Release); // A, pairs with B: it is committed
            header.shared.producer_pos.store(end, Ordering::Release); // O
            self.room.owner.unlock(*at);
            return self.ends.wake(header, wake, end);
        }
        header.shared.producer_pos.store(end, Ordering::Release); // O: it is committed
        self.room.owner.unlock(*at);
        let (data, slots) = (at.ring.data, at.slots);
        self.ends.ended(header, data, slots, liveness, wake, end)
    }

    /// Commits the first `len` bytes of a reservation.
    #[inline(always)]
    pub fn commit<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        reserved: Reserved,
        len: usize,
        wake: Wake,
    ) -> Owed {
        if reserved.site.is_large() {
            let (header, data, slots) = (at.ring.header, at.ring.data, at.slots);
            let (start, len) = (reserved.pos(), len.min(reserved.len));
            return self.commit_large(header, data, slots, liveness, start, len, wake);
        }
        let (start, size) = (reserved.pos(), reserved.size());
        let word = reserved.word(len.min(reserved.len));
        if word.size() < size {
            running::leave(at, start + word.size(), size - word.size(), 0);
        }
        self.room.figures.add_written(at.slots, start, 1, word.size());
        self.room.own_open.remove(start);
        self.ends.end(at, liveness, start, word, size, wake)
    }

    /// Commits a reservation of [`SharedWriter::reserve_elsewhere`].
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "three are the ring")]
    fn commit_large<P: System>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        slots: &[Slot],
        liveness: &P,
        start: u64,
        len: usize,
        wake: Wake,
    ) -> Owed {
        let at = Shared::new(Ring::new(header, data), slots);
        let word = RecordWord::aux();
        // The rest of its range is freed with the next range. Relaxed: N publishes it.
        let len_word = at.ring.word(start + 8 + 8 * aux_record::LEN as u64);
        len_word.store(len as u64, Ordering::Relaxed);
        self.room.figures.add_written(at.slots, start, 1, word.size());
        self.forget(start);
        self.ends.end(at, liveness, start, word, word.size(), wake)
    }

    /// Discards a reservation: leaves a hole that readers skip. Younger records may have waited for it to
    /// end.
    pub fn discard<P: System>(&mut self, at: Shared<'_>, liveness: &P, reserved: Reserved) -> Owed {
        let size = if reserved.site.is_large() { AUX_SIZE.into() } else { reserved.size() };
        self.give_back(at, liveness, reserved.pos(), size)
    }

    fn give_back<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        start: u64,
        size: u64,
    ) -> Owed {
        running::correct(at, u64::MAX, Count { records: 1, bytes: size }); // one written less
        self.room.figures.add_discarded(at, start, size);
        self.forget(start);
        self.ends.end(at, liveness, start, RecordWord::nop(size, Hole::Discarded), size, Wake::Auto)
    }

    /// Forgets a reservation that ends, and its range if it has one.
    fn forget(&mut self, start: u64) {
        self.room.own_open.remove(start);
        self.allotted.own_open.remove(start);
    }

    /// Ends a batch: all its records are published at once, and the rest is returned to the ring.
    pub fn commit_span<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        span: BatchSpan,
        wake: Wake,
    ) -> Owed {
        let (start, records) = (span.start, span.records);
        if records == 0 {
            return self.give_back(at, liveness, start, span.size);
        }
        if span.left() > 0 || records > 1 {
            running::leave(at, span.next(), span.left(), records - 1);
        }
        self.room.figures.add_written(at.slots, start, records, span.used);
        self.room.own_open.remove(start);
        self.ends.end(at, liveness, start, RecordWord::from_raw(span.first), span.size, wake)
    }

    /// Prepares the producer's exit: reports unreported losses, if there is room, and signs off.
    pub fn detach<P: System>(&mut self, at: Shared<'_>, liveness: &P) -> Owed {
        let owed = self.report_losses(at, liveness);
        let owner = self.room.owner;
        sign_off(&at.slots[owner.index as usize].holder, owner.epoch());
        owed
    }

    fn report_losses<P: System>(&mut self, at: Shared<'_>, liveness: &P) -> Owed {
        let (owner, losses) = (self.room.owner, &self.room.figures.losses);
        if losses.refused == losses.reported || owner.lock(at, liveness).is_err() {
            return Owed::NOTHING;
        }
        let reported = self.room.make_room(at, liveness, 0).is_ok();
        owner.unlock(at);
        fence(Ordering::SeqCst); // O
        if !reported {
            return Owed::NOTHING;
        }
        self.ends.ended_at(at, liveness, Wake::Auto, 0)
    }

    /// Returns the tail to wait for: with it, a record of `len` bytes would fit now.
    #[must_use]
    pub fn tail_for(&self, at: Shared<'_>, len: usize) -> u64 {
        if len <= self.max_len {
            return self.room.tail_for(at, record_size(len + self.lead.len()));
        }
        let small = self.room.tail_for(at, record_size(BODY_LEN));
        // Relaxed: a waiting producer checks again.
        let head = at.ring.header.aux.head.load(Ordering::Relaxed);
        aux_area::tail_for(at.ring, self.allotted.size, head, len).max(small)
    }

    /// Records the clocks in a timed ring: after attaching, before the first record. `read` reads
    /// them, under the lock, so that earlier timestamps are not in their future. Returns whether
    /// the lock could be taken.
    #[must_use]
    pub fn begin_time<P: System>(
        &self,
        at: Shared<'_>,
        liveness: &P,
        read: impl FnOnce() -> Reading,
    ) -> bool {
        self.room.under_lock(at, liveness, || {
            // Relaxed: M orders it.
            let newest = at.ring.header.shared.newest_timestamp.load(Ordering::Relaxed);
            time::begin(at.ring, &read(), at.end(), newest);
        })
    }

    /// Records the clocks in a timed ring again, from time to time.
    #[must_use]
    pub fn keep_time<P: System>(
        &self,
        at: Shared<'_>,
        liveness: &P,
        read: impl FnOnce() -> Reading,
    ) -> bool {
        self.room.under_lock(at, liveness, || time::keep(at.ring, &read(), at.end()))
    }

    /// Returns the count that this slot's producers, including earlier ones, have committed.
    #[must_use]
    #[inline]
    pub fn written(&self) -> Count {
        self.room.figures.written
    }

    /// Returns the totals of this slot's producers, including earlier ones, since the ring was
    /// created.
    /// `lost_markers` is 0: the ring counts them for all slots together.
    #[must_use]
    pub fn totals(&self, at: Shared<'_>) -> ProducerTotals {
        let figures = &self.room.figures;
        let Losses { discarded, reclaimed, refused, reported } = figures.losses;
        let pos = at.ring.head();
        let written = figures.written;
        ProducerTotals { pos, written, discarded, reclaimed, refused, reported, lost_markers: 0 }
    }

    /// Returns the slot's index.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.room.owner.index
    }

    /// Returns the length of the longest payload.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.max_len.max(self.allotted.size as usize)
    }
}
