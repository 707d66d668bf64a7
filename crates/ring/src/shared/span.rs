//! Several records in one reservation of a shared ring.

use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{HEADER_LEN, RecordWord};

/// Space for several records in one reservation. The default, of no space, is to be left in the
/// place of one that is ended.
#[derive(Debug, Default)]
pub struct BatchSpan {
    pub(super) start: u64,
    pub(super) size: u64,
    /// Bytes that records have taken.
    pub(super) used: u64,
    pub(super) records: u64,
    /// The word of its first record, whose place says that the group is open.
    pub(super) first: u64,
    /// Of all its records, in a timed ring: what is reserved after them may end before.
    pub(super) time: u64,
}

impl BatchSpan {
    /// Bytes of it that no record has taken.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.size - self.used
    }

    /// Records in it.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Where the next record begins.
    pub(crate) fn next(&self) -> u64 {
        self.start + self.used
    }

    /// Adds a record, which fits, with a stamp or without.
    pub(crate) fn add(&mut self, ring: Ring<'_>, word: RecordWord, timestamped: bool) {
        let start = self.next();
        // Relaxed, both: the swap at the end publishes them.
        if self.used == 0 {
            self.first = word.raw();
        } else {
            ring.word(start).store(word.raw(), Ordering::Relaxed);
        }
        if timestamped {
            ring.word(start + u64::from(HEADER_LEN)).store(self.time, Ordering::Relaxed);
        }
        self.used += word.size();
        self.records += 1;
    }
}
