//! Several records in one reservation of a shared ring.

use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{HEADER_LEN, RecordWord};

/// Space for several records in one reservation.
#[derive(Debug)]
pub struct Group {
    start: u64,
    size: u64,
    used: u64,
    records: u64,
    first: RecordWord,
    /// Of all its records, in a timed ring: what is reserved after them may end before.
    time: u64,
}

impl Default for Group {
    /// Of no space: to be left in the place of one that is ended.
    fn default() -> Self {
        Group::new(0, 0, 0)
    }
}

impl Group {
    pub(crate) fn new(start: u64, size: u64, time: u64) -> Self {
        Group { start, size, used: 0, records: 0, first: RecordWord::from_raw(0), time }
    }

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

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that records have taken.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// The word of its first record, whose place says that the group is open.
    pub(crate) fn first(&self) -> RecordWord {
        self.first
    }

    /// Where the next record begins.
    pub(crate) fn next(&self) -> u64 {
        self.start + self.used
    }

    /// Adds a record, which fits, with a stamp or without.
    pub(crate) fn add(&mut self, ring: Ring<'_>, word: RecordWord, stamped: bool) {
        let start = self.next();
        // Relaxed, both: the swap at the end publishes them.
        if self.used == 0 {
            self.first = word;
        } else {
            ring.word(start).store(word.raw(), Ordering::Relaxed);
        }
        if stamped {
            ring.word(start + u64::from(HEADER_LEN)).store(self.time, Ordering::Relaxed);
        }
        self.used += word.size();
        self.records += 1;
    }
}
