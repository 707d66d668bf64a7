//! A producer of a shared ring: one of many, in any processes.
//!
//! A reservation is a few stores under the lock. What is small enough is written and published
//! there too, which costs one locked instruction in all; what is not is written outside, with the
//! header word marked as open, and ended by a swap of that word, after which `data_head` goes over
//! everything that has ended.

use crate::book::Count;
use crate::latch::LatchWriter;
use crate::lock::{Owner, advance};
use crate::record::Corrupt;
use crate::slot::{self, Losses, NOWHERE};
use crate::wait::claim_wake;
use crate::{Fences, Peers, Refusal, Reserved, Shared, Wake, Who, latch};
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{
    AUX_SIZE, Cause, Evict, HEADER_LEN, Hole, Layout, Policy, RecordType, RecordWord, Tell, ledger,
    record_size,
};

/// Records published behind the same open reservation before a producer asks whether its owner
/// still lives: the ring goes on although nobody needs the space yet.
const BEHIND_MAX: u32 = if cfg!(loom) { 1 } else { 64 };

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
    pub(crate) owner: Owner,
    /// End of this producer's last reservation: none begins before it.
    pub(crate) floor: u64,
    /// A reservation that ends here or before needs no look at anything but the lock's line.
    pub(crate) limit: u64,
    /// An overwrite ring need do no more than evict for a reservation that ends here or before.
    pub(crate) evict_limit: u64,
    max_len: usize,
    /// No record without a stamp is so long, or longer.
    plain_end: usize,
    /// Bytes of each record's stamp.
    stamp: usize,
    pub(crate) aux_size: u64,
    /// End of this producer's last range: none begins before it.
    pub(crate) range_floor: u64,
    pub(crate) fences: Fences,
    pub(crate) policy: Policy,
    pub(crate) evict: Evict,
    pub(crate) tell: Tell,
    /// Overwrite: what `data_tail` held after this producer's last eviction, and what was
    /// overwritten before it: good for as long as nobody else evicts.
    pub(crate) tail: u64,
    pub(crate) overwritten: Count,
    pub(crate) tail_latch: LatchWriter,
    /// Where the producers' book was true when last looked at.
    pub(crate) book_pos: u64,
    /// Of this slot, this producer and those before it.
    written: Count,
    written_latch: LatchWriter,
    pub(crate) losses: Losses,
    losses_latch: LatchWriter,
    /// Where `data_head` stood at the last publish behind an open reservation, and how many in a
    /// row found it there.
    behind: (u64, u32),
}

/// Space for several records in one reservation.
#[derive(Debug)]
pub struct Group {
    start: u64,
    size: u64,
    used: u64,
    records: u64,
    first: RecordWord,
    /// Of all its records, in a timed ring: what is reserved after them may end before.
    time: u64,
}

impl Default for Group {
    /// Of no space: to be left in the place of one that is ended.
    fn default() -> Self {
        Group::new(0, 0, 0)
    }
}

impl Group {
    fn new(start: u64, size: u64, time: u64) -> Self {
        Group { start, size, used: 0, records: 0, first: RecordWord::from_raw(0), time }
    }

    /// Bytes of it that no record has taken.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.size - self.used
    }

    /// Records in it.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
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
        let sane = crate::sane(at.ring, end, tail) && head <= end && head >= tail;
        if !sane || !head.is_multiple_of(8) {
            owner.unlock(at);
            return Err(Unattached::Corrupt(Corrupt { pos: tail }));
        }
        owner.sweep(at, index);
        let whole = latch::find(&slot.written);
        let written = whole.as_ref().map_or(Count::default(), |w| slot::written_of(&w.words));
        let written_latch = LatchWriter::after(&slot.written, whole.as_ref());
        let losses = Losses::load(at, index);
        let losses_latch = LatchWriter::after(&slot.losses, latch::find(&slot.losses).as_ref());
        slot::set_base(slot, written, &losses);
        owner.unlock(at);
        let max_len = crate::writer::max_len(at.ring, layout);
        Ok(SharedWriter {
            owner,
            floor: 0,
            range_floor: 0,
            limit: 0,
            evict_limit: 0,
            max_len,
            plain_end: if layout.time { 0 } else { max_len + 1 },
            stamp: layout.stamp_len(),
            aux_size: layout.aux_size,
            fences,
            policy: layout.policy,
            evict: layout.evict,
            tell: layout.tell,
            tail: u64::MAX,
            overwritten: Count::default(),
            tail_latch: LatchWriter::default(),
            book_pos: 0,
            written,
            written_latch,
            losses,
            losses_latch,
            behind: (u64::MAX, 0),
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
        let start = self.begin(&at, peers, record_size(len))?;
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
        self.count_in_ledger(*at, 1);
        // Nothing is open before it: nobody else can move the head, but to where it goes anyway. (B)
        if header.data_head.load(Ordering::Acquire) == start {
            header.data_head.store(end, Ordering::Release); // A, pairs with B: it is committed
            header.shared.producer_pos.store(end, Ordering::Release); // O
            self.owner.unlock(*at);
            return Ok(self.wake(*at, wake, end));
        }
        header.shared.producer_pos.store(end, Ordering::Release); // O: it is committed
        self.owner.unlock(*at);
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
        self.open(at, reserved.start, reserved.start + reserved.size());
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
        let start = self.begin(&at, peers, size)?;
        let time = if self.stamp != 0 { rise(at, now) } else { 0 };
        self.open(at, start, start + size);
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
        let start = self.begin(at, peers, record_size(len + stamp))?;
        if stamp != 0 {
            // Relaxed: A or O publishes it.
            at.ring.word(start + u64::from(HEADER_LEN)).store(rise(*at, now), Ordering::Relaxed);
        }
        Ok(Reserved { start, kind, len, lead: stamp as u64 })
    }

    /// Takes the lock and finds room. Under the lock when it returns `Ok`.
    ///
    /// By reference, as those that it is built in: a copy of what was put together a moment ago
    /// waits for its stores, and then the locked instruction for the copy.
    #[inline(always)]
    pub(crate) fn begin<P: Peers>(
        &mut self,
        at: &Shared<'_>,
        peers: &P,
        size: u64,
    ) -> Result<u64, Refusal> {
        self.owner.lock(*at, peers)?;
        // Relaxed: M orders it.
        let mut start = at.ring.header.shared.producer_pos.load(Ordering::Relaxed);
        let there_is_room = self.fits(start, size, self.limit)
            || (self.fits(start, size, self.evict_limit)
                && self.evict_few(at.ring.header, at.ring.data, start.wrapping_add(size)));
        if !there_is_room {
            start = match self.make_room(*at, peers, size) {
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

    /// Whether a record of so many bytes ends at `limit` or before. One that begins where none can,
    /// at no multiple of eight or before the end of this producer's last, does not: the page is
    /// not believed in that.
    #[inline(always)]
    fn fits(&self, start: u64, size: u64, limit: u64) -> bool {
        // What is no multiple of eight becomes a huge number of words, as what is negative does.
        let words = start.wrapping_sub(self.floor).rotate_right(3);
        words.saturating_add(size >> 3) <= limit.saturating_sub(self.floor) >> 3
    }

    #[inline(always)]
    fn open(&mut self, at: Shared<'_>, start: u64, end: u64) {
        self.open_as(at, start, RecordWord::busy(end - start, self.owner.index()));
        self.owner.unlock(at);
    }

    #[inline(always)]
    pub(crate) fn open_as(&self, at: Shared<'_>, start: u64, word: RecordWord) {
        // Relaxed: O publishes it.
        at.ring.word(start).store(word.raw(), Ordering::Relaxed);
        self.count_in_ledger(at, 1);
        at.ring.header.shared.producer_pos.store(start + word.size(), Ordering::Release); // O
    }

    /// Whether each record has a stamp.
    pub(crate) fn stamped(&self) -> bool {
        self.stamp != 0
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
            self.leave(at, start + word.size(), size - word.size(), 0);
        }
        self.count_written(at, start, 1, word.size());
        self.end(at, peers, start, word, size, wake)
    }

    /// Gives a reservation back: a hole that readers skip. Returns whether a wake is owed, as
    /// younger records may have waited for it to end.
    pub fn discard<P: Peers>(&mut self, at: Shared<'_>, peers: &P, reserved: Reserved) -> bool {
        let size = if reserved.is_large() { AUX_SIZE.into() } else { reserved.size() };
        self.give_back(at, peers, reserved.start, size)
    }

    fn give_back<P: Peers>(&mut self, at: Shared<'_>, peers: &P, start: u64, size: u64) -> bool {
        self.in_ledger(at, u64::MAX, Count { records: 1, bytes: size }); // one written less
        self.losses.discarded.add(size);
        self.count_losses(at, start);
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
        let start = group.start + group.used;
        let reserved = Reserved { start, kind, len, lead: self.stamp as u64 };
        let (size, word) = (reserved.size(), reserved.word(len));
        if size > group.left() {
            return None;
        }
        if group.used == 0 {
            group.first = word; // its place says that the group is open
        } else {
            // Relaxed: the swap at the end publishes it.
            at.ring.word(start).store(word.raw(), Ordering::Relaxed);
        }
        if self.stamp != 0 {
            at.ring.word(start + u64::from(HEADER_LEN)).store(group.time, Ordering::Relaxed);
        }
        group.used += size;
        group.records += 1;
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
        if group.records == 0 {
            return self.give_back(at, peers, group.start, group.size);
        }
        if group.left() > 0 || group.records > 1 {
            self.leave(at, group.start + group.used, group.left(), group.records - 1);
        }
        self.count_written(at, group.start, group.records, group.used);
        self.end(at, peers, group.start, group.first, group.size, wake)
    }

    /// What is left of a reservation becomes a hole of its own, and the ledger hears of it, and of
    /// records that it did not expect.
    fn leave(&mut self, at: Shared<'_>, pos: u64, rest: u64, more: u64) {
        if rest > 0 {
            // Relaxed: the swap publishes it.
            at.ring.word(pos).store(RecordWord::nop(rest, Hole::Rest).raw(), Ordering::Relaxed);
        }
        self.in_ledger(at, more, Count { records: 0, bytes: rest });
    }

    /// Tells the ledger of an end that it does not expect. Before it comes: whoever finds nothing
    /// open any more (B) finds this too. If it never comes, because this producer dies, the ledger
    /// is counted anew.
    fn in_ledger(&self, at: Shared<'_>, written: u64, discarded: Count) {
        let line = &at.ring.header.shared;
        let ledger = &line.ledger[ledger::DISCARDED_RECORDS..];
        let more = [discarded.records, discarded.bytes, written];
        for (word, more) in ledger[..2].iter().chain([&line.ledger_more]).zip(more) {
            if more != 0 {
                word.fetch_add(more, Ordering::Relaxed); // N publishes it
            }
        }
    }

    /// The swap that ends a reservation, and what follows from it.
    #[inline(always)]
    pub(crate) fn end<P: Peers>(
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
            self.wait_behind(at, peers, head);
            // Whoever sleeps will not be woken by what is published here: it is to look whether
            // the one that holds it up is dead.
            return self.wake(at, if wake == Wake::No { wake } else { Wake::Force }, head);
        }
        self.wake(at, wake, head)
    }

    /// Asks now and then whether the owner of the reservation that holds up the head is alive.
    #[cold]
    fn wait_behind<P: Peers>(&mut self, at: Shared<'_>, peers: &P, head: u64) {
        let (pos, times) = self.behind;
        self.behind = if pos == head { (head, times + 1) } else { (head, 1) };
        if !self.behind.1.is_multiple_of(BEHIND_MAX) {
            return;
        }
        let Some(owner) = at.held_up() else { return };
        if owner != self.owner.index()
            && (owner as usize) < at.slots.len()
            && !peers.is_alive(owner)
            && self.owner.lock(at, peers).is_ok()
        {
            // Again under the lock: its slot may have another holder by now, who has swept it.
            if !peers.is_alive(owner) {
                self.owner.sweep(at, owner);
            }
            self.owner.unlock(at);
        } else {
            self.note_stuck(at, peers, head);
        }
    }

    /// Notes since when the head has not moved, for who looks at the ring.
    pub(crate) fn note_stuck<P: Peers>(&self, at: Shared<'_>, peers: &P, head: u64) {
        let line = &at.ring.header.shared;
        // Relaxed: hints for people.
        if line.stuck_pos.load(Ordering::Relaxed) != head
            || line.stuck_since_ns.load(Ordering::Relaxed) == 0
        {
            line.stuck_since_ns.store(peers.now_ns(), Ordering::Relaxed);
            line.stuck_pos.store(head, Ordering::Relaxed);
        }
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
        self.losses.refused.of_mut(cause).add(if len > self.max_len {
            crate::large::refused_size(self.aux_size, len, self.stamp)
        } else {
            record_size(len + self.stamp)
        });
        self.count_losses(at, NOWHERE);
        // The next reservation comes by `make_room`, which tells the loss.
        (self.limit, self.evict_limit) = (0, 0);
        self.wake(at, Wake::Force, at.ring.head())
    }

    /// Before the producer goes: tells losses that are still to be told, if there is room. Returns
    /// whether a wake is owed.
    pub fn detach<P: Peers>(&mut self, at: Shared<'_>, peers: &P) -> bool {
        if self.losses.refused == self.losses.told || self.owner.lock(at, peers).is_err() {
            return false;
        }
        let told = self.make_room(at, peers, 0).is_ok();
        self.owner.unlock(at);
        fence(Ordering::SeqCst); // O
        told && self.ended_at(at, peers, Wake::Auto, 0)
    }

    /// Counts what this slot has written, before the store that commits it.
    #[inline(always)]
    pub(crate) fn count_written(&mut self, at: Shared<'_>, pos: u64, records: u64, bytes: u64) {
        self.written.records = self.written.records.wrapping_add(records);
        self.written.bytes = self.written.bytes.wrapping_add(bytes);
        let words = [0, pos, self.written.records, self.written.bytes, 0];
        self.written_latch.write(&at.slots[self.owner.index() as usize].written, &words);
    }

    /// Writes the slot's losses; the newest of them comes true at `pos`.
    pub(crate) fn count_losses(&mut self, at: Shared<'_>, pos: u64) {
        let latch = &at.slots[self.owner.index() as usize].losses;
        self.losses_latch.write(latch, &self.losses.to_words(pos));
    }

    #[inline(always)]
    fn count_in_ledger(&self, at: Shared<'_>, records: u64) {
        // Relaxed, and no addition in one: the lock orders it.
        let written = &at.ring.header.shared.ledger_written;
        written.store(written.load(Ordering::Relaxed).wrapping_add(records), Ordering::Relaxed);
    }

    /// The tail that would let a record of `len` bytes in now: what to wait for.
    #[must_use]
    pub fn tail_for(&self, at: Shared<'_>, len: usize) -> u64 {
        if len > self.max_len {
            return self.tail_for_large(at, len);
        }
        self.tail_for_record(at, record_size(len + self.stamp))
    }

    pub(crate) fn tail_for_record(&self, at: Shared<'_>, size: u64) -> u64 {
        let need = size + self.marker_bytes(at.ring, size);
        (at.producer_pos().saturating_add(need + 8)).saturating_sub(at.ring.data_size())
    }

    /// What this slot has written, this producer and those before it.
    #[must_use]
    pub fn written(&self) -> Count {
        self.written
    }

    /// What this slot was refused, as [`SharedWriter::written`].
    #[must_use]
    pub fn refused(&self) -> crate::Refused {
        self.losses.refused
    }

    /// What this slot gave back, as [`SharedWriter::written`].
    #[must_use]
    pub fn discarded(&self) -> Count {
        self.losses.discarded
    }

    /// The slot.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.owner.index()
    }

    /// The longest payload.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.max_len.max(self.aux_size as usize)
    }

    /// Copies a payload into its reservation, word by word. A mapping has a quicker way.
    pub fn fill(&self, at: Shared<'_>, reserved: &Reserved, payload: &[u8]) {
        crate::writer::fill(at.ring, reserved, payload);
    }
}

/// The stamp of what is reserved now, under the lock: no less than that of anything before it.
#[inline(always)]
pub(crate) fn rise(at: Shared<'_>, now: u64) -> u64 {
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
    let line = &at.ring.header.shared;
    // Relaxed: a threshold in records is a wish.
    let records = match line.ledger_stale.load(Ordering::Relaxed) {
        0 => line
            .ledger_written
            .load(Ordering::Relaxed)
            .wrapping_add(line.ledger_more.load(Ordering::Relaxed)),
        _ => u64::MAX,
    };
    claim_wake(&at.ring.header.wait, wake, head, records)
}
