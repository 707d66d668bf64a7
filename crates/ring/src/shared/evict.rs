//! The tail of a shared overwrite ring, as one of its producers knows it.

use crate::counters::Count;
use crate::oldest::write_mark;
use crate::record::{Corrupt, GROUP, RecordAt};
use crate::seq_latch::{self, SeqLatchWriter};
use crate::view::Ring;
use perfring_abi::atomic::Ordering;

/// A tail to move to, and the count that is overwritten before it.
pub(crate) type TailPosition = (u64, Count);

/// The `data_tail` after this producer's last eviction, and the count that was overwritten before it:
/// valid as long as no other producer evicts.
#[derive(Debug)]
pub(crate) struct KnownTail {
    pos: u64,
    overwritten: Count,
    seq_latch: SeqLatchWriter,
}

impl KnownTail {
    /// Creates an unknown tail.
    pub(crate) fn new() -> Self {
        KnownTail {
            pos: u64::MAX,
            overwritten: Count::default(),
            seq_latch: SeqLatchWriter::default(),
        }
    }

    /// Returns whether this is the tail, or a mark has the count that is overwritten before it. After a
    /// death between the mark and `data_tail`, the mark that fits the tail counts.
    #[inline(always)]
    fn is_at(&mut self, ring: Ring<'_>, tail: u64) -> bool {
        self.pos == tail || self.take_over(ring, tail)
    }

    /// Takes over a tail that another producer has published.
    fn take_over(&mut self, ring: Ring<'_>, tail: u64) -> bool {
        let mark = seq_latch::find_where(&ring.header.tail_mark, |words| words[0] == tail);
        let Some(mark) = mark else { return false };
        self.overwritten = Count::get(&mark.words, 1);
        self.seq_latch = SeqLatchWriter::after(&ring.header.tail_mark, Some(&mark));
        self.pos = tail;
        true
    }

    /// Evicts so that `end` fits, if the evicted records are before `totals`, and publishes the
    /// tail. Returns whether `end` fits; if not, nothing has changed. `totals` is not beyond a
    /// `data_head` that this producer has acquired (B).
    #[inline(always)]
    pub(crate) fn evict(&mut self, ring: Ring<'_>, end: u64, totals: u64) -> bool {
        let mask = ring.data_size() - 1;
        let tail = ring.header.data_tail.load(Ordering::Acquire); // D, pairs with C
        if !self.is_at(ring, tail) {
            return false;
        }
        let (mut to, mut records, mut bytes) = (tail, 0, 0);
        let mut oldest = ring.records(tail, totals);
        while end.wrapping_sub(to) > mask {
            // Damage, or an open reservation, or the totals: the slow path finds out which.
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
            self.store(ring, (to, overwritten));
        }
        true
    }

    /// Walks over the oldest records until `end` fits, and over up to `more` further records, until half a ring
    /// fits after `end`. Returns the position after them. Publishes nothing. Stops at `head`: open reservations, and
    /// records behind them, remain.
    pub(crate) fn walk(
        &mut self,
        ring: Ring<'_>,
        tail: u64,
        head: u64,
        end: u64,
        mut more: usize,
    ) -> Result<TailPosition, Corrupt> {
        if !self.is_at(ring, tail) {
            return Err(Corrupt { pos: tail });
        }
        let mask = ring.data_size() - 1;
        let (mut to, mut overwritten) = (tail, self.overwritten);
        let mut records = ring.records(tail, head);
        loop {
            let fits = end - to <= mask;
            if fits && (more == 0 || end + ring.data_size() / 2 - to <= mask) {
                break;
            }
            let Some(record) = records.next() else { break };
            more -= usize::from(fits);
            let RecordAt { word, .. } = record?;
            let (size, mut like) = (word.size(), 1);
            to += size;
            // Groups whose last record also has to be evicted.
            while end - to > mask + (GROUP as u64 - 1) * size && records.passes_group(word) {
                to += GROUP as u64 * size;
                like += GROUP as u64;
            }
            if word.is_data() {
                let passed = Count { records: like, bytes: like * size };
                overwritten = overwritten.plus(passed);
            }
        }
        Ok((to, overwritten))
    }

    /// Publishes a new tail.
    pub(crate) fn store(&mut self, ring: Ring<'_>, (tail, overwritten): TailPosition) {
        // The mark before the tail: after a death between the two, the older mark is present and
        // fits the tail.
        write_mark(ring, &mut self.seq_latch, tail, overwritten);
        // Relaxed: a fence orders it before the old records are overwritten.
        ring.header.data_tail.store(tail, Ordering::Relaxed); // E, pairs with F
        (self.pos, self.overwritten) = (tail, overwritten);
    }
}
