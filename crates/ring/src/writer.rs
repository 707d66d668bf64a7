//! The exclusive producer: one at a time, plain stores.
//!
//! Private copies decide; what the page says is taken for nothing but the tail of a drop ring,
//! and that is checked. The way of a record is a comparison, the payload, the header word and a
//! release store of `data_head`; everything else is in [`crate::room`] behind one branch.

use crate::book::{Count, ProducerBook};
use crate::large::Area;
use crate::latch::{self, LatchWriter};
use crate::oldest::{self, Oldest};
use crate::wait::claim_wake;
use crate::{Corrupt, Fences, Reading, Ring, Wake};
use perfring_abi::atomic::Ordering;
use perfring_abi::{
    AUX_SIZE, Evict, HEADER_LEN, Hole, LOST_SIZE, Layout, Policy, RecordType, RecordWord,
    STAMP_LEN, Tell, record_size,
};

/// Why a reservation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A drop ring has no room for it.
    Full,
    /// No ring of this size can hold it.
    TooLarge {
        /// The payload's length.
        len: usize,
        /// The longest that fits.
        max: usize,
    },
    /// A shared ring's lock is held, and its holder lives.
    Contended {
        /// The holder's slot.
        slot: u32,
    },
    /// A shared ring has no room because an older reservation is open, and its producer lives.
    Pending {
        /// The producer's slot.
        slot: u32,
    },
    /// `data_tail` is where no consumer can have put it: somebody writes over the header.
    Corrupt {
        /// What it says.
        tail: u64,
    },
}

/// Space for one record, still to be committed or discarded.
///
/// Only [`Writer::try_reserve`] makes one, and its position is the writer's own: a token that is
/// dropped leaves nothing behind, and the next reservation gets the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    pub(crate) start: u64,
    pub(crate) kind: RecordType,
    pub(crate) len: usize,
    /// Bytes of the stamp before the payload; or, of a payload that is to stand in the AUX area,
    /// where.
    pub(crate) lead: u64,
}

impl Reserved {
    /// The position of the record.
    #[must_use]
    #[inline]
    pub fn pos(&self) -> u64 {
        self.start
    }

    /// Where the payload begins, if it is to stand in the data area.
    #[must_use]
    #[inline]
    pub fn payload_pos(&self) -> u64 {
        self.start.wrapping_add(u64::from(HEADER_LEN)).wrapping_add(self.lead)
    }

    /// The payload's length in bytes.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an empty payload is an ordinary one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The word of the record, with a payload of the first `len` bytes that stands in the data
    /// area.
    #[inline(always)]
    pub(crate) fn word(&self, len: usize) -> RecordWord {
        RecordWord::of(self.kind, len + self.lead as usize)
    }

    /// Bytes it takes in the data area, if its payload stands there.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        record_size(self.len + self.lead as usize)
    }
}

/// A record and its bytes in [`Writer::since`].
pub(crate) const ONE_RECORD: u64 = 1 << 32;

/// The private state of an exclusive producer.
#[derive(Debug)]
pub struct Writer {
    /// What was committed since the book, published or held back by a batch: bytes in the lower
    /// half, records in the upper. One word, because each record changes it: what a producer that
    /// waits for a cache line runs out of is room for stores.
    since: u64,
    /// A reservation that ends here or before needs no look at anything else.
    pub(crate) limit: u64,
    /// An overwrite ring need do no more than evict for a reservation that ends here or before.
    pub(crate) evict_limit: u64,
    max_len: usize,
    /// A payload of this length or longer is too long, or wants a stamp: one test for both, so that
    /// a ring without time pays nothing for it.
    plain_end: usize,
    /// Bytes of each record's stamp.
    stamp: usize,
    /// The newest stamp: none after it is less.
    last: u64,
    fences: Fences,
    /// What `data_head` holds while something is held back; at all other times that is `pos`.
    held: Option<u64>,
    /// Drop: the consumer's tail when last looked at. Overwrite: what `data_tail` holds.
    pub(crate) tail: u64,
    pub(crate) policy: Policy,
    pub(crate) evict: Evict,
    pub(crate) tell: Tell,
    /// All counts, true at its own position; `since` leads from there to here.
    pub(crate) book: ProducerBook,
    pub(crate) book_latch: LatchWriter,
    pub(crate) oldest: Oldest,
    pub(crate) area: Area,
    /// A record boundary half a ring back, and what was written before it.
    pub(crate) half: Option<(u64, Count)>,
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
        if !crate::sane(ring, head, tail) {
            return Err(Corrupt { pos: tail });
        }
        let whole = latch::find(&ring.header.producer).ok_or(Corrupt { pos: head })?;
        let book = ProducerBook::from_words(&whole.words);
        let book_latch = LatchWriter::after(&ring.header.producer, Some(&whole));
        let oldest = match layout.policy {
            Policy::Overwrite => oldest::taken_over(ring, tail).ok_or(Corrupt { pos: tail })?,
            Policy::Drop => Oldest::new(Count::default(), LatchWriter::default()),
        };
        let from = book.pos;
        let book = crate::totals::bring_up(ring, book, head)?;
        let area = Area::attach(ring, layout, from, head)?;
        let last = if layout.time { crate::time::newest_stamp(ring, from, head) } else { 0 };
        let max_len = max_len(ring, layout);
        let mut writer = Writer {
            since: 0,
            limit: 0,
            evict_limit: 0,
            max_len,
            plain_end: if layout.time { 0 } else { max_len + 1 },
            stamp: layout.stamp_len(),
            last,
            fences,
            held: None,
            tail,
            policy: layout.policy,
            evict: layout.evict,
            tell: layout.tell,
            book,
            book_latch,
            oldest,
            area,
            half: None,
        };
        // The records from the old book to the head may be overwritten from now on.
        writer.write_book(ring);
        Ok(writer)
    }

    /// Space for a record, or why not. Counts nothing: a caller that gives up calls
    /// [`Writer::refuse`]. In a timed ring it gets the stamp of the record before it.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
    ) -> Result<Reserved, Refusal> {
        if len >= self.plain_end {
            return self.try_reserve_at(ring, kind, len, 0);
        }
        self.reserve_plain(ring, kind, len)
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
        self.reserve_plain(ring, kind, len)
    }

    /// As [`Writer::try_reserve`], at this moment of the stamps' clock: or at that of the record
    /// before it, if that is later. A ring without time takes no note of it.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub fn try_reserve_at(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Reserved, Refusal> {
        let (start, lead) = self.place_other(ring, kind, len, now)?;
        Ok(Reserved { start, kind, len, lead })
    }

    /// As [`Writer::try_reserve_at`], which asks for the time only if it is needed.
    ///
    /// What it returns is put together in one place: so what the caller's compiler knows of the
    /// length is not forgotten where its ways meet.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve_any(
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
            return self.try_reserve_large(ring.header, ring.data, len, now);
        }
        if self.stamp == 0 {
            return Ok((self.place::<0>(ring, kind, len, 0)?, 0));
        }
        const STAMP: usize = STAMP_LEN as usize;
        Ok((self.place::<STAMP>(ring, kind, len, now)?, STAMP as u64))
    }

    #[inline(always)]
    fn reserve_plain(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
    ) -> Result<Reserved, Refusal> {
        let start = self.place::<0>(ring, kind, len, 0)?;
        Ok(Reserved { start, kind, len, lead: 0 })
    }

    #[inline(always)]
    fn place<const STAMP: usize>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<u64, Refusal> {
        let size = record_size(len + STAMP);
        let mut start = self.pos();
        let end = start + size;
        if end > self.limit && !self.evict_few(ring, end) {
            self.make_room(ring.header, ring.data, size)?;
            start = self.pos();
        }
        // The header now, in order with the payload after it: at commit, a reader that runs ahead
        // may have taken its line back. Nobody looks at it before the head has passed it.
        // Relaxed: A publishes it, and E came before it.
        let word = RecordWord::of(kind, len + STAMP);
        ring.word(start).store(word.raw(), Ordering::Relaxed);
        if STAMP != 0 {
            self.last = self.last.max(now);
            ring.word(start + u64::from(HEADER_LEN)).store(self.last, Ordering::Relaxed);
        }
        Ok(start)
    }

    /// Space for a record of this word, and nothing else of it.
    pub(crate) fn reserve_record(
        &mut self,
        ring: Ring<'_>,
        word: RecordWord,
    ) -> Result<u64, Refusal> {
        let end = self.pos() + word.size();
        if end > self.limit && !self.evict_few(ring, end) {
            self.make_room(ring.header, ring.data, word.size())?;
        }
        // Relaxed, as in `place`.
        ring.word(self.pos()).store(word.raw(), Ordering::Relaxed);
        Ok(self.pos())
    }

    /// No stamp after this is less.
    pub(crate) fn rise(&mut self, now: u64) {
        self.last = self.last.max(now);
    }

    /// Counts a record that is committed.
    pub(crate) fn count_one(&mut self, size: u64) {
        self.since += ONE_RECORD + size;
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
        self.hold();
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
            stamp => RecordWord::of(reserved.kind, len + stamp as usize),
        };
        if len != reserved.len {
            // Relaxed: A publishes it.
            ring.word(reserved.start).store(word.raw(), Ordering::Relaxed);
        }
        self.since += ONE_RECORD + word.size();
        word.size()
    }

    /// What a loop had on loan: [`crate::Hot`].
    #[inline(always)]
    pub(crate) fn add_since(&mut self, since: u64) {
        self.since += since;
    }

    /// What `data_head` holds: something before the position is held back, or nothing.
    #[inline(always)]
    pub(crate) fn set_head(&mut self, head: u64) {
        self.held = (head != self.pos()).then_some(head);
    }

    /// The next reservation works out the limits anew.
    pub(crate) fn look_again(&mut self) {
        (self.limit, self.evict_limit) = (0, 0);
    }

    /// I, pairs with J.
    #[inline(always)]
    pub(crate) fn light_fence(&self) {
        self.fences.light();
    }

    /// Passes bytes that are no record's.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.since += bytes;
    }

    /// The book was brought up to here.
    pub(crate) fn start_anew(&mut self) {
        self.since = 0;
    }

    /// Records committed since the ring was made.
    #[inline(always)]
    fn records(&self) -> u64 {
        self.book.written.records.wrapping_add(self.since >> 32)
    }

    /// What is committed from here on is held back.
    #[inline(always)]
    pub(crate) fn hold(&mut self) {
        if self.held.is_none() {
            self.held = Some(self.pos());
        }
    }

    /// What `data_head` holds.
    #[inline(always)]
    pub(crate) fn head(&self) -> u64 {
        self.held.unwrap_or(self.pos())
    }

    /// Gives a reservation back: a hole that readers skip, as in the BPF ring buffer, so that
    /// positions do not depend on what was thought better of.
    pub fn discard(&mut self, ring: Ring<'_>, reserved: Reserved) {
        self.hold();
        let size = if reserved.is_large() { AUX_SIZE.into() } else { reserved.size() };
        let word = RecordWord::nop(size, Hole::Discarded);
        // Relaxed: A publishes it.
        ring.word(reserved.start).store(word.raw(), Ordering::Relaxed);
        self.skip(word.size());
        self.book.discarded.add(word.size());
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
        debug_assert_eq!(pos, self.pos());
        ring.header.data_head.store(pos, Ordering::Release); // A, pairs with B
        if self.held.is_some() {
            self.held = None; // a store only where there is something to change
        }
        if wake == Wake::No {
            return false;
        }
        self.fences.light(); // I, pairs with J
        // Relaxed: I orders it.
        if ring.header.wait.armed.load(Ordering::Relaxed) == 0 {
            return false;
        }
        claim_wake(&ring.header.wait, wake, pos, self.records())
    }

    /// Copies a payload into its reservation, word by word. A mapping has a quicker way.
    pub fn fill(&self, ring: Ring<'_>, reserved: &Reserved, payload: &[u8]) {
        fill(ring, reserved, payload);
    }

    /// Counts a refusal, to be told in the stream before the next record that fits. Returns
    /// whether the caller owes the consumer a wake: a full ring wants reading.
    #[cold]
    pub fn refuse(&mut self, ring: Ring<'_>, refusal: Refusal, len: usize) -> bool {
        let cause = match refusal {
            Refusal::TooLarge { .. } => &mut self.book.refused.too_large,
            _ => &mut self.book.refused.full,
        };
        cause.add(if len > self.max_len {
            crate::large::refused_size(self.area.size(), len, self.stamp)
        } else {
            record_size(len + self.stamp)
        });
        // The next reservation comes by `make_room`, which tells the loss.
        (self.limit, self.evict_limit) = (0, 0);
        let owed = self.publish(ring, Wake::Force);
        self.write_book(ring);
        owed
    }

    /// The tail that would let a record of `len` bytes in: what to wait for.
    #[must_use]
    pub fn tail_for(&self, ring: Ring<'_>, len: usize) -> u64 {
        if len > self.max_len {
            return self.tail_for_large(ring, len);
        }
        self.tail_for_record(ring, record_size(len + self.stamp))
    }

    pub(crate) fn tail_for_record(&self, ring: Ring<'_>, size: u64) -> u64 {
        let need = size + self.marker_bytes(ring, size);
        (self.pos() + need + 8).saturating_sub(ring.data_size())
    }

    /// Before the producer goes: publishes what is held back, tells a loss that is still to be told
    /// if there is room, and closes the book. Returns whether a wake is owed.
    pub fn detach(&mut self, ring: Ring<'_>) -> bool {
        let owed = self.publish(ring, Wake::Auto);
        // Asking for room for nothing writes the markers, if they fit.
        let told = self.make_room(ring.header, ring.data, 0).is_ok() && self.held.is_some();
        let owed = owed | (told && self.publish(ring, Wake::Auto));
        self.write_book(ring);
        owed
    }

    /// End of the last committed record (the BPF ring buffer's `producer_pos`).
    #[must_use]
    #[inline(always)]
    pub fn pos(&self) -> u64 {
        self.book.pos + (self.since & (ONE_RECORD - 1))
    }

    /// The private counts, true at [`Writer::pos`].
    #[must_use]
    pub fn book(&self) -> ProducerBook {
        ProducerBook { pos: self.pos(), written: self.written(), ..self.book }
    }

    /// The longest payload.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.max_len.max(self.area.size() as usize)
    }

    /// Payloads shorter than this get no stamp and are not too long: [`Writer::try_reserve`] is
    /// the quick way for them.
    #[must_use]
    #[inline(always)]
    pub fn plain_end(&self) -> usize {
        self.plain_end
    }

    /// The newest stamp.
    #[must_use]
    pub fn newest_stamp(&self) -> u64 {
        self.last
    }

    /// Notes in a timed ring what the clocks say: after attaching, before the first record.
    pub fn begin_time(&mut self, ring: Ring<'_>, reading: &Reading) {
        if crate::time::begin(ring, reading, self.pos(), self.last) {
            self.last = 0;
        }
    }

    /// The same, now and again.
    pub fn keep_time(&mut self, ring: Ring<'_>, reading: &Reading) {
        crate::time::keep(ring, reading, self.pos());
    }

    /// Before the book, after which nobody looks at the records before it.
    pub(crate) fn note_stamp(&self, ring: Ring<'_>) {
        if self.stamp != 0 {
            ring.header.shared.newest_stamp.store(self.last, Ordering::Relaxed); // G publishes it
        }
    }

    /// What stands before `pos`: bytes that are neither holes nor markers are records'.
    pub(crate) fn written(&self) -> Count {
        let markers = self.book.lost_markers.wrapping_mul(LOST_SIZE.into());
        let other = self.book.discarded.bytes.wrapping_add(markers);
        Count { records: self.records(), bytes: self.pos().wrapping_sub(other) }
    }
}

pub(crate) fn fill(ring: Ring<'_>, reserved: &Reserved, payload: &[u8]) {
    debug_assert!(!reserved.is_large());
    let mut pos = reserved.payload_pos();
    for chunk in payload[..payload.len().min(reserved.len)].chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // Relaxed: A publishes it, and E came before it.
        ring.word(pos).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        pos += 8;
    }
}

/// What [`Layout::max_small_len`] says, from the ring in hand: models have rings smaller than a page.
pub(crate) fn max_len(ring: Ring<'_>, layout: &Layout) -> usize {
    let size = (ring.data_size() - 8).min(perfring_abi::SIZE_MAX.into());
    (size - u64::from(HEADER_LEN)) as usize - layout.stamp_len()
}
