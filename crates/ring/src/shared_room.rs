//! The slow way of a reservation in a shared ring, under the lock: the room, the book, the losses
//! to be told.

use crate::book::Count;
use crate::latch::{self, LatchWriter};
use crate::lock::{advance, write_book};
use crate::room::{book_interval, lost_words};
use crate::{Peers, Refusal, Ring, Shared, SharedWriter};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Cause, Evict, Header, LOST_SIZE, Policy, RecordWord, Tell, ledger};

/// The positions of a ring at one moment under the lock.
#[derive(Clone, Copy)]
struct Stand {
    tail: u64,
    head: u64,
    end: u64,
}

impl SharedWriter {
    /// Makes room for `size` bytes, tells what is still to be told, and sets the next limit.
    /// Returns where the record begins.
    #[inline(never)]
    pub(crate) fn make_room<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        size: u64,
    ) -> Result<u64, Refusal> {
        let mut found = self.find_room(at, size)?;
        // Each turn ends what one dead producer left open, or finds that somebody has just ended
        // what was in the way.
        for _ in 0..=at.slots.len() {
            let Err(stand) = found else { break };
            self.unblock(at, peers, stand)?;
            found = self.find_room(at, size)?;
        }
        let (stand, tail, markers) = found.map_err(|stand| self.no_room(at, peers, stand))?;
        let mask = at.ring.data_size() - 1;
        let end = stand.end + markers + size;
        self.bring_book(at, stand, tail.0, end)?;
        if self.policy == Policy::Overwrite && tail.0 != stand.tail {
            self.publish_tail(at.ring, tail);
        }
        let start = stand.end + markers;
        if markers != 0 {
            self.tell_losses(at, stand);
        } else if self.untold() != 0 {
            // They did not fit beside this record: the next one comes here too.
            (self.limit, self.evict_limit) = (0, 0);
            return Ok(start);
        }
        let interval = book_interval(at.ring);
        // An open reservation can keep the book back: then it is looked at now and then.
        let book = (self.book_pos + interval).max(end + interval / 8);
        let book = book.min(self.book_pos + mask);
        self.limit = book.min(tail.0 + mask);
        if self.policy == Policy::Overwrite && self.evict == Evict::Exact {
            self.evict_limit = book;
        }
        Ok(start)
    }

    /// What most reservations in a full overwrite ring need: the oldest go, and nothing else is
    /// due. Returns whether that was so; if not, nothing has changed.
    ///
    /// Takes the ring in two, so that the call from the hot path passes it in registers.
    #[inline(never)]
    pub(crate) fn evict_few(&mut self, header: &Header, data: &[AtomicU64], end: u64) -> bool {
        let ring = Ring::new(header, data);
        let mask = ring.data_size() - 1;
        let tail = ring.header.data_tail.load(Ordering::Acquire); // D, pairs with C
        if end > self.evict_limit || (self.tail != tail && !self.know_tail(ring, tail)) {
            return false;
        }
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        let (mut to, mut records, mut bytes) = (tail, 0, 0);
        // No further than the book: that would be due.
        let mut oldest = ring.records(tail, head.min(self.book_pos));
        while end.wrapping_sub(to) > mask {
            // The other way finds out what is wrong, or whose reservation is in the way.
            let Some(Ok(record)) = oldest.next() else { return false };
            let data = u64::from(record.word.is_data());
            (records, bytes) = (records + data, bytes + data * record.size());
            to = record.end();
        }
        if to != tail {
            let overwritten = Count {
                records: self.overwritten.records.wrapping_add(records),
                bytes: self.overwritten.bytes.wrapping_add(bytes),
            };
            self.publish_tail(ring, (to, overwritten));
        }
        true
    }

    /// Takes over what is overwritten before a tail that somebody else has published. After a death
    /// between the mark and `data_tail`, the mark that fits the tail counts.
    fn know_tail(&mut self, ring: Ring<'_>, tail: u64) -> bool {
        let mark = latch::find_where(&ring.header.tail_mark, |words| words[0] == tail);
        let Some(mark) = mark else { return false };
        self.overwritten = Count { records: mark.words[1], bytes: mark.words[2] };
        self.tail_latch = LatchWriter::after(&ring.header.tail_mark, Some(&mark));
        self.tail = tail;
        true
    }

    /// Where the tail must go for a record of `size` bytes, what is overwritten before it, and the
    /// bytes of markers before the record. `Ok(Err(_))` if there is no room.
    #[expect(clippy::type_complexity, reason = "the parts are named where they arrive")]
    fn find_room(
        &mut self,
        at: Shared<'_>,
        size: u64,
    ) -> Result<Result<(Stand, (u64, Count), u64), Stand>, Refusal> {
        let (ring, mask) = (at.ring, at.ring.data_size() - 1);
        let stand = Stand {
            tail: ring.header.data_tail.load(Ordering::Acquire), // D, pairs with C
            head: ring.header.data_head.load(Ordering::Acquire), // B, pairs with A
            end: at.producer_pos(),
        };
        if !crate::sane(ring, stand.end, stand.tail)
            || !(stand.tail..=stand.end).contains(&stand.head)
            || !stand.head.is_multiple_of(8)
            || stand.end < self.floor
        {
            return Err(Refusal::Corrupt { tail: stand.tail });
        }
        let markers = self.marker_bytes(ring, size);
        let end = stand.end + markers + size;
        let mut tail = (stand.tail, self.overwritten);
        if self.policy == Policy::Overwrite && end - stand.tail > mask {
            tail = self.walk(ring, stand, end)?;
        }
        Ok(if end - tail.0 > mask { Err(stand) } else { Ok((stand, tail, markers)) })
    }

    /// The oldest records that go so that `end` fits: the tail after them, and what is overwritten
    /// before it. Nothing is published. It stops at `data_head`: what is open, or behind it, stays.
    fn walk(&mut self, ring: Ring<'_>, stand: Stand, end: u64) -> Result<(u64, Count), Refusal> {
        let damaged = Refusal::Corrupt { tail: stand.tail };
        if self.tail != stand.tail && !self.know_tail(ring, stand.tail) {
            return Err(damaged);
        }
        let mask = ring.data_size() - 1;
        let (mut tail, mut overwritten) = (stand.tail, self.overwritten);
        let enough = match self.evict {
            Evict::Exact => end,
            Evict::Half => end + ring.data_size() / 2,
        };
        let mut records = ring.records(tail, stand.head);
        while enough - tail > mask
            && let Some(record) = records.next()
        {
            let record = record.map_err(|_| damaged)?;
            if record.word.is_data() {
                overwritten.add(record.size());
            }
            tail = record.end();
        }
        Ok((tail, overwritten))
    }

    fn publish_tail(&mut self, ring: Ring<'_>, (tail, overwritten): (u64, Count)) {
        // The mark before the tail: after a death between the two, the older mark is still there
        // and fits the tail.
        let mark = [tail, overwritten.records, overwritten.bytes, tail];
        self.tail_latch.write_as(&ring.header.tail_mark, tail, &mark);
        // Relaxed: a fence orders it before anything is written over the old records.
        ring.header.data_tail.store(tail, Ordering::Relaxed); // E, pairs with F
        (self.tail, self.overwritten) = (tail, overwritten);
    }

    /// Ends what holds the room back, if its owner is dead. Returns when it is worth another look.
    fn unblock<P: Peers>(&self, at: Shared<'_>, peers: &P, stand: Stand) -> Result<(), Refusal> {
        match self.blocker(at, stand) {
            Some(slot) if slot != self.index() && !peers.is_alive(slot) => {
                self.owner.sweep(at, slot);
                Ok(())
            }
            // It has ended since: whoever did that is about to move the head.
            None if stand.head != stand.end => {
                fence(Ordering::SeqCst); // O
                advance(at);
                Ok(())
            }
            _ => Err(self.no_room(at, peers, stand)),
        }
    }

    /// Whose open reservation the head stands before.
    fn blocker(&self, at: Shared<'_>, stand: Stand) -> Option<u32> {
        if stand.head == stand.end {
            return None;
        }
        let word = at.ring.word(stand.head).load(Ordering::Acquire); // N
        RecordWord::from_raw(word).owner().filter(|slot| (*slot as usize) < at.slots.len())
    }

    /// Full, or held up: that is so when the consumer of a drop ring has read all that it may.
    fn no_room<P: Peers>(&self, at: Shared<'_>, peers: &P, stand: Stand) -> Refusal {
        match self.blocker(at, stand) {
            Some(slot) if self.policy == Policy::Overwrite || stand.tail == stand.head => {
                self.note_stuck(at, peers, stand.head);
                Refusal::Pending { slot }
            }
            // An overwrite ring is never full: one reservation after another ended just before it
            // was looked at, and the next was in the way.
            _ if self.policy == Policy::Overwrite => Refusal::Pending { slot: self.index() },
            _ => Refusal::Full,
        }
    }

    /// Writes the producers' book if it is due: before the tail passes it, before it is written
    /// over, and every interval.
    fn bring_book(
        &mut self,
        at: Shared<'_>,
        stand: Stand,
        tail: u64,
        end: u64,
    ) -> Result<(), Refusal> {
        let (interval, mask) = (book_interval(at.ring), at.ring.data_size() - 1);
        let damaged = Refusal::Corrupt { tail: stand.tail };
        let must =
            |book: u64| end - book > mask || (self.policy == Policy::Overwrite && tail > book);
        // What was seen once does not go back, or somebody damages the ring.
        if self.book_pos > stand.head {
            return Err(damaged);
        }
        if end - self.book_pos < interval && !must(self.book_pos) {
            return Ok(());
        }
        // Somebody else may have written it.
        let book = latch::find(&at.ring.header.producer).ok_or(damaged)?;
        let pos = crate::ProducerBook::from_words(&book.words).pos;
        if pos > stand.head || pos < self.book_pos {
            return Err(damaged);
        }
        self.book_pos = pos;
        // With something open it has to be counted: not before there is enough to count.
        let due = if stand.head == stand.end {
            end - pos >= interval
        } else {
            stand.head - pos >= interval
        };
        if due || must(pos) {
            write_book(at, stand.head, stand.end).map_err(|_| damaged)?;
            self.book_pos = stand.head;
        }
        Ok(())
    }

    /// Bytes of the `PERF_RECORD_LOST` records that are due before a record of `size` bytes: none
    /// if they would not fit the ring together, then a later record brings them.
    pub(crate) fn marker_bytes(&self, ring: Ring<'_>, size: u64) -> u64 {
        let bytes = self.untold() * u64::from(LOST_SIZE);
        if bytes + size < ring.data_size() { bytes } else { 0 }
    }

    /// How many causes of loss the stream is still to be told of.
    fn untold(&self) -> u64 {
        if self.tell == Tell::CountersOnly {
            return 0;
        }
        let untold = self.losses.refused.since(self.losses.told);
        untold.all().into_iter().filter(|count| *count != Count::default()).count() as u64
    }

    /// Writes the markers and publishes them, as records of their own.
    fn tell_losses(&mut self, at: Shared<'_>, stand: Stand) {
        let header = at.ring.header;
        let untold = self.losses.refused.since(self.losses.told);
        let mut pos = stand.end;
        // E, as before every write over what was evicted.
        fence(Ordering::Release);
        for (cause, lost) in Cause::REFUSED.into_iter().zip(untold.all()) {
            if lost == Count::default() {
                continue;
            }
            for (word, at_word) in lost_words(cause, lost).into_iter().zip(0..) {
                // Relaxed: A or O publishes it.
                at.ring.word(pos + at_word * 8).store(word, Ordering::Relaxed);
            }
            pos += u64::from(LOST_SIZE);
        }
        self.losses.told = self.losses.refused;
        self.count_losses(at, stand.end);
        // The ledger: relaxed, as the lock orders it.
        let mut told = [0; crate::book::REFUSED];
        untold.to_words(&mut told);
        let more = told.into_iter().chain([(pos - stand.end) / u64::from(LOST_SIZE)]);
        for (word, more) in header.shared.ledger[ledger::TOLD..].iter().zip(more) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
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
