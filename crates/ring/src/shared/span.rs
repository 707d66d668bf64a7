//! Several records in one reservation of a shared ring.

use crate::view::Ring;
use perfring_abi::RecordWord;
use perfring_abi::atomic::Ordering;

/// Space for several records in one reservation. The default, without space, replaces a span that has
/// ended.
#[derive(Debug, Default)]
pub struct BatchSpan {
    pub(super) start: u64,
    pub(super) size: u64,
    /// Bytes that records have taken.
    pub(super) used: u64,
    pub(super) records: u64,
    /// The word of its first record; the word in its position in the ring marks the batch as open.
    pub(super) first: u64,
    /// Timestamp of all its records, in a timed ring: a record reserved after them may end before
    /// them.
    pub(super) time: u64,
}

/// The part of a [`BatchSpan`] that records have taken at some time.
#[derive(Clone, Copy, Debug)]
pub struct SpanMark {
    pub(super) used: u64,
    records: u64,
}

impl BatchSpan {
    /// Returns the part that records have taken.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> SpanMark {
        SpanMark { used: self.used, records: self.records }
    }

    /// Removes the records since a mark.
    pub fn back_to(&mut self, mark: SpanMark) {
        (self.used, self.records) = (mark.used, mark.records);
    }

    /// Returns the bytes that no record has taken.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.size - self.used
    }

    /// Returns the number of records in it.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the position of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.start + self.used
    }

    /// Adds a record, which fits.
    pub(crate) fn add(&mut self, ring: Ring<'_>, word: RecordWord) {
        let start = self.next();
        // Relaxed, both: the swap at the end publishes them.
        if self.used == 0 {
            self.first = word.raw();
        } else {
            ring.word(start).store(word.raw(), Ordering::Relaxed);
        }
        self.used += word.size();
        self.records += 1;
    }
}
