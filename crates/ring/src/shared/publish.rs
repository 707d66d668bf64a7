//! A producer of a shared ring: one of many, in any processes.
//!
//! A reservation is a few stores under the lock. What is small enough is written and published
//! there too, which costs one locked instruction in all; what is not is written outside, with the
//! header word marked as open, and ended by a swap of that word, after which `data_head` goes over
//! everything that has ended.

use crate::aux_area;
use crate::counters::{Count, Refused};
use crate::holder::Who;
use crate::record::{BODY_LEN, Corrupt};
use crate::reserve::{Refusal, Reserved, fill, max_len, refused_size};
use crate::shared::allot::Allotted;
use crate::shared::behind::Behind;
use crate::shared::group::Group;
use crate::shared::ledger;
use crate::shared::locked_room::LockedRoom;
use crate::shared::owner::Owner;
use crate::shared::slot::Figures;
use crate::shared::sweep::{advance, sweep};
use crate::time::{self, Reading};
use crate::view::{Peers, Ring, Shared, sane};
use crate::wait::{Fences, Wake, claim_wake};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{
    AUX_SIZE, Cause, HEADER_LEN, Header, Hole, Layout, RecordType, RecordWord, Slot, aux_record,
    range_size, record_size,
};

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

/// The private state of one producer of a shared ring.
#[derive(Debug)]
pub struct SharedWriter {
    room: LockedRoom,
    max_len: usize,
    /// No record without a stamp is so long, or longer.
    plain_end: usize,
    /// Bytes of each record's stamp.
    stamp: usize,
    allotted: Allotted,
    fences: Fences,
    behind: Behind,
}

impl SharedWriter {
    /// Attaches to a slot whose lock the caller holds: ends what the last holder left open, and
    /// signs.
    ///
    /// # Errors
    /// See [`Unattached`].
    pub fn attach<P: Peers>(
        at: Shared<'_>,
        layout: &Layout,
        fences: Fences,
        index: u32,
        who: &Who,
        peers: &P,
    ) -> Result<Self, Unattached> {
        let slot = &at.slots[index as usize];
        // The new epoch before anything else: no lock word of an earlier holder is this one's.
        who.sign(&slot.holder);
        let owner = Owner::new(index, Who::read(&slot.holder).epoch);
        match owner.lock(at, peers) {
            Ok(_) => {}
            Err(Refusal::Contended { slot }) => return Err(Unattached::Contended { slot }),
            Err(_) => return Err(Unattached::Corrupt(Corrupt { pos: at.ring.head() })),
        }
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
        let max_len = max_len(at.ring, layout);
        Ok(SharedWriter {
            room: LockedRoom::new(owner, layout, figures),
            max_len,
            plain_end: if layout.time { 0 } else { max_len + 1 },
            stamp: layout.stamp_len(),
            allotted: Allotted::new(layout.aux_size),
            fences,
            behind: Behind::new(),
        })
    }

    /// Publishes a record that `fill` writes, all under the lock. Returns whether the caller owes
    /// the consumer a wake. Counts no refusal: see [`SharedWriter::refuse`].
    ///
    /// For a ring without time: in any other it refuses every record as too large, and
    /// [`SharedWriter::publish_at`] is the way.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn publish<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        kind: RecordType,
        len: usize,
        wake: Wake,
        fill: impl FnOnce(&Reserved),
    ) -> Result<bool, Refusal> {
        if len >= self.plain_end {
            return Err(Refusal::TooLarge { len, max: self.max_len });
        }
        let start = self.room.begin(&at, peers, record_size(len))?;
        fill(&Reserved { start, kind, len, lead: 0 });
        self.publish_here(&at, peers, start, RecordWord::of(kind, len), wake)
    }

    /// As [`SharedWriter::publish`], at `now`: a moment of the stamps' clock, read before. The
    /// record is stamped with that, or with the newest stamp there is, if that is later. A ring
    /// without time takes no note of it.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[expect(clippy::too_many_arguments, reason = "all of them are a record's")]
    #[inline]
    pub fn publish_at<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        kind: RecordType,
        len: usize,
        now: u64,
        wake: Wake,
        fill: impl FnOnce(&Reserved),
    ) -> Result<bool, Refusal> {
        let reserved = self.begin_at(&at, peers, kind, len, now)?;
        fill(&reserved);
        self.publish_here(&at, peers, reserved.start, reserved.word(len), wake)
    }

    /// The record at `start` is in: under the lock, which this gives back.
    #[inline(always)]
    fn publish_here<P: Peers>(
        &mut self,
        at: &Shared<'_>,
        peers: &P,
        start: u64,
        word: RecordWord,
        wake: Wake,
    ) -> Result<bool, Refusal> {
        let (header, end) = (at.ring.header, start + word.size());
        // Relaxed: A or O publishes it.
        at.ring.word(start).store(word.raw(), Ordering::Relaxed);
        self.count_written(*at, start, 1, word.size());
        ledger::expect(*at, 1);
        // Nothing is open before it: nobody else can move the head, but to where it goes anyway. (B)
        if header.data_head.load(Ordering::Acquire) == start {
            header.data_head.store(end, Ordering::Release); // A, pairs with B: it is committed
            header.shared.producer_pos.store(end, Ordering::Release); // O
            self.room.owner().unlock(*at);
            return Ok(self.wake(*at, wake, end));
        }
        header.shared.producer_pos.store(end, Ordering::Release); // O: it is committed
        self.room.owner().unlock(*at);
        Ok(self.ended(*at, peers, wake, end))
    }

    /// Space for a record, marked as open. Any number can be open at a time, and end in any order.
    /// `now` as in [`SharedWriter::publish_at`].
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub fn try_reserve<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Reserved, Refusal> {
        if len > self.max_len {
            let (header, data, slots) = (at.ring.header, at.ring.data, at.slots);
            let (start, lead) =
                self.try_reserve_large(header, data, slots, peers, kind, len, now)?;
            return Ok(Reserved { start, kind, len, lead });
        }
        let reserved = self.begin_at(&at, peers, kind, len, now)?;
        self.open(at, reserved.start, reserved.size());
        Ok(reserved)
    }

    /// Space for several records, in one reservation of `bytes`: a multiple of 8, headers and
    /// stamps and padding included. All of them get one stamp. `now` as in
    /// [`SharedWriter::publish_at`].
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn try_reserve_group<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        bytes: u64,
        now: u64,
    ) -> Result<Group, Refusal> {
        let least = record_size(self.stamp);
        let size = (bytes.saturating_add(7) & !7).max(least);
        let len = usize::try_from(size - least).unwrap_or(usize::MAX);
        if len > self.max_len {
            return Err(Refusal::TooLarge { len, max: self.max_len });
        }
        let start = self.room.begin(&at, peers, size)?;
        let time = if self.stamp != 0 { rise(at, now) } else { 0 };
        self.open(at, start, size);
        Ok(Group::new(start, size, time))
    }

    /// Takes the lock, finds room for a record, and stamps it if it is to have one. Under the lock
    /// when it returns `Ok`.
    #[inline(always)]
    fn begin_at<P: Peers>(
        &mut self,
        at: &Shared<'_>,
        peers: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Reserved, Refusal> {
        if len > self.max_len {
            return Err(Refusal::TooLarge { len, max: self.max_len });
        }
        let stamp = self.stamp;
        let start = self.room.begin(at, peers, record_size(len + stamp))?;
        if stamp != 0 {
            // Relaxed: A or O publishes it.
            at.ring.word(start + u64::from(HEADER_LEN)).store(rise(*at, now), Ordering::Relaxed);
        }
        Ok(Reserved { start, kind, len, lead: stamp as u64 })
    }

    #[inline(always)]
    fn open(&mut self, at: Shared<'_>, start: u64, size: u64) {
        open_as(at, start, RecordWord::busy(size, self.index()));
        self.room.owner().unlock(at);
    }

    /// As [`SharedWriter::try_reserve`], of a payload that is too long for the data area: its record's
    /// position, and its lead.
    ///
    /// The ring in its parts, so that the call from the hot path passes it in registers.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "three are the ring")]
    fn try_reserve_large<P: Peers>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        slots: &[Slot],
        peers: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        let (at, need) = (Shared::new(Ring::new(header, data), slots), range_size(len));
        if need > self.allotted.size() {
            return Err(Refusal::TooLarge { len, max: self.max_len() });
        }
        let floor = self.room.floor();
        let start = self.room.begin(&at, peers, RecordWord::aux().size())?;
        let (policy, index) = (self.room.policy(), self.index());
        let range_at = match self.allotted.find(at, peers, policy, index, start, need) {
            Ok(range_at) => range_at,
            Err(refusal) => {
                self.room.take_back(at, floor);
                return Err(refusal);
            }
        };
        let lead = Reserved::large_lead(range_at);
        let reserved = Reserved { start, kind, len, lead };
        let time = if self.stamp != 0 { rise(at, now) } else { 0 };
        reserved.write_body(at.ring, len, time, policy);
        open_as(at, start, RecordWord::busy_aux(index));
        // After `producer_pos`: whoever sees the range sees that something is reserved (O). Under
        // the lock.
        at.ring.header.aux.head.store(range_at + need, Ordering::Release);
        self.room.owner().unlock(at);
        Ok((start, lead))
    }

    /// Commits the first `len` bytes of a reservation. Returns whether a wake is owed.
    #[inline]
    pub fn commit<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        reserved: Reserved,
        len: usize,
        wake: Wake,
    ) -> bool {
        if reserved.is_large() {
            let (header, data, slots) = (at.ring.header, at.ring.data, at.slots);
            let (start, len) = (reserved.start, len.min(reserved.len));
            return self.commit_large(header, data, slots, peers, start, len, wake);
        }
        let (start, size) = (reserved.start, reserved.size());
        let word = reserved.word(len.min(reserved.len));
        if word.size() < size {
            leave(at, start + word.size(), size - word.size(), 0);
        }
        self.count_written(at, start, 1, word.size());
        self.end(at, peers, start, word, size, wake)
    }

    /// Commits a reservation of [`SharedWriter::try_reserve_large`]. Returns whether a wake is owed.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "three are the ring")]
    fn commit_large<P: Peers>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        slots: &[Slot],
        peers: &P,
        start: u64,
        len: usize,
        wake: Wake,
    ) -> bool {
        let at = Shared::new(Ring::new(header, data), slots);
        let word = RecordWord::aux();
        // What is left of its range is free when the next one is. Relaxed: N publishes it.
        let len_word = at.ring.word(start + 8 + 8 * aux_record::LEN as u64);
        len_word.store(len as u64, Ordering::Relaxed);
        self.count_written(at, start, 1, word.size());
        self.end(at, peers, start, word, word.size(), wake)
    }

    /// Gives a reservation back: a hole that readers skip. Returns whether a wake is owed, as
    /// younger records may have waited for it to end.
    pub fn discard<P: Peers>(&mut self, at: Shared<'_>, peers: &P, reserved: Reserved) -> bool {
        let size = if reserved.is_large() { AUX_SIZE.into() } else { reserved.size() };
        self.give_back(at, peers, reserved.start, size)
    }

    fn give_back<P: Peers>(&mut self, at: Shared<'_>, peers: &P, start: u64, size: u64) -> bool {
        ledger::correct(at, u64::MAX, Count { records: 1, bytes: size }); // one written less
        let (figures, slot) = self.room.figures_mut(at);
        figures.add_discarded(slot, start, size);
        self.end(at, peers, start, RecordWord::nop(size, Hole::Discarded), size, Wake::Auto)
    }

    /// The next record of a group, to be filled, if it fits.
    pub fn next_in_group(
        &self,
        at: Shared<'_>,
        group: &mut Group,
        kind: RecordType,
        len: usize,
    ) -> Option<Reserved> {
        if len > self.max_len {
            return None;
        }
        let reserved = Reserved { start: group.next(), kind, len, lead: self.stamp as u64 };
        if reserved.size() > group.left() {
            return None;
        }
        group.add(at.ring, reserved.word(len), self.stamp != 0);
        Some(reserved)
    }

    /// Ends a group: all its records are published at once, and the rest is given back. Returns
    /// whether a wake is owed.
    pub fn commit_group<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        group: Group,
        wake: Wake,
    ) -> bool {
        let (start, records) = (group.start(), group.records());
        if records == 0 {
            return self.give_back(at, peers, start, group.size());
        }
        if group.left() > 0 || records > 1 {
            leave(at, group.next(), group.left(), records - 1);
        }
        self.count_written(at, start, records, group.used());
        self.end(at, peers, start, group.first(), group.size(), wake)
    }

    /// The swap that ends a reservation, and what follows from it.
    #[inline(always)]
    fn end<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        start: u64,
        word: RecordWord,
        size: u64,
        wake: Wake,
    ) -> bool {
        at.ring.word(start).swap(word.raw(), Ordering::SeqCst); // N, O
        // loom takes SeqCst accesses for acquire and release ones, and knows the fence.
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        self.ended_at(at, peers, wake, start + size)
    }

    /// After a record was published behind an open one.
    #[cold]
    fn ended<P: Peers>(&mut self, at: Shared<'_>, peers: &P, wake: Wake, end: u64) -> bool {
        fence(Ordering::SeqCst); // O
        self.ended_at(at, peers, wake, end)
    }

    #[inline(always)]
    fn ended_at<P: Peers>(&mut self, at: Shared<'_>, peers: &P, wake: Wake, end: u64) -> bool {
        let head = advance(at);
        if head < end {
            self.behind.look(at, peers, self.room.owner(), head);
            // Whoever sleeps will not be woken by what is published here: it is to look whether
            // the one that holds it up is dead.
            return self.wake(at, if wake == Wake::No { wake } else { Wake::Force }, head);
        }
        self.wake(at, wake, head)
    }

    #[inline(always)]
    fn wake(&self, at: Shared<'_>, wake: Wake, head: u64) -> bool {
        if wake == Wake::No {
            return false;
        }
        self.fences.light(); // I, pairs with J
        // Relaxed: I orders it.
        at.ring.header.wait.armed.load(Ordering::Relaxed) != 0 && claim(at, wake, head)
    }

    /// Counts a refusal, to be told in the stream before the next record of this producer that
    /// fits. Returns whether a wake is owed: a full ring wants reading.
    #[cold]
    pub fn refuse(&mut self, at: Shared<'_>, refusal: Refusal, len: usize) -> bool {
        let cause = match refusal {
            Refusal::TooLarge { .. } => Cause::TooLarge,
            Refusal::Contended { .. } => Cause::Contended,
            Refusal::Pending { .. } => Cause::Pending,
            Refusal::Full | Refusal::Corrupt { .. } => Cause::Full,
        };
        let size = if len > self.max_len {
            refused_size(self.allotted.size(), len, self.stamp)
        } else {
            record_size(len + self.stamp)
        };
        let (figures, slot) = self.room.figures_mut(at);
        figures.add_refused(slot, cause, size);
        // The next reservation makes room, which tells the loss.
        self.room.look_again();
        self.wake(at, Wake::Force, at.ring.head())
    }

    /// Before the producer goes: tells losses that are still to be told, if there is room. Returns
    /// whether a wake is owed.
    pub fn detach<P: Peers>(&mut self, at: Shared<'_>, peers: &P) -> bool {
        let owner = self.room.owner();
        if self.room.figures().losses().all_told() || owner.lock(at, peers).is_err() {
            return false;
        }
        let told = self.room.make_room(at, peers, 0).is_ok();
        owner.unlock(at);
        fence(Ordering::SeqCst); // O
        told && self.ended_at(at, peers, Wake::Auto, 0)
    }

    #[inline(always)]
    fn count_written(&mut self, at: Shared<'_>, pos: u64, records: u64, bytes: u64) {
        let (figures, slot) = self.room.figures_mut(at);
        figures.add_written(slot, pos, records, bytes);
    }

    /// The tail that would let a record of `len` bytes in now: what to wait for.
    #[must_use]
    pub fn tail_for(&self, at: Shared<'_>, len: usize) -> u64 {
        if len <= self.max_len {
            return self.room.tail_for(at, record_size(len + self.stamp));
        }
        let small = self.room.tail_for(at, record_size(BODY_LEN));
        // Relaxed: who waits looks again.
        let head = at.ring.header.aux.head.load(Ordering::Relaxed);
        aux_area::tail_for(at.ring, self.allotted.size(), head, len).max(small)
    }

    /// Notes in a timed ring what the clocks say: after attaching, before the first record. `read`
    /// reads them, under the lock: what is stamped by then is not of the future. Returns whether the
    /// lock was to be had.
    #[must_use]
    pub fn begin_time<P: Peers>(
        &self,
        at: Shared<'_>,
        peers: &P,
        read: impl FnOnce() -> Reading,
    ) -> bool {
        self.under_lock(at, peers, || {
            // Relaxed: M orders it.
            let newest = at.ring.header.shared.newest_stamp.load(Ordering::Relaxed);
            time::begin(at.ring, &read(), at.producer_pos(), newest);
        })
    }

    /// The same, now and again.
    #[must_use]
    pub fn keep_time<P: Peers>(
        &self,
        at: Shared<'_>,
        peers: &P,
        read: impl FnOnce() -> Reading,
    ) -> bool {
        self.under_lock(at, peers, || time::keep(at.ring, &read(), at.producer_pos()))
    }

    fn under_lock<P: Peers>(&self, at: Shared<'_>, peers: &P, then: impl FnOnce()) -> bool {
        let owner = self.room.owner();
        if owner.lock(at, peers).is_err() {
            return false;
        }
        then();
        owner.unlock(at);
        true
    }

    /// What this slot has written, this producer and those before it.
    #[must_use]
    pub fn written(&self) -> Count {
        self.room.figures().written()
    }

    /// What this slot was refused, as [`SharedWriter::written`].
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.room.figures().losses().refused
    }

    /// What this slot gave back, as [`SharedWriter::written`].
    #[must_use]
    pub fn discarded(&self) -> Count {
        self.room.figures().losses().discarded
    }

    /// The slot.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.room.owner().index()
    }

    /// The longest payload.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.max_len.max(self.allotted.size() as usize)
    }

    /// Copies a payload into its reservation, word by word. A mapping has a quicker way.
    pub fn fill(&self, at: Shared<'_>, reserved: &Reserved, payload: &[u8]) {
        fill(at.ring, reserved, payload);
    }
}

/// Opens a reservation, under the lock.
#[inline(always)]
fn open_as(at: Shared<'_>, start: u64, word: RecordWord) {
    // Relaxed: O publishes it.
    at.ring.word(start).store(word.raw(), Ordering::Relaxed);
    ledger::expect(at, 1);
    at.ring.header.shared.producer_pos.store(start + word.size(), Ordering::Release); // O
}

/// What is left of a reservation becomes a hole of its own, and the ledger hears of it, and of
/// records that it did not expect.
fn leave(at: Shared<'_>, pos: u64, rest: u64, more: u64) {
    if rest > 0 {
        // Relaxed: the swap publishes it.
        at.ring.word(pos).store(RecordWord::nop(rest, Hole::Rest).raw(), Ordering::Relaxed);
    }
    ledger::correct(at, more, Count { records: 0, bytes: rest });
}

/// The stamp of what is reserved now, under the lock: no less than that of anything before it.
#[inline(always)]
fn rise(at: Shared<'_>, now: u64) -> u64 {
    // Relaxed: M orders it. Before the reservation: a stamp that nothing has does no harm.
    let newest = &at.ring.header.shared.newest_stamp;
    let stamp = newest.load(Ordering::Relaxed).max(now);
    newest.store(stamp, Ordering::Relaxed);
    stamp
}

/// A producer of a shared ring saw a sleeper. How many records there are is known to nobody just
/// now: what the ledger says counts open ones too, so a sleeper who waits for so many may be woken
/// somewhat early; and where it is stale, at once.
#[cold]
fn claim(at: Shared<'_>, wake: Wake, head: u64) -> bool {
    claim_wake(&at.ring.header.wait, wake, head, ledger::records(at))
}
