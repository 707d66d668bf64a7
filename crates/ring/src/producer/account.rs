//! The records that the exclusive producer has written and lost: its totals, and the records committed since.

use crate::counters::{Count, ProducerTotals};
use crate::record::{Corrupt, write_lost};
use crate::recount::bring_up;
use crate::reserve::Refusal;
use crate::seq_latch::{self, SeqLatchWriter};
use crate::time;
use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{LOST_SIZE, Layout, producer_totals as p};

/// A record and its bytes in [`Account::since`].
const ONE_RECORD: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Account {
    /// The records committed since the totals, published or held back by a batch: bytes in the lower
    /// half, the number of records in the upper. One word, because each record changes it, and a producer that
    /// waits for a cache line is limited by its store buffer.
    since: u64,
    /// All counts, true at their own position; `since` has the records committed after it.
    pub(super) totals: ProducerTotals,
    seq_latch: SeqLatchWriter,
    /// The number of the page's two copies that are of [`Account::pos`], and newer than the last refusal for another cause
    /// than a full ring. These copies differ only in the count of `full`, because every other change of the totals moves
    /// the position.
    alike: u32,
    timed: bool,
    /// The newest timestamp: no later timestamp is less.
    pub(super) last: u64,
}

impl Account {
    /// Returns the account as of `head`, and the position of the totals in the page.
    pub(crate) fn attach(
        ring: Ring<'_>,
        layout: &Layout,
        head: u64,
    ) -> Result<(Self, u64), Corrupt> {
        let page = &ring.header.producer;
        let whole = seq_latch::find(page).ok_or(Corrupt { pos: head })?;
        let totals = ProducerTotals::from_words(&whole.words);
        let seq_latch = SeqLatchWriter::after(page, Some(&whole));
        let (from, totals, timed) = (totals.pos, bring_up(ring, totals, head)?, layout.time);
        let last = if timed { time::newest_timestamp(ring, from, head) } else { 0 };
        Ok((Account { since: 0, totals, seq_latch, alike: 0, timed, last }, from))
    }

    /// Returns the end of the last committed record.
    #[inline]
    pub(crate) fn pos(&self) -> u64 {
        self.totals.pos + (self.since & (ONE_RECORD - 1))
    }

    #[inline]
    pub(crate) fn records(&self) -> u64 {
        self.totals.written.records.wrapping_add(self.since >> 32)
    }

    /// Returns the count written before [`Account::pos`]: bytes that are neither holes nor markers
    /// belong to records.
    pub(crate) fn written(&self) -> Count {
        let markers = self.totals.lost_markers.wrapping_mul(LOST_SIZE.into());
        let other = self.totals.discarded.bytes.wrapping_add(markers);
        Count { records: self.records(), bytes: self.pos().wrapping_sub(other) }
    }

    /// Returns all counts, true at [`Account::pos`].
    pub(crate) fn totals(&self) -> ProducerTotals {
        ProducerTotals { pos: self.pos(), written: self.written(), ..self.totals }
    }

    #[inline]
    pub(crate) fn add_one(&mut self, size: u64) {
        self.since += ONE_RECORD + size;
    }

    pub(crate) fn discard(&mut self, size: u64) {
        self.since += size;
        self.totals.discarded.add(size);
    }

    /// Counts a refusal, in the page too. Everything committed must be published.
    pub(crate) fn refuse(&mut self, ring: Ring<'_>, refusal: Refusal, size: u64) {
        let refused = &mut self.totals.refused;
        if let Refusal::TooLarge { .. } = refusal {
            refused.too_large.add(size);
            self.alike = 0;
            return self.begin(ring);
        }
        refused.full.add(size);
        if self.since == 0 && self.alike >= 2 {
            let words = [refused.full.records, refused.full.bytes];
            return self.seq_latch.write_some(&ring.header.producer, p::REFUSED, &words);
        }
        self.begin(ring);
    }

    /// Returns how many causes of loss are still to be reported in the stream. An exclusive ring
    /// has only these two.
    pub(crate) fn unreported(&self) -> u64 {
        let (refused, reported) = (&self.totals.refused, &self.totals.reported);
        u64::from(refused.full != reported.full)
            + u64::from(refused.too_large != reported.too_large)
    }

    /// Writes the markers; the next publish includes them. A producer that dies before that has
    /// reported nothing: the totals in the page then still count the losses as unreported.
    pub(crate) fn report_losses(&mut self, ring: Ring<'_>) {
        let markers = write_lost(ring, self.pos(), self.totals.refused.since(self.totals.reported));
        self.since += markers * u64::from(LOST_SIZE);
        self.totals.lost_markers = self.totals.lost_markers.wrapping_add(markers);
        self.totals.reported = self.totals.refused;
    }

    /// Returns the timestamp of a present reservation: no later timestamp is less.
    #[inline(always)]
    pub(crate) fn timestamp(&mut self, now: u64) -> u64 {
        self.last = self.last.max(now);
        self.last
    }

    /// Returns whether another producer has attached since: each producer writes the totals when it attaches, so
    /// the totals in the page are then later than this producer's.
    pub(crate) fn is_replaced(&self, ring: Ring<'_>) -> bool {
        self.seq_latch.is_passed(&ring.header.producer)
    }

    /// Writes the totals into the page, true at the head. Everything committed must be published.
    pub(crate) fn write(&mut self, ring: Ring<'_>) {
        // Otherwise the page belongs to the other producer.
        if !self.is_replaced(ring) {
            self.begin(ring);
        }
    }

    /// Like [`Account::write`], for a producer that attaches. Another producer wrote everything in the page, and
    /// may have died during the write.
    #[inline(never)]
    pub(crate) fn begin(&mut self, ring: Ring<'_>) {
        if self.timed {
            // G publishes it. After the totals are written, the timestamp is not searched in the records
            // before them.
            ring.header.shared.newest_timestamp.store(self.last, Ordering::Relaxed);
        }
        let written = self.written();
        self.alike = if self.since == 0 { self.alike.saturating_add(1) } else { 1 };
        self.totals.pos = self.pos();
        self.totals.written = written;
        self.since = 0;
        self.seq_latch.write(&ring.header.producer, &self.totals.to_words());
    }
}
