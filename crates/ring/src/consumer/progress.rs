//! How far the consumer of a drop ring has read, and what it has counted up to there.

use crate::counters::Count;

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
