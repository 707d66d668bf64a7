//! The slow way of a reservation: the book, the losses to be told, and the room.

use crate::book::Count;
use crate::{Refusal, Ring, Wake, Writer};
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{Cause, Evict, LOST_SIZE, Policy, RecordWord, Tell};

/// The book is written at least this often, so that whoever needs the count at a position walks
/// no more than this many bytes of records.
const BOOK_INTERVAL_MAX: u64 = 64 << 10;

impl Writer {
    fn book_interval(ring: Ring<'_>) -> u64 {
        (ring.data_size() / 4).min(BOOK_INTERVAL_MAX)
    }

    /// Makes room for a record of `size` bytes at `self.pos`, tells the losses that are still to be
    /// told, and sets the next limit.
    #[inline(never)]
    pub(crate) fn make_room(&mut self, ring: Ring<'_>, size: u64) -> Result<(), Refusal> {
        // A batch that outgrows the ring must not wait for itself, and nothing unpublished may be
        // overwritten: from here on, head and position are one.
        if self.head != self.pos {
            self.wake_due |= self.publish(ring, Wake::Auto);
        }
        let mask = ring.data_size() - 1;
        let markers = self.marker_bytes(ring, size);
        let end = self.pos + markers + size;
        let full = end - self.tail > mask;
        match self.policy {
            Policy::Drop if full => self.reload_tail(ring, end)?,
            Policy::Overwrite if full => self.make_way(ring, end),
            _ => {}
        }
        // Whoever takes this ring over walks from the book to the head: those records must stand.
        if self.pos - self.book.pos >= Self::book_interval(ring)
            || end - self.book.pos > mask
            || self.tail > self.book.pos
        {
            self.write_book(ring);
        }
        if self.policy == Policy::Overwrite && full {
            self.publish_tail(ring);
        }
        if markers != 0 {
            self.tell_losses(ring);
        }
        self.limit = (self.tail + mask).min(self.book.pos + Self::book_interval(ring));
        if self.evict == Evict::Half && self.half.is_none() {
            let middle = self.tail + ring.data_size() / 2;
            if end > middle {
                self.half = Some((self.pos, self.written()));
            } else {
                self.limit = self.limit.min(middle);
            }
        }
        Ok(())
    }

    /// The kernel's space rule, with a fresh look at the consumer's tail.
    fn reload_tail(&mut self, ring: Ring<'_>, end: u64) -> Result<(), Refusal> {
        let tail = ring.header.data_tail.load(Ordering::Acquire); // D, pairs with C
        // The one word of the page that this producer believes: it may only move on, and not past
        // what was published.
        if !tail.is_multiple_of(8) || tail.wrapping_sub(self.tail) > self.head - self.tail {
            return Err(Refusal::Corrupt { tail });
        }
        self.tail = tail;
        if end - tail > ring.data_size() - 1 { Err(Refusal::Full) } else { Ok(()) }
    }

    /// Decides which of the oldest go so that `end` fits.
    fn make_way(&mut self, ring: Ring<'_>, end: u64) {
        let mask = ring.data_size() - 1;
        match (self.evict, self.half.take()) {
            (Evict::Exact, _) => self.walk(ring, end),
            (Evict::Half, Some((pos, before))) if end - pos <= mask && pos > self.tail => {
                (self.tail, self.overwritten) = (pos, before);
            }
            // No boundary is known yet in a ring just taken over, or the record is a large one.
            (Evict::Half, _) => self.walk(ring, end + ring.data_size() / 2),
        }
    }

    /// Publishes the tail, and only then lets the caller write over what was before it.
    fn publish_tail(&mut self, ring: Ring<'_>) {
        // The mark before the tail: after a death between the two, the older mark is still there
        // and fits the tail.
        let mark = [self.tail, self.overwritten.records, self.overwritten.bytes, self.tail];
        self.tail_latch.write_as(&ring.header.tail_mark, self.tail, &mark);
        // Relaxed: the fence orders it before the records written over the old ones.
        ring.header.data_tail.store(self.tail, Ordering::Relaxed); // E, pairs with F
        fence(Ordering::Release); // E
    }

    /// Evicts record by record, at most all of them.
    fn walk(&mut self, ring: Ring<'_>, end: u64) {
        let mask = ring.data_size() - 1;
        while end - self.tail > mask && self.tail != self.head {
            // Relaxed: this producer, or one before it whose head B acquired, wrote it.
            let word = RecordWord::from_raw(ring.word(self.tail).load(Ordering::Relaxed));
            let size = word.size();
            if word.payload_len().is_none() || size > self.head - self.tail {
                // Somebody else wrote into the data area. All that was ever written is overwritten
                // now, and that count is private.
                (self.tail, self.overwritten) = (self.head, self.written());
                return;
            }
            if word.is_data() {
                self.overwritten.add(size);
            }
            self.tail += size;
        }
    }

    /// Bytes of the `PERF_RECORD_LOST` records that are due before a record of `size` bytes: none
    /// if they would not fit the ring together, then a later record brings them.
    pub(crate) fn marker_bytes(&self, ring: Ring<'_>, size: u64) -> u64 {
        if self.tell == Tell::CountersOnly {
            return 0;
        }
        let causes = u64::from(self.book.full != self.book.told_full)
            + u64::from(self.book.too_large != self.book.told_too_large);
        let bytes = causes * u64::from(LOST_SIZE);
        if bytes + size < ring.data_size() { bytes } else { 0 }
    }

    /// Writes the markers; the next publish brings them with it. A producer that dies before that
    /// has told nothing, as the book in the page then still says.
    fn tell_losses(&mut self, ring: Ring<'_>) {
        let full = self.book.full.since(self.book.told_full);
        let too_large = self.book.too_large.since(self.book.told_too_large);
        for (cause, lost) in [(Cause::Full, full), (Cause::TooLarge, too_large)] {
            if lost == Count::default() {
                continue;
            }
            let words = [RecordWord::lost().raw(), cause.code(), lost.records, lost.bytes];
            for (at, word) in words.into_iter().enumerate() {
                // Relaxed: A publishes it.
                ring.word(self.pos + at as u64 * 8).store(word, Ordering::Relaxed);
            }
            self.pos += u64::from(LOST_SIZE);
            self.book.lost_markers += 1;
        }
        self.book.told_full = self.book.full;
        self.book.told_too_large = self.book.too_large;
    }

    /// Publishes the book, true at the head. Everything committed must be published.
    pub(crate) fn write_book(&mut self, ring: Ring<'_>) {
        self.book.pos = self.pos;
        self.book.written = self.written();
        self.book_latch.write(&ring.header.producer, &self.book.to_words());
    }
}
