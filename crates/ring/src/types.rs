//! The type table: append-only words, and a count of the valid words.

use alloc::vec::Vec;
use perfring_abi::TYPES_FIRST;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};

const FIRST: usize = (TYPES_FIRST / 8) as usize;

/// The type table of a ring, mapped or on the heap.
#[derive(Clone, Copy, Debug)]
pub struct TypeTableArea<'a> {
    words: &'a [AtomicU64],
}

/// An entry that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull {
    /// Bytes of the entry.
    pub needed: u64,
    /// Bytes left in the table.
    pub left: u64,
}

impl<'a> TypeTableArea<'a> {
    /// Creates a view of these words; empty if the ring has no table.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        TypeTableArea { words }
    }

    /// Returns whether the ring has a table.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.words.len() > FIRST
    }

    /// Returns the end of the last entry in words, at most the length of the table.
    fn used(&self) -> usize {
        let Some(used) = self.words.first() else { return FIRST };
        // Relaxed and a fence, because the pages may be read-only: P, pairs with P.
        let used = used.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        usize::try_from(used / 8).unwrap_or(usize::MAX).clamp(FIRST, self.words.len().max(FIRST))
    }

    /// Returns the end of the last entry in bytes. A reader that has read up to here has read all
    /// of it.
    #[must_use]
    pub fn end(&self) -> u64 {
        8 * self.used() as u64
    }

    /// Copies all entries, one after the other. Empty if the ring has no table.
    #[must_use]
    pub fn entries(&self) -> Vec<u64> {
        self.entries_after(TYPES_FIRST)
    }

    /// Copies the entries after the end of an earlier read.
    #[must_use]
    pub fn entries_after(&self, end: u64) -> Vec<u64> {
        let from = usize::try_from(end / 8).unwrap_or(usize::MAX).max(FIRST);
        let entries = self.words.get(from..self.used()).unwrap_or_default();
        // Relaxed: P orders them, and no entry before the end ever changes.
        entries.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

/// A type table on writable pages.
#[derive(Clone, Copy, Debug)]
pub struct TypeTableWriter<'a>(TypeTableArea<'a>);

impl<'a> TypeTableWriter<'a> {
    /// Creates a writer for these words; they are empty if the ring has no table.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        TypeTableWriter(TypeTableArea::new(words))
    }

    /// Returns the table for reading.
    #[must_use]
    pub fn table(&self) -> TypeTableArea<'a> {
        self.0
    }

    /// Adds an entry. The caller holds the table's lock.
    ///
    /// A process that dies in this call has added nothing, or the whole entry.
    ///
    /// # Errors
    /// [`TableFull`]; nothing is changed.
    pub fn append(&self, entry: &[u64]) -> Result<(), TableFull> {
        let used = self.0.used();
        let free = self.0.words.get(used..).unwrap_or_default();
        if entry.len() > free.len() {
            return Err(TableFull { needed: 8 * entry.len() as u64, left: 8 * free.len() as u64 });
        }
        for (to, word) in free.iter().zip(entry) {
            to.store(*word, Ordering::Relaxed); // P publishes it
        }
        if let Some(end) = self.0.words.first() {
            end.store(8 * (used + entry.len()) as u64, Ordering::Release); // P
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;

    fn words(len: usize, used: u64) -> Vec<AtomicU64> {
        let mut words: Vec<_> = (0..len).map(|_| AtomicU64::new(0)).collect();
        words[0] = AtomicU64::new(used);
        words
    }

    #[test]
    fn entries_keep_the_order_of_appending() {
        let words = words(14, TYPES_FIRST);
        let writer = TypeTableWriter::new(&words);
        let table = writer.table();
        assert_eq!(table.entries(), []);
        writer.append(&[1, 2]).unwrap();
        writer.append(&[3]).unwrap();
        assert_eq!(table.entries(), [1, 2, 3]);
        let full = TableFull { needed: 32, left: 24 };
        assert_eq!(writer.append(&[4, 5, 6, 7]), Err(full));
        assert_eq!(table.entries(), [1, 2, 3]);
        writer.append(&[4, 5, 6]).unwrap();
        assert_eq!(writer.append(&[7]), Err(TableFull { needed: 8, left: 0 }));
        assert_eq!(table.entries(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn an_unfinished_entry_is_overwritten() {
        let words = words(12, TYPES_FIRST);
        words[FIRST].store(99, Ordering::Relaxed); // a producer died in `append`
        let writer = TypeTableWriter::new(&words);
        let table = writer.table();
        assert_eq!(table.entries(), []);
        writer.append(&[1, 2]).unwrap();
        assert_eq!(table.entries(), [1, 2]);
    }

    #[test]
    fn an_invalid_or_missing_table_is_read_within_its_bounds() {
        for used in [0, 1, 8, 63, 64, 71, 72, 96, 97, 1 << 40, u64::MAX] {
            let words = words(12, used);
            assert!(TypeTableArea::new(&words).entries().len() <= 4, "{used}");
            let _ = TypeTableWriter::new(&words).append(&[1]);
        }
        let none = TypeTableArea::new(&[]);
        assert!(!none.exists());
        assert_eq!(none.entries(), vec![0; 0]);
        assert_eq!(TypeTableWriter::new(&[]).append(&[1]), Err(TableFull { needed: 8, left: 0 }));
    }
}
