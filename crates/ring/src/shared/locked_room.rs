//! Room for a reservation in a shared ring: the lock, and under it the slow way, which finds the
//! room, brings the book, and tells the losses.

use crate::counters::{Count, ProducerTotals};
use crate::holder::OwnerInfo;
use crate::record::{Corrupt, write_lost};
use crate::recount::totals_interval;
use crate::reserve::Refusal;
use crate::seq_latch;
use crate::shared::evict::{KnownTail, Place};
use crate::shared::owner::Owner;
use crate::shared::running;
use crate::shared::slot::Figures;
use crate::shared::sweep::{advance, note_stuck, sweep};
use crate::view::{Liveness, Ring, Shared, sane};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Evict, Header, LOST_SIZE, Layout, Policy, RecordWord, Report};

/// Why a producer could not attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattached {
    /// Positions or records are such as no producer leaves.
    Corrupt(Corrupt),
    /// The lock is held by the producer in this slot, which lives and does not move.
    Contended {
        /// The slot.
        slot: u32,
    },
}

/// How far a producer of a shared ring may go, and what it counts of its slot.
#[derive(Debug)]
pub(crate) struct LockedRoom {
    pub(super) owner: Owner,
    /// End of this producer's last reservation: none begins before it.
    pub(super) floor: u64,
    /// A reservation that ends here or before needs no look at anything but the lock's line.
    limit: u64,
    /// An overwrite ring need do no more than evict for a reservation that ends here or before.
    evict_limit: u64,
    tail: KnownTail,
    /// Where the producers' book was true when last looked at.
    totals_pos: u64,
    pub(super) figures: Figures,
    pub(super) policy: Policy,
    evict: Evict,
    report: Report,
}

/// The positions of a ring at one moment under the lock.
#[derive(Clone, Copy)]
struct Stand {
    tail: u64,
    head: u64,
    end: u64,
}

impl LockedRoom {
    /// Signs for a slot whose lock the caller holds, and ends what the last holder left open.
    pub(crate) fn attach<P: Liveness>(
        at: Shared<'_>,
        layout: &Layout,
        index: u32,
        who: &OwnerInfo,
        liveness: &P,
    ) -> Result<Self, Unattached> {
        let holder = &at.slots[index as usize].holder;
        // The new epoch before anything else: no lock word of an earlier holder is this one's.
        who.sign(holder);
        let owner = Owner::new(index, OwnerInfo::read(holder).epoch);
        owner.lock(at, liveness).map_err(|refusal| match refusal {
            Refusal::Contended { slot } => Unattached::Contended { slot },
            _ => Unattached::Corrupt(Corrupt { pos: at.ring.head() }),
        })?;
        let (head, tail) = (at.ring.head(), at.ring.tail());
        let end = at.producer_pos();
        let sane = sane(at.ring, end, tail) && head <= end && head >= tail;
        if !sane || !head.is_multiple_of(8) {
            owner.unlock(at);
            return Err(Unattached::Corrupt(Corrupt { pos: tail }));
        }
        sweep(at, index);
        let figures = Figures::take_over(at, index);
        owner.unlock(at);
        Ok(LockedRoom {
            owner,
            floor: 0,
            limit: 0,
            evict_limit: 0,
            tail: KnownTail::new(),
            totals_pos: 0,
            figures,
            policy: layout.policy,
            evict: layout.evict,
            report: layout.report,
        })
    }

    /// The next reservation works out the limits anew.
    pub(crate) fn poll_again(&mut self) {
        (self.limit, self.evict_limit) = (0, 0);
    }

    /// Takes the lock and finds room. Under the lock when it returns `Ok`.
    ///
    /// By reference, as those that it is built in: a copy of what was put together a moment ago
    /// waits for its stores, and then the locked instruction for the copy.
    #[inline(always)]
    pub(crate) fn begin<P: Liveness>(
        &mut self,
        at: &Shared<'_>,
        liveness: &P,
        size: u64,
    ) -> Result<u64, Refusal> {
        self.owner.lock(*at, liveness)?;
        // Relaxed: M orders it.
        let mut start = at.ring.header.shared.producer_pos.load(Ordering::Relaxed);
        let there_is_room = self.fits(start, size, self.limit)
            || (self.fits(start, size, self.evict_limit)
                && self.evict_few(at.ring.header, at.ring.data, start.wrapping_add(size)));
        if !there_is_room {
            start = match self.make_room(*at, liveness, size) {
                Ok(start) => start,
                Err(refusal) => {
                    self.owner.unlock(*at);
                    return Err(refusal);
                }
            };
        }
        // E, pairs with F: whoever moved the tail over what is written over now, M has it seen
        // here, and this passes it on.
        fence(Ordering::Release);
        self.floor = start + size;
        Ok(start)
    }

    /// Opens a reservation, and gives the lock back.
    #[inline(always)]
    pub(crate) fn open(&self, at: Shared<'_>, start: u64, size: u64) {
        running::open(at, start, RecordWord::busy(size, self.owner.index));
        self.owner.unlock(at);
    }

    /// Does something else under the lock. Returns whether that was to be had.
    pub(crate) fn under_lock<P: Liveness>(
        &self,
        at: Shared<'_>,
        liveness: &P,
        then: impl FnOnce(),
    ) -> bool {
        if self.owner.lock(at, liveness).is_err() {
            return false;
        }
        then();
        self.owner.unlock(at);
        true
    }

    /// Whether a record ends at `limit` or before. One that begins where none can, at no multiple of
    /// eight or before the end of this producer's last, does not: the page is not believed in that.
    #[inline(always)]
    fn fits(&self, start: u64, size: u64, limit: u64) -> bool {
        // What is no multiple of eight becomes a huge number of words, as what is negative does.
        let words = start.wrapping_sub(self.floor).rotate_right(3);
        words.saturating_add(size >> 3) <= limit.saturating_sub(self.floor) >> 3
    }

    /// What most reservations in a full overwrite ring need: the oldest go, and nothing else is
    /// due. Returns whether that was so; if not, nothing has changed.
    ///
    /// Takes the ring in two, so that the call from the hot path passes it in registers.
    #[inline(never)]
    fn evict_few(&mut self, header: &Header, data: &[AtomicU64], end: u64) -> bool {
        self.tail.evict(Ring::new(header, data), end, self.totals_pos)
    }

    /// Makes room for `size` bytes, tells what is still to be told, and sets the next limit.
    /// Returns where the record begins.
    #[inline(never)]
    pub(crate) fn make_room<P: Liveness>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        size: u64,
    ) -> Result<u64, Refusal> {
        let mut found = self.find_room(at, size)?;
        // Each turn ends what one dead producer left open, or finds that somebody has just ended
        // what was in the way.
        for _ in 0..=at.slots.len() {
            let Err(stand) = found else { break };
            self.unblock(at, liveness, stand)?;
            found = self.find_room(at, size)?;
        }
        let (stand, tail, markers) = found.map_err(|stand| self.no_room(at, liveness, stand))?;
        let mask = at.ring.data_size() - 1;
        let end = stand.end + markers + size;
        self.bring_totals(at, stand, tail.0, end)?;
        if self.policy == Policy::Overwrite && tail.0 != stand.tail {
            self.tail.publish(at.ring, tail);
        }
        let start = stand.end + markers;
        if markers != 0 {
            self.report_losses(at, stand);
        } else if self.unreported() != 0 {
            // They did not fit beside this record: the next one comes here too.
            self.poll_again();
            return Ok(start);
        }
        let interval = totals_interval(at.ring);
        // An open reservation can keep the book back: then it is looked at now and then.
        let totals = (self.totals_pos + interval).max(end + interval / 8);
        let totals = totals.min(self.totals_pos + mask);
        self.limit = totals.min(tail.0 + mask);
        if self.policy == Policy::Overwrite && self.evict == Evict::Exact {
            self.evict_limit = totals;
        }
        Ok(start)
    }

    /// Where the tail must go for a record of `size` bytes, what is overwritten before it, and the
    /// bytes of markers before the record. `Ok(Err(_))` if there is no room.
    fn find_room(
        &mut self,
        at: Shared<'_>,
        size: u64,
    ) -> Result<Result<(Stand, Place, u64), Stand>, Refusal> {
        let (ring, mask) = (at.ring, at.ring.data_size() - 1);
        let stand = Stand {
            tail: ring.header.data_tail.load(Ordering::Acquire), // D, pairs with C
            head: ring.header.data_head.load(Ordering::Acquire), // B, pairs with A
            end: at.producer_pos(),
        };
        if !sane(ring, stand.end, stand.tail)
            || !(stand.tail..=stand.end).contains(&stand.head)
            || !stand.head.is_multiple_of(8)
            || stand.end < self.floor
        {
            return Err(Refusal::Corrupt { tail: stand.tail });
        }
        let markers = self.marker_bytes(ring, size);
        let end = stand.end + markers + size;
        let mut tail = (stand.tail, Count::default());
        if self.policy == Policy::Overwrite && end - stand.tail > mask {
            let enough = match self.evict {
                Evict::Exact => end,
                Evict::Half => end + ring.data_size() / 2,
            };
            tail = self
                .tail
                .walk(ring, stand.tail, stand.head, enough)
                .map_err(|_| Refusal::Corrupt { tail: stand.tail })?;
        }
        Ok(if end - tail.0 > mask { Err(stand) } else { Ok((stand, tail, markers)) })
    }

    /// Ends what holds the room back, if its owner is dead. Returns when it is worth another look.
    fn unblock<P: Liveness>(
        &self,
        at: Shared<'_>,
        liveness: &P,
        stand: Stand,
    ) -> Result<(), Refusal> {
        match self.blocker(at, stand) {
            Some(slot) if slot != self.owner.index && !liveness.is_alive(slot) => {
                sweep(at, slot);
                Ok(())
            }
            // It has ended since: whoever did that is about to move the head.
            None if stand.head != stand.end => {
                fence(Ordering::SeqCst); // O
                advance(at);
                Ok(())
            }
            _ => Err(self.no_room(at, liveness, stand)),
        }
    }

    fn blocker(&self, at: Shared<'_>, stand: Stand) -> Option<u32> {
        if stand.head == stand.end {
            return None;
        }
        let word = at.ring.word(stand.head).load(Ordering::Acquire); // N
        RecordWord::from_raw(word).owner().filter(|slot| (*slot as usize) < at.slots.len())
    }

    /// Full, or held up: that is so when the consumer of a drop ring has read all that it may.
    fn no_room<P: Liveness>(&self, at: Shared<'_>, liveness: &P, stand: Stand) -> Refusal {
        match self.blocker(at, stand) {
            Some(slot) if self.policy == Policy::Overwrite || stand.tail == stand.head => {
                note_stuck(at, liveness, stand.head);
                Refusal::Pending { slot }
            }
            // An overwrite ring is never full: one reservation after another ended just before it
            // was looked at, and the next was in the way.
            _ if self.policy == Policy::Overwrite => Refusal::Pending { slot: self.owner.index },
            _ => Refusal::Full,
        }
    }

    /// Writes the producers' book if it is due: before the tail passes it, before it is written
    /// over, and every interval.
    fn bring_totals(
        &mut self,
        at: Shared<'_>,
        stand: Stand,
        tail: u64,
        end: u64,
    ) -> Result<(), Refusal> {
        let (interval, mask) = (totals_interval(at.ring), at.ring.data_size() - 1);
        let damaged = Refusal::Corrupt { tail: stand.tail };
        let must = |totals: u64| {
            end - totals > mask || (self.policy == Policy::Overwrite && tail > totals)
        };
        // What was seen once does not go back, or somebody damages the ring.
        if self.totals_pos > stand.head {
            return Err(damaged);
        }
        if end - self.totals_pos < interval && !must(self.totals_pos) {
            return Ok(());
        }
        // Somebody else may have written it.
        let totals = seq_latch::find(&at.ring.header.producer).ok_or(damaged)?;
        let pos = ProducerTotals::from_words(&totals.words).pos;
        if pos > stand.head || pos < self.totals_pos {
            return Err(damaged);
        }
        self.totals_pos = pos;
        // With something open it has to be counted: not before there is enough to count.
        let upto = if stand.head == stand.end { end } else { stand.head };
        if upto - pos >= interval || must(pos) {
            running::write_totals(at, stand.head, stand.end).map_err(|_| damaged)?;
            self.totals_pos = stand.head;
        }
        Ok(())
    }

    /// The tail that would let a record of `size` bytes in now.
    pub(crate) fn tail_for(&self, at: Shared<'_>, size: u64) -> u64 {
        let need = size + self.marker_bytes(at.ring, size);
        (at.producer_pos().saturating_add(need + 8)).saturating_sub(at.ring.data_size())
    }

    /// Bytes of the markers due before a record: as the exclusive producer's.
    fn marker_bytes(&self, ring: Ring<'_>, size: u64) -> u64 {
        let bytes = self.unreported() * u64::from(LOST_SIZE);
        if bytes + size < ring.data_size() { bytes } else { 0 }
    }

    fn unreported(&self) -> u64 {
        if self.report == Report::CountersOnly {
            return 0;
        }
        self.figures
            .unreported()
            .all()
            .into_iter()
            .filter(|count| *count != Count::default())
            .count() as u64
    }

    /// Writes the markers and publishes them, as records of their own.
    fn report_losses(&mut self, at: Shared<'_>, stand: Stand) {
        let header = at.ring.header;
        let unreported = self.figures.unreported();
        // E, as before every write over what was evicted.
        fence(Ordering::Release);
        let markers = write_lost(at.ring, stand.end, unreported);
        let pos = stand.end + markers * u64::from(LOST_SIZE);
        self.figures.report(at, stand.end);
        running::add_reported(at, unreported, markers);
        // B: what is before it is published by this store too.
        if header.data_head.load(Ordering::Acquire) == stand.end {
            header.data_head.store(pos, Ordering::Release); // A, pairs with B
            header.shared.producer_pos.store(pos, Ordering::Release); // O
        } else {
            header.shared.producer_pos.store(pos, Ordering::Release);
            fence(Ordering::SeqCst); // O
            advance(at);
        }
    }
}
