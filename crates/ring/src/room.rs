//! The slow way of a reservation: the book, the losses to be told, and the room.

use crate::book::Count;
use crate::{Refusal, Ring, Wake, Writer};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Cause, Evict, Header, LOST_SIZE, Policy, RecordWord, SIZE_MAX, Tell};

/// The book is written at least this often, so that whoever needs the count at a position walks
/// no more than this many bytes of records.
const BOOK_INTERVAL_MAX: u64 = 64 << 10;

pub(crate) fn book_interval(ring: Ring<'_>) -> u64 {
    (ring.data_size() / 4).min(BOOK_INTERVAL_MAX)
}

/// How far past its book a producer can have written: up to an interval, and then one record with
/// the markers before it; and never over the book's own position. In a shared ring an open
/// reservation holds the head and the book back, so that alone is sure.
pub(crate) fn reach(ring: Ring<'_>) -> u64 {
    // Relaxed: never zero again once a shared ring has had a record, and always in any other.
    if ring.header.shared.producer_pos.load(Ordering::Relaxed) != 0 {
        return ring.data_size() - 1;
    }
    (book_interval(ring) + u64::from(SIZE_MAX) + 2 * u64::from(LOST_SIZE)).min(ring.data_size() - 1)
}

/// A `PERF_RECORD_LOST`.
pub(crate) fn lost_words(cause: Cause, lost: Count) -> [u64; (LOST_SIZE / 8) as usize] {
    [RecordWord::lost().raw(), cause.code(), lost.records, lost.bytes]
}

impl Writer {
    /// Makes room for a record of `size` bytes at `self.pos()`, tells the losses that are still to be
    /// told, and sets the next limit.
    ///
    /// Takes the ring in two, so that the call from the hot path passes it in registers.
    #[inline(never)]
    pub(crate) fn make_room(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        size: u64,
    ) -> Result<(), Refusal> {
        let ring = Ring::new(header, data);
        let mask = ring.data_size() - 1;
        let markers = self.marker_bytes(ring, size);
        let end = self.pos() + markers + size;
        let full = end - self.tail > mask;
        match self.policy {
            Policy::Drop if full => self.reload_tail(ring, end)?,
            Policy::Overwrite if full => {
                // Nothing unpublished may be overwritten.
                self.publish_held(ring);
                self.make_way(ring, end);
            }
            _ => {}
        }
        // Whoever takes this ring over walks from the book to the head: those records must stand.
        if self.pos() - self.book.pos >= book_interval(ring)
            || end - self.book.pos > mask
            || (self.policy == Policy::Overwrite && self.tail > self.book.pos)
        {
            self.publish_held(ring);
            self.write_book(ring);
        }
        if self.policy == Policy::Overwrite && full {
            self.publish_tail(ring);
        }
        // Book and tail are out before anything is written over what was before them. A drop
        // ring's producer passes on the tail that it saw (D), for observers who look at it.
        fence(Ordering::Release); // E, pairs with F
        if markers != 0 {
            self.tell_losses(ring);
        } else if self.untold() != 0 {
            // They did not fit beside this record: the next one comes here too.
            (self.limit, self.evict_limit) = (0, 0);
            return Ok(());
        }
        self.limit = (self.tail + mask).min(self.book.pos + book_interval(ring));
        match (self.policy, self.evict) {
            (Policy::Overwrite, Evict::Exact) => {
                self.evict_limit = self.book.pos + book_interval(ring);
            }
            (Policy::Overwrite, Evict::Half) if self.half.is_none() => {
                self.look_for_half(ring, end);
            }
            _ => {}
        }
        Ok(())
    }

    /// Publishes what a batch holds back, where it cannot go on otherwise. The wake is left to what
    /// ends the reservation in hand, which publishes in any case.
    fn publish_held(&mut self, ring: Ring<'_>) {
        if self.head() != self.pos() {
            let _ = self.publish(ring, Wake::No);
        }
    }

    /// Remembers the boundary before the record that crosses the middle of the ring, or makes sure
    /// to be called when one does.
    fn look_for_half(&mut self, ring: Ring<'_>, end: u64) {
        let middle = self.tail + ring.data_size() / 2;
        if end <= middle {
            self.limit = self.limit.min(middle);
        } else if self.pos() <= middle + ring.data_size() / 8 {
            self.half = Some((self.pos(), self.written()));
        }
        // Beyond that, in a ring just taken over or after a large record, a jump to here would
        // leave too little: the next eviction walks.
    }

    /// Before a batch: makes sure that no book is due for the next eighth of the ring, or 32 KiB,
    /// of records. A book is true at a published head, so writing one would cut the batch in two.
    #[inline]
    pub fn begin_batch(&mut self, ring: Ring<'_>) {
        if self.head() == self.pos() && self.pos() - self.book.pos >= book_interval(ring) / 2 {
            self.write_book(ring);
            self.look_again();
        }
    }

    /// The kernel's space rule, with a fresh look at the consumer's tail.
    fn reload_tail(&mut self, ring: Ring<'_>, end: u64) -> Result<(), Refusal> {
        let tail = ring.header.data_tail.load(Ordering::Acquire); // D, pairs with C
        // The one word of the page that this producer believes: it may only move on, and not past
        // what was published.
        if !tail.is_multiple_of(8) || tail.wrapping_sub(self.tail) > self.head() - self.tail {
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
                self.forget(ring, pos, before);
                self.tail = pos;
            }
            // No boundary is known yet in a ring just taken over, or the record is a large one.
            (Evict::Half, _) => self.walk(ring, end + ring.data_size() / 2),
        }
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
        // An exclusive ring knows no other cause.
        let (refused, told) = (&self.book.refused, &self.book.told);
        u64::from(refused.full != told.full) + u64::from(refused.too_large != told.too_large)
    }

    /// Writes the markers; the next publish brings them with it. A producer that dies before that
    /// has told nothing, as the book in the page then still says.
    fn tell_losses(&mut self, ring: Ring<'_>) {
        self.hold();
        let untold = self.book.refused.since(self.book.told);
        for (cause, lost) in [(Cause::Full, untold.full), (Cause::TooLarge, untold.too_large)] {
            if lost == Count::default() {
                continue;
            }
            for (at, word) in lost_words(cause, lost).into_iter().enumerate() {
                // Relaxed: A publishes it.
                ring.word(self.pos() + at as u64 * 8).store(word, Ordering::Relaxed);
            }
            self.skip(LOST_SIZE.into());
            self.book.lost_markers = self.book.lost_markers.wrapping_add(1);
        }
        self.book.told = self.book.refused;
    }

    /// Publishes the book, true at the head. Everything committed must be published.
    pub(crate) fn write_book(&mut self, ring: Ring<'_>) {
        self.note_stamp(ring);
        let written = self.written();
        self.book.pos = self.pos();
        self.book.written = written;
        self.start_anew();
        self.book_latch.write(&ring.header.producer, &self.book.to_words());
    }
}
