//! Room for a reservation in a shared ring: the lock, and under it the slow path, which finds the
//! room, writes the totals, and reports the losses.

use crate::counters::{Count, ProducerTotals};
use crate::named::{self, Search};
use crate::record::Corrupt;
use crate::reserve::Refusal;
use crate::seq_latch;
use crate::shared::evict::{KnownTail, TailPosition};
use crate::shared::own_open::OwnOpen;
use crate::shared::owner::Owner;
use crate::shared::running;
use crate::shared::slot::Figures;
use crate::shared::sweep::{advance, advance_under_lock, sweep};
use crate::view::{Ring, Shared, System, sane};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Evict, Header, Layout, Policy, Producers, RecordWord, Report, Slot};

/// The number of records beyond need that an eviction by [`Evict::Half`] passes: enough to make it rare, and
/// few enough to be quick while other producers wait.
const MORE: usize = if cfg!(loom) { 1 } else { 64 };
/// How often one reservation looks for the producer that holds it up.
const BLOCKERS: u32 = 4;

/// The reason why a producer could not attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unattached {
    /// No producer leaves such positions or records.
    Corrupt(Corrupt),
    /// The lock is held by the producer in this slot, which is alive and does not release it.
    Contended {
        /// The holder's slot.
        slot: u32,
    },
}

/// The limits of a producer of a shared ring, and the counts of its slot.
#[derive(Debug)]
pub(crate) struct LockedRoom {
    pub(super) owner: Owner,
    pub(super) own_open: OwnOpen,
    /// End of this producer's last reservation: its next reservation does not begin before it.
    pub(super) floor: u64,
    /// A reservation that ends here or before needs only the lock's line.
    pub(super) limit: u64,
    /// For a reservation that ends here or before, an overwrite ring need only evict.
    evict_limit: u64,
    /// Both limits in a ring per CPU, where every call takes the slow path.
    pub(super) cpu_limit: u64,
    tail: KnownTail,
    /// The position of the producers' totals when last loaded.
    totals_pos: u64,
    /// The totals did not reach the head when this producer last wrote them.
    lags: bool,
    pub(super) figures: Figures,
    /// The tail at which this producer last found the ring full, with something to read for the consumer; and the bytes
    /// for which it was full, or `u64::MAX`. The ring is full for as many bytes until the tail moves: the end only rises.
    pub(super) full_at: u64,
    pub(super) full_for: u64,
    pub(super) policy: Policy,
    evict: Evict,
    pub(super) report: Report,
    /// A ring per CPU, see [`crate::shared::cpu`].
    pub(super) per_cpu: bool,
    /// The last refusal does not count: the ring is open to sequences.
    pub(super) found_open: bool,
    /// Set in a ring with named consumers.
    pub(super) search: Option<Search>,
}

/// The positions of a ring at one moment under the lock.
#[derive(Clone, Copy)]
pub(super) struct Positions {
    pub(super) tail: u64,
    pub(super) head: u64,
    pub(super) end: u64,
    /// Bytes that the record takes, with the markers before it.
    pub(super) need: u64,
}

impl LockedRoom {
    /// Ends the reservations that the last holder of a slot left open, for the holder that has signed the slot.
    pub(crate) fn attach<P: System>(
        at: Shared<'_>,
        layout: &Layout,
        owner: Owner,
        liveness: &P,
    ) -> Result<Self, Unattached> {
        let index = owner.index;
        let unattached = |refusal| match refusal {
            Refusal::Contended { slot } => Unattached::Contended { slot },
            _ => Unattached::Corrupt(Corrupt { pos: at.ring.head() }),
        };
        owner.lock(at, liveness).map_err(unattached)?;
        // The tail first (D): a head that is loaded after it is not before it, however both move on.
        let tail = at.ring.header.data_tail.load(Ordering::Acquire);
        let head = at.ring.head();
        let per_cpu = layout.producers == Producers::Cpu;
        // Records of sequences are beyond `producer_pos` until a producer closes the ring. Nothing is open
        // then.
        let end = if per_cpu { at.producer_pos().max(head) } else { at.producer_pos() };
        let sane = sane(at.ring, end, tail) && head <= end && head >= tail;
        if !sane || !head.is_multiple_of(8) {
            owner.unlock(at);
            return Err(Unattached::Corrupt(Corrupt { pos: tail }));
        }
        let mut rest = sweep(at, index, head);
        while let Some(from) = rest {
            owner.unlock(at);
            advance(at);
            owner.lock(at, liveness).map_err(unattached)?;
            rest = sweep(at, index, from);
        }
        let figures = Figures::take_over(at, index);
        owner.unlock(at);
        advance(at);
        Ok(LockedRoom {
            owner,
            own_open: OwnOpen::new(at.ring.data_size()),
            floor: 0,
            limit: 0,
            evict_limit: 0,
            cpu_limit: 0,
            tail: KnownTail::new(),
            totals_pos: 0,
            lags: false,
            figures,
            full_at: 0,
            full_for: u64::MAX,
            policy: layout.policy,
            evict: layout.evict,
            report: layout.report,
            per_cpu,
            found_open: false,
            search: (layout.consumers != 0).then_some(Search::new()),
        })
    }

    /// Makes the next reservation recompute the limits.
    pub(crate) fn forget_limits(&mut self) {
        (self.limit, self.evict_limit) = (0, 0);
    }

    /// Takes the lock and finds room. Holds the lock when it returns `Ok`.
    ///
    /// Takes references, like its callers: a copy of a value that was just built waits for its
    /// stores, and then the locked instruction waits for the copy.
    #[inline(always)]
    pub(crate) fn begin<P: System>(
        &mut self,
        at: &Shared<'_>,
        liveness: &P,
        size: u64,
    ) -> Result<u64, Refusal> {
        if self.limit == 0 && self.is_full_still(at.ring.header, at.ring.data, size) {
            return Err(Refusal::Full);
        }
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
                    self.release(at.ring.header, at.ring.data, at.slots);
                    return Err(refusal);
                }
            };
        }
        // E, pairs with F: if another process moved the tail over the records that are overwritten now, M made
        // the move visible here, and this fence passes it on.
        fence(Ordering::Release);
        self.floor = start + size;
        Ok(start)
    }

    /// Releases the lock after nothing was reserved, and advances over reservations that were ended under it.
    ///
    /// Takes the ring in parts, so that the call from the hot path passes it in registers.
    #[cold]
    #[inline(never)]
    pub(crate) fn release(&self, header: &Header, data: &[AtomicU64], slots: &[Slot]) {
        let at = Shared::new(Ring::new(header, data), slots);
        self.owner.unlock(at);
        advance(at);
    }

    /// Opens a reservation, and releases the lock.
    #[inline(always)]
    pub(crate) fn open(&mut self, at: Shared<'_>, start: u64, size: u64) {
        self.own_open.add(start, start);
        running::open(at, start, RecordWord::busy(size, self.owner.index));
        self.owner.unlock(at);
    }

    /// Runs a closure under the lock, which is released also if it panics. Returns whether the lock could be taken.
    pub(crate) fn under_lock<P: System>(
        &self,
        at: Shared<'_>,
        liveness: &P,
        then: impl FnOnce(),
    ) -> bool {
        struct UnderLock<'a>(Owner, Shared<'a>);
        impl Drop for UnderLock<'_> {
            fn drop(&mut self) {
                self.0.unlock(self.1);
            }
        }
        if self.owner.lock(at, liveness).is_err() {
            return false;
        }
        let _locked = UnderLock(self.owner, at);
        then();
        true
    }

    /// Returns whether a record ends at `limit` or before. False for an invalid start, which is no multiple of eight or
    /// before the end of this producer's last reservation: the
    /// page is not trusted for that.
    #[inline(always)]
    fn fits(&self, start: u64, size: u64, limit: u64) -> bool {
        // A value that is no multiple of eight becomes a huge number of words, like a negative
        // value.
        let words = start.wrapping_sub(self.floor).rotate_right(3);
        words.saturating_add(size >> 3) <= limit.saturating_sub(self.floor) >> 3
    }

    /// The path that most reservations in a full overwrite ring need: evicts the oldest records, if
    /// nothing else is due. Returns whether it made room; if not, nothing has changed.
    ///
    /// Takes the ring in two parts, so that the call from the hot path passes it in registers.
    #[inline(never)]
    fn evict_few(&mut self, header: &Header, data: &[AtomicU64], end: u64) -> bool {
        self.tail.evict(Ring::new(header, data), end, self.totals_pos)
    }

    /// Makes room for `size` bytes, reports the unreported losses, and sets the next limit. Returns
    /// where the record begins.
    #[inline(never)]
    pub(crate) fn make_room<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        size: u64,
    ) -> Result<u64, Refusal> {
        self.full_for = u64::MAX;
        if self.per_cpu {
            self.count_sequences(at)?;
        }
        let mut found = self.find_room(at, size)?;
        if let (Err(positions), Some(search)) = (&found, &mut self.search)
            && search.is_due(positions.tail)
            && liveness.drop_dead(at.ring)
        {
            found = self.find_room(at, size)?;
        }
        // Each iteration ends the reservations of one dead producer, or finds that the blocking reservation
        // has just ended. The next reservation continues.
        for _ in 0..BLOCKERS {
            let Err(positions) = found else { break };
            self.unblock(at, liveness, positions)?;
            found = self.find_room(at, size)?;
        }
        let (positions, tail, markers) =
            found.map_err(|positions| self.no_room(at, liveness, positions))?;
        let mask = at.ring.data_size() - 1;
        let end = positions.end + markers + size;
        self.bring_totals(at, positions, tail.0, end)?;
        if self.policy == Policy::Overwrite && tail.0 != positions.tail {
            self.tail.store(at.ring, tail);
        }
        let start = positions.end + markers;
        if markers != 0 {
            self.report_losses(at, positions);
        } else if self.has_losses_to_report() {
            // The markers did not fit beside this record: the next reservation takes this path again.
            self.forget_limits();
            return Ok(start);
        }
        if self.per_cpu {
            self.cpu_limit = self.limit_of_sequences(at, start, tail.0);
            return Ok(start);
        }
        let totals = self.next_totals(at, end).min(self.totals_pos + mask);
        // Nothing up to here overlaps an open reservation: neither a present one, nor a later one, which
        // begins at `positions.end` or after it. In a sound ring this limits nothing.
        let totals = totals.min(self.own_open.limit());
        self.limit = totals.min(tail.0 + mask);
        if self.policy == Policy::Overwrite && self.evict == Evict::Exact {
            self.evict_limit = totals;
        }
        Ok(start)
    }

    /// Returns the position up to which sequences may publish from `start` on, with this tail.
    fn limit_of_sequences(&self, at: Shared<'_>, start: u64, tail: u64) -> u64 {
        let mask = at.ring.data_size() - 1;
        let totals = self.next_totals(at, start).min(self.totals_pos + mask);
        (tail + mask).min(totals).min(self.own_open.limit())
    }

    /// Returns the position at which to check the totals next, after a reservation that ends at `end`.
    fn next_totals(&self, at: Shared<'_>, end: u64) -> u64 {
        // An open reservation can hold the totals back: then they are checked at shorter intervals.
        // In each, the totals catch up by more records than are written meanwhile.
        (self.totals_pos + running::interval(at, self.lags)).max(end + running::lagging(at))
    }

    /// Returns the tail that a record of `size` bytes needs, the count that is overwritten before
    /// it, and the bytes of markers before the record. `Ok(Err(_))` if there is no room.
    fn find_room(
        &mut self,
        at: Shared<'_>,
        size: u64,
    ) -> Result<Result<(Positions, TailPosition, u64), Positions>, Refusal> {
        let (ring, mask) = (at.ring, at.ring.data_size() - 1);
        let mut positions = Positions {
            tail: ring.header.data_tail.load(Ordering::Acquire), // D, pairs with C
            head: ring.header.data_head.load(Ordering::Acquire), // B, pairs with A
            end: at.producer_pos(),
            need: size,
        };
        if !sane(ring, positions.end, positions.tail)
            || !(positions.tail..=positions.end).contains(&positions.head)
            || !positions.head.is_multiple_of(8)
            || positions.end < self.floor
        {
            return Err(Refusal::Corrupt { tail: positions.tail });
        }
        let markers = self.marker_bytes(ring, size);
        positions.need += markers;
        let end = positions.end + positions.need;
        if self.search.is_some() && end - positions.tail > mask {
            positions.tail = named::raise(ring, positions.tail, positions.head)
                .map_err(|tail| Refusal::Corrupt { tail })?;
        }
        let mut tail = (positions.tail, Count::default());
        if self.policy == Policy::Overwrite && end - positions.tail > mask {
            let more = match self.evict {
                Evict::Exact => 0,
                Evict::Half => MORE,
            };
            tail = self
                .tail
                .walk(ring, positions.tail, positions.head, end, more)
                .map_err(|_| Refusal::Corrupt { tail: positions.tail })?;
        }
        if end - tail.0 > mask {
            return Ok(Err(positions));
        }
        // The tail has passed an open reservation, or seems to.
        if end > self.own_open.limit() {
            return Err(Refusal::Corrupt { tail: positions.tail });
        }
        Ok(Ok((positions, tail, markers)))
    }

    /// Ends the reservation that holds the room back, if its owner is dead. Returns `Ok` if another attempt is
    /// worthwhile.
    fn unblock<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        positions: Positions,
    ) -> Result<(), Refusal> {
        match self.blocker(at, positions) {
            Some(slot) if slot != self.owner.index && !liveness.is_alive(slot) => {
                sweep(at, slot, positions.head);
                Ok(())
            }
            // The reservation has ended since: the process that ended it is about to move the head.
            None if positions.head != positions.end => {
                fence(Ordering::SeqCst); // O
                advance_under_lock(at);
                Ok(())
            }
            _ => Err(self.no_room(at, liveness, positions)),
        }
    }

    pub(super) fn blocker(&self, at: Shared<'_>, positions: Positions) -> Option<u32> {
        if positions.head == positions.end {
            return None;
        }
        let word = at.ring.word(positions.head).load(Ordering::Acquire); // N
        RecordWord::from_raw(word).owner().filter(|slot| (*slot as usize) < at.slots.len())
    }

    /// Writes the producers' totals if they are due: before the tail passes them, before they are
    /// overwritten, and every interval.
    fn bring_totals(
        &mut self,
        at: Shared<'_>,
        positions: Positions,
        tail: u64,
        end: u64,
    ) -> Result<(), Refusal> {
        let (interval, mask) = (running::interval(at, self.lags), at.ring.data_size() - 1);
        let damaged = Refusal::Corrupt { tail: positions.tail };
        let must = |totals: u64| {
            end - totals > mask || (self.policy == Policy::Overwrite && tail > totals)
        };
        // A position never decreases, unless a process damages the ring.
        if self.totals_pos > positions.head {
            return Err(damaged);
        }
        if end - self.totals_pos < interval && !must(self.totals_pos) {
            return Ok(());
        }
        // Another producer may have written them.
        let totals = seq_latch::find(&at.ring.header.producer).ok_or(damaged)?;
        let pos = ProducerTotals::from_words(&totals.words).pos;
        if pos > positions.head || pos < self.totals_pos {
            return Err(damaged);
        }
        self.totals_pos = pos;
        // With something open, the records have to be counted, but only once there are enough of them.
        let upto = if positions.head == positions.end { end } else { positions.head };
        if upto - pos >= interval || must(pos) {
            self.totals_pos = running::write_totals(at, positions.head, positions.end, must)
                .map_err(|_| damaged)?;
            self.lags = positions.head == positions.end && self.totals_pos < positions.head;
        }
        Ok(())
    }

    /// Returns the tail that would let a record of `size` bytes in now.
    pub(crate) fn tail_for(&self, at: Shared<'_>, size: u64) -> u64 {
        let need = size + self.marker_bytes(at.ring, size);
        (at.end().saturating_add(need + 8)).saturating_sub(at.ring.data_size())
    }
}
