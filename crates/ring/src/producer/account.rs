//! What the exclusive producer has written and lost: its book, and what was committed since.

use crate::counters::{Count, ProducerBook};
use crate::latch::{self, LatchWriter};
use crate::record::{Corrupt, write_lost};
use crate::recount::bring_up;
use crate::reserve::Refusal;
use crate::time;
use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{LOST_SIZE, Layout};

/// A record and its bytes in [`Account::since`].
const ONE_RECORD: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Account {
    /// What was committed since the book, published or held back by a batch: bytes in the lower
    /// half, records in the upper. One word, because each record changes it: what a producer that
    /// waits for a cache line runs out of is room for stores.
    since: u64,
    /// All counts, true at its own position; `since` leads from there to here.
    pub(super) book: ProducerBook,
    latch: LatchWriter,
    timed: bool,
    /// The newest stamp: none after it is less.
    pub(super) last: u64,
}

impl Account {
    /// The account as of `head`, and where the book in the page is true.
    pub(crate) fn attach(
        ring: Ring<'_>,
        layout: &Layout,
        head: u64,
    ) -> Result<(Self, u64), Corrupt> {
        let page = &ring.header.producer;
        let whole = latch::find(page).ok_or(Corrupt { pos: head })?;
        let book = ProducerBook::from_words(&whole.words);
        let latch = LatchWriter::after(page, Some(&whole));
        let (from, book, timed) = (book.pos, bring_up(ring, book, head)?, layout.time);
        let last = if timed { time::newest_stamp(ring, from, head) } else { 0 };
        Ok((Account { since: 0, book, latch, timed, last }, from))
    }

    /// End of the last committed record.
    #[inline(always)]
    pub(crate) fn pos(&self) -> u64 {
        self.book.pos + (self.since & (ONE_RECORD - 1))
    }

    #[inline(always)]
    pub(crate) fn records(&self) -> u64 {
        self.book.written.records.wrapping_add(self.since >> 32)
    }

    /// What stands before [`Account::pos`]: bytes that are neither holes nor markers are records'.
    pub(crate) fn written(&self) -> Count {
        let markers = self.book.lost_markers.wrapping_mul(LOST_SIZE.into());
        let other = self.book.discarded.bytes.wrapping_add(markers);
        Count { records: self.records(), bytes: self.pos().wrapping_sub(other) }
    }

    /// All counts, true at [`Account::pos`].
    pub(crate) fn book(&self) -> ProducerBook {
        ProducerBook { pos: self.pos(), written: self.written(), ..self.book }
    }

    #[inline(always)]
    pub(crate) fn add_one(&mut self, size: u64) {
        self.since += ONE_RECORD + size;
    }

    /// Counts so many records that lead up to `pos`.
    #[inline(always)]
    pub(crate) fn add_up_to(&mut self, pos: u64, records: u64) {
        self.since += (pos - self.pos()) + records * ONE_RECORD;
    }

    pub(crate) fn discard(&mut self, size: u64) {
        self.since += size;
        self.book.discarded.add(size);
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal, size: u64) {
        let cause = match refusal {
            Refusal::TooLarge { .. } => &mut self.book.refused.too_large,
            _ => &mut self.book.refused.full,
        };
        cause.add(size);
    }

    /// How many causes of loss the stream is still to be told of. An exclusive ring knows no other
    /// than these two.
    pub(crate) fn untold(&self) -> u64 {
        let (refused, told) = (&self.book.refused, &self.book.told);
        u64::from(refused.full != told.full) + u64::from(refused.too_large != told.too_large)
    }

    /// Writes the markers; the next publish brings them with it. A producer that dies before that
    /// has told nothing, as the book in the page then still says.
    pub(crate) fn tell_losses(&mut self, ring: Ring<'_>) {
        let markers = write_lost(ring, self.pos(), self.book.refused.since(self.book.told));
        self.since += markers * u64::from(LOST_SIZE);
        self.book.lost_markers = self.book.lost_markers.wrapping_add(markers);
        self.book.told = self.book.refused;
    }

    /// The stamp of what is reserved now: none after it is less.
    #[inline(always)]
    pub(crate) fn stamp(&mut self, now: u64) -> u64 {
        self.last = self.last.max(now);
        self.last
    }

    /// Writes the book into the page, true at the head. Everything committed must be published.
    pub(crate) fn write(&mut self, ring: Ring<'_>) {
        if self.timed {
            // G publishes it: after the book nobody looks at the records before it.
            ring.header.shared.newest_stamp.store(self.last, Ordering::Relaxed);
        }
        let written = self.written();
        self.book.pos = self.pos();
        self.book.written = written;
        self.since = 0;
        self.latch.write(&ring.header.producer, &self.book.to_words());
    }
}
