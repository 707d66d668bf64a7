//! How far the consumer of a drop ring has read, and what it has released: its book, and the tail.

use crate::counters::{ConsumerTotals, Count};
use crate::record::Corrupt;
use crate::recount::count_surely;
use crate::seq_latch::{self, SeqLatchWriter};
use crate::view::Ring;
use crate::wait::{Fences, claim_space_wake};
use perfring_abi::atomic::Ordering;

/// Release after so many bytes: never. Positions stay below a quarter of this range, so that the sum
/// of the two does not overflow.
const NEVER: u64 = u64::MAX >> 1;

/// Where the tail is, and when it is due to move.
#[derive(Debug)]
pub(crate) struct Release {
    /// What `data_tail` holds.
    pub(super) pos: u64,
    /// Release at least after this many bytes.
    interval: u64,
    seq_latch: SeqLatchWriter,
    fences: Fences,
}

impl Release {
    /// Takes over from the last consumer at this tail. Also what it had read.
    pub(crate) fn take_over(
        ring: Ring<'_>,
        tail: u64,
        fences: Fences,
    ) -> Result<(Self, Count), Corrupt> {
        let page = &ring.header.consumer;
        // After a death between the book and the tail, the book that fits the tail counts; after a
        // foreign perf reader, none does, and what it read is what was written and is not there.
        let fits =
            seq_latch::find_where(page, |words| ConsumerTotals::from_words(words).pos == tail);
        let passed = match &fits {
            Some(whole) => ConsumerTotals::from_words(&whole.words).passed(),
            None => count_surely(ring, tail)?,
        };
        let kept = fits.or_else(|| seq_latch::find(page));
        let seq_latch = SeqLatchWriter::after(page, kept.as_ref());
        Ok((Release { pos: tail, interval: ring.data_size() / 8, seq_latch, fences }, passed))
    }

    /// Where it is due to move.
    #[inline(always)]
    pub(crate) fn due_at(&self) -> u64 {
        self.pos + self.interval
    }

    /// Never due any more.
    pub(crate) fn hold(&mut self) {
        self.interval = NEVER;
    }

    /// Whether [`Release::hold`] was called.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        self.interval == NEVER
    }

    /// Hands back everything before the book's position, at which it must be true. Returns whether a
    /// waiting producer is to be woken.
    pub(crate) fn write_touch(&mut self, ring: Ring<'_>, totals: &ConsumerTotals) -> bool {
        // The book before the tail: after a death between the two, the older book fits the tail.
        self.seq_latch.write(&ring.header.consumer, &totals.to_words());
        self.pos = totals.pos;
        ring.header.data_tail.store(totals.pos, Ordering::Release); // C, pairs with D
        self.fences.light(); // K, pairs with L
        // Relaxed: K orders it.
        ring.header.space.armed.load(Ordering::Relaxed) != 0
            && claim_space_wake(&ring.header.space, totals.pos)
    }
}

/// A place in the stream, and what is known to be published after it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The next record.
    pub(super) pos: u64,
    /// `data_head` when last looked at.
    pub(super) head: u64,
    /// Records before `pos`, since the ring was made.
    records: u64,
    /// Bytes before `pos` that are no record's: holes and markers.
    skipped: u64,
}

impl Progress {
    /// At a tail, before which so much was passed.
    pub(crate) fn at(pos: u64, passed: Count) -> Self {
        let skipped = pos.wrapping_sub(passed.bytes);
        Progress { pos, head: pos, records: passed.records, skipped }
    }

    /// Passes so many records, which are all that stands before `pos`.
    #[inline(always)]
    pub(crate) fn pass_records(&mut self, pos: u64, records: u64) {
        self.pos = pos;
        self.records = self.records.wrapping_add(records);
    }

    /// Passes what was counted on the way to `pos`.
    #[inline]
    pub(crate) fn pass(&mut self, pos: u64, count: Count) {
        // A place that nobody found would break the books, not memory: keep it in range.
        if (self.pos..=self.head).contains(&pos) && pos.is_multiple_of(8) {
            let other = (pos - self.pos).wrapping_sub(count.bytes);
            self.skipped = self.skipped.wrapping_add(other);
            self.pass_records(pos, count.records);
        }
    }

    /// What was passed since the ring was made.
    #[inline]
    pub(crate) fn passed(&self) -> Count {
        Count { records: self.records, bytes: self.pos.wrapping_sub(self.skipped) }
    }
}
