//! The producer of an exclusive ring.
//!
//! Private copies decide; what the page says is taken for nothing but the tail of a drop ring,
//! and that is checked. The fast path is one comparison, the header store, the payload copy and a
//! release store of `data_head`; everything else is in [`crate::producer::room`] behind one branch.

use crate::aux_area;
use crate::counters::{Count, ProducerTotals};
use crate::producer::loan::{Changed, Hot};
use crate::producer::ranges::Ranges;
use crate::producer::room::Room;
use crate::record::{BODY_LEN, Corrupt};
use crate::recount::{bring_up, totals_interval};
use crate::reserve::{Refusal, Reserved, fill, max_len, refused_size};
use crate::time::{self, Reading};
use crate::view::{Ring, sane};
use crate::wait::{Fences, Wake, claim_wake};
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    AUX_SIZE, HEADER_LEN, Header, Hole, Layout, RecordType, RecordWord, TIMESTAMP_LEN, range_size,
    record_size,
};

/// The private state of an exclusive producer.
#[derive(Debug)]
pub struct Writer {
    room: Room,
    max_len: usize,
    /// A payload of this length or longer is too long, or wants a stamp: one test for both, so that
    /// a ring without time pays nothing for it.
    plain_end: usize,
    timestamp: usize,
    fences: Fences,
    ranges: Ranges,
}

impl Writer {
    /// Takes over a ring as its one producer: from a new ring's zeros, or from where the last
    /// producer was stopped, killed or not. What it had reserved and not committed is gone without
    /// a trace, as nothing of it was published.
    ///
    /// # Errors
    /// [`Corrupt`] if positions or records are such as no producer leaves.
    pub fn attach(ring: Ring<'_>, layout: &Layout, fences: Fences) -> Result<Self, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A of the last one
        let tail = ring.header.data_tail.load(Ordering::Acquire); // D, pairs with C
        if !sane(ring, head, tail) {
            return Err(Corrupt { pos: tail });
        }
        let (mut room, from) = Room::attach(ring, layout, head, tail)?;
        let ranges = Ranges::attach(ring, layout, from, head)?;
        // The records from the old book to the head may be overwritten from now on.
        room.account.write(ring);
        let max_len = max_len(ring, layout);
        let plain_end = if layout.time { 0 } else { max_len + 1 };
        Ok(Writer { room, max_len, plain_end, timestamp: layout.timestamp_len(), fences, ranges })
    }

    /// Space for a record, or why not. Counts nothing: a caller that gives up calls
    /// [`Writer::refuse`].
    ///
    /// `now` is asked for a moment of the stamps' clock, if one is needed: the record of a timed
    /// ring gets that, or the stamp of the record before it, if that is later.
    ///
    /// What it returns is put together in one place: so what the caller's compiler knows of the
    /// length is not forgotten where its ways meet.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: impl FnOnce(&mut Self) -> u64,
    ) -> Result<Reserved, Refusal> {
        let (start, lead) = if len < self.plain_end {
            (self.place::<0>(ring, kind, len, 0)?, 0)
        } else {
            let now = now(self);
            self.place_other(ring, kind, len, now)?
        };
        Ok(Reserved { start, kind, len, lead })
    }

    /// As [`Writer::try_reserve`], of a payload shorter than [`Writer::plain_end`]; any other is
    /// refused as too large. So the caller's code knows nothing of stamps and of the AUX area.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve_plain(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
    ) -> Result<Reserved, Refusal> {
        if len >= self.plain_end {
            return Err(Refusal::TooLarge { len, max: self.max_len });
        }
        let start = self.place::<0>(ring, kind, len, 0)?;
        Ok(Reserved { start, kind, len, lead: 0 })
    }

    /// Where a record begins that may have a stamp or be large, and its lead.
    #[inline]
    fn place_other(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        if len > self.max_len {
            return self.place_large(ring.header, ring.data, len, now);
        }
        if self.timestamp == 0 {
            return Ok((self.place::<0>(ring, kind, len, 0)?, 0));
        }
        const TIMESTAMP: usize = TIMESTAMP_LEN as usize;
        Ok((self.place::<TIMESTAMP>(ring, kind, len, now)?, TIMESTAMP as u64))
    }

    #[inline(always)]
    fn place<const TIMESTAMP: usize>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<u64, Refusal> {
        let start = self.room.place(ring, record_size(len + TIMESTAMP))?;
        // The header now, in order with the payload after it: at commit, a reader that runs ahead
        // may have taken its line back. Nobody looks at it before the head has passed it.
        // Relaxed: A publishes it, and E came before it.
        let word = RecordWord::of(kind, len + TIMESTAMP);
        ring.word(start).store(word.raw(), Ordering::Relaxed);
        if TIMESTAMP != 0 {
            let timestamp = self.room.account.timestamp(now);
            ring.word(start + u64::from(HEADER_LEN)).store(timestamp, Ordering::Relaxed);
        }
        Ok(start)
    }

    /// As [`Writer::place_other`], of a payload that is too long for the data area. Not what the
    /// caller's code knows: that would be forgotten there.
    #[cold]
    #[inline(never)]
    fn place_large(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        let (ring, policy, need) = (Ring::new(header, data), self.room.policy, range_size(len));
        if need > self.ranges.size {
            return Err(Refusal::TooLarge { len, max: self.max_len() });
        }
        let tail = self.ranges.find_room(ring, policy, need)?;
        let word = RecordWord::aux();
        let start = self.room.place(ring, word.size())?;
        // Relaxed, as in `place`.
        ring.word(start).store(word.raw(), Ordering::Relaxed);
        self.ranges.make_room(ring, policy, tail);
        self.room.account.timestamp(now);
        Ok((start, Reserved::large_lead(self.ranges.pos)))
    }

    /// Ends a reservation and holds the record back until the next publish. `len` bytes of it
    /// count, the rest is given back. One with its payload in the AUX area is published at once, with
    /// all before it; who sleeps is woken by the next publish.
    #[inline(always)]
    pub fn commit(&mut self, ring: Ring<'_>, reserved: Reserved, len: usize) {
        if reserved.is_large() {
            let Reserved { start, kind, len: most, lead } = reserved;
            let len = len.min(most);
            let _ = self.commit_large(ring.header, ring.data, start, lead, kind, len, Wake::No);
            return;
        }
        self.room.hold();
        self.end(ring, reserved, len);
    }

    /// Ends a reservation and publishes it with all that was held back before. Returns whether the
    /// caller owes the consumer a wake.
    #[inline(always)]
    #[must_use]
    pub fn commit_and_publish(
        &mut self,
        ring: Ring<'_>,
        reserved: Reserved,
        len: usize,
        wake: Wake,
    ) -> bool {
        if reserved.is_large() {
            let Reserved { start, kind, len: most, lead } = reserved;
            let len = len.min(most);
            return self.commit_large(ring.header, ring.data, start, lead, kind, len, wake);
        }
        let start = reserved.start;
        let size = self.end(ring, reserved, len);
        self.publish_at(ring, wake, start + size)
    }

    #[inline(always)]
    fn end(&mut self, ring: Ring<'_>, reserved: Reserved, len: usize) -> u64 {
        let len = len.min(reserved.len);
        // Two ways, so that each knows what it adds where the caller knows the length.
        let word = match reserved.lead {
            0 => RecordWord::of(reserved.kind, len),
            timestamp => RecordWord::of(reserved.kind, len + timestamp as usize),
        };
        if len != reserved.len {
            // Relaxed: A publishes it.
            ring.word(reserved.start).store(word.raw(), Ordering::Relaxed);
        }
        self.room.account.add_one(word.size());
        word.size()
    }

    /// Ends a reservation of [`Writer::place_large`], and publishes it with all that was held back.
    /// Returns whether a wake is owed.
    ///
    /// All that it is told in scalars: what a call from the hot path can see has to be in memory.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "they are a ring and a reservation")]
    fn commit_large(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        start: u64,
        lead: u64,
        kind: RecordType,
        len: usize,
        wake: Wake,
    ) -> bool {
        let ring = Ring::new(header, data);
        let reserved = Reserved { start, kind, len, lead };
        reserved.write_body(ring, len, self.newest_timestamp(), self.room.policy);
        self.ranges.pos += range_size(len);
        self.room.account.add_one(AUX_SIZE.into());
        let owed = self.publish(ring, wake);
        self.ranges.publish(ring);
        owed
    }

    /// Gives a reservation back: a hole that readers skip, as in the BPF ring buffer, so that
    /// positions do not depend on what was thought better of.
    pub fn discard(&mut self, ring: Ring<'_>, reserved: Reserved) {
        self.room.hold();
        let size = if reserved.is_large() { AUX_SIZE.into() } else { reserved.size() };
        let word = RecordWord::nop(size, Hole::Discarded);
        // Relaxed: A publishes it.
        ring.word(reserved.start).store(word.raw(), Ordering::Relaxed);
        self.room.account.discard(size);
    }

    /// Publishes all that is committed. Returns whether the caller owes the consumer a wake.
    #[inline(always)]
    #[must_use]
    pub fn publish(&mut self, ring: Ring<'_>, wake: Wake) -> bool {
        self.publish_at(ring, wake, self.pos())
    }

    /// As [`Writer::publish`], by a caller that knows the position.
    #[inline(always)]
    fn publish_at(&mut self, ring: Ring<'_>, wake: Wake, pos: u64) -> bool {
        self.room.publish_at(ring, pos);
        if wake == Wake::No {
            return false;
        }
        self.fences.light(); // I, pairs with J
        // Relaxed: I orders it.
        if ring.header.wait.armed.load(Ordering::Relaxed) == 0 {
            return false;
        }
        claim_wake(&ring.header.wait, wake, pos, self.room.account.records())
    }

    /// Before a batch: makes sure that no book is due for the next eighth of the ring, or 32 KiB,
    /// of records. A book is true at a published head, so writing one would cut the batch in two.
    #[inline]
    pub fn begin_batch(&mut self, ring: Ring<'_>) {
        let room = &mut self.room;
        let since = room.pos() - room.account.totals.pos;
        if room.head() == room.pos() && since >= totals_interval(ring) / 2 {
            room.account.write(ring);
            room.poll_again();
        }
    }

    /// Copies a payload into its reservation, word by word. A mapping has a quicker way.
    pub fn fill(&self, ring: Ring<'_>, reserved: &Reserved, payload: &[u8]) {
        fill(ring, reserved, payload);
    }

    /// Counts a refusal, to be told in the stream before the next record that fits. Returns
    /// whether the caller owes the consumer a wake: a full ring wants reading.
    #[cold]
    pub fn refuse(&mut self, ring: Ring<'_>, refusal: Refusal, len: usize) -> bool {
        let size = if len > self.max_len {
            refused_size(self.ranges.size, len, self.timestamp)
        } else {
            record_size(len + self.timestamp)
        };
        self.room.account.refuse(refusal, size);
        // The next reservation makes room, which tells the loss.
        self.room.poll_again();
        let owed = self.publish(ring, Wake::Force);
        self.room.account.write(ring);
        owed
    }

    /// The tail that would let a record of `len` bytes in: what to wait for.
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

    /// Before the producer goes: publishes what is held back, tells a loss that is still to be told
    /// if there is room, and closes the book. Returns whether a wake is owed.
    pub fn detach(&mut self, ring: Ring<'_>) -> bool {
        let owed = self.publish(ring, Wake::Auto);
        // Asking for room for nothing writes the markers, if they fit.
        let reported =
            self.room.make_room(ring.header, ring.data, 0).is_ok() && self.room.held.is_some();
        let owed = owed | (reported && self.publish(ring, Wake::Auto));
        self.room.account.write(ring);
        owed
    }

    /// End of the last committed record (the BPF ring buffer's `producer_pos`).
    #[must_use]
    #[inline(always)]
    pub fn pos(&self) -> u64 {
        self.room.pos()
    }

    /// The private counts, true at [`Writer::pos`].
    #[must_use]
    pub fn totals(&self) -> ProducerTotals {
        self.room.account.totals()
    }

    /// Records and bytes evicted from an overwrite ring.
    #[must_use]
    pub fn overwritten(&self, ring: Ring<'_>) -> Count {
        self.room.tail.overwritten(ring)
    }

    /// The longest payload.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.max_len.max(self.ranges.size as usize)
    }

    /// Payloads shorter than this get no stamp and are not too long:
    /// [`Writer::try_reserve_plain`] is the quick way for them.
    #[must_use]
    #[inline(always)]
    pub fn plain_end(&self) -> usize {
        self.plain_end
    }

    /// The newest stamp.
    #[must_use]
    pub fn newest_timestamp(&self) -> u64 {
        self.room.account.last
    }

    /// Notes in a timed ring what the clocks say: after attaching, before the first record.
    pub fn begin_time(&mut self, ring: Ring<'_>, reading: &Reading) {
        if time::begin(ring, reading, self.pos(), self.newest_timestamp()) {
            self.room.account.last = 0;
        }
    }

    /// The same, now and again.
    pub fn keep_time(&mut self, ring: Ring<'_>, reading: &Reading) {
        time::keep(ring, reading, self.pos());
    }

    /// Lends what changes with every record. Nothing else of the writer may be used before
    /// [`Writer::take_back`] or [`Writer::find_again`], but for [`Writer::evict_for`] and
    /// [`Writer::publish_lent`].
    #[must_use]
    #[inline(always)]
    pub fn lend(&self) -> Hot {
        let changed = Changed { pos: self.pos(), records: 0, head: self.room.head() };
        Hot::new(changed, self.room.limit, self.plain_end)
    }

    /// Takes back what was lent.
    #[inline(always)]
    pub fn take_back(&mut self, Changed { pos, records, head }: Changed) {
        self.room.add_up_to(pos, records, head);
    }

    /// What was lent is lost: goes on at `data_head`. What was held back since then is gone without a
    /// trace, as nobody could see it.
    #[cold]
    pub fn find_again(&mut self, ring: Ring<'_>) {
        // Relaxed: this thread stored it. Others can have, too: it is believed as far as a loop can
        // have come that looked at nothing else.
        let head = ring.header.data_head.load(Ordering::Relaxed);
        let most = self.room.limit.max(self.room.evict_limit);
        let here = ProducerTotals { pos: self.pos(), ..ProducerTotals::default() };
        if head.is_multiple_of(8)
            && (self.pos()..=most).contains(&head)
            && let Ok(totals) = bring_up(ring, here, head)
        {
            self.room.add_up_to(head, totals.written.records, head);
        }
        self.room.poll_again();
    }

    /// Makes room for a record of `len` bytes in the way that most records of a full overwrite ring
    /// need, while its position is lent. Returns whether it could.
    #[inline(always)]
    pub fn evict_for(&mut self, ring: Ring<'_>, hot: &Hot, len: usize) -> bool {
        hot.end_of(len).is_some_and(|end| self.room.evict_known(ring, end))
    }

    /// Publishes what was held back while the position is lent. Returns whether somebody may want to
    /// be woken: then [`Writer::publish`] knows.
    #[must_use]
    #[inline(always)]
    pub fn publish_lent(&self, ring: Ring<'_>, hot: &mut Hot) -> bool {
        ring.header.data_head.store(hot.publish(), Ordering::Release); // A, pairs with B
        self.fences.light(); // I, pairs with J
        // Relaxed: I orders it.
        ring.header.wait.armed.load(Ordering::Relaxed) != 0
    }
}
