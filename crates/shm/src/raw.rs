//! Raw access to a ring, as libbpf's `perf_buffer__buffer` gives it: for readers of one's own.

use crate::observer::MappedObserver;
use crate::reader::{Cursor, MappedReader};
use crate::sys::futex;
use perfring_ring::{Corrupt, Count, Ring};

/// A ring as words: where it is mapped, how far it goes, and what it holds.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    ring: Ring<'a>,
    base: *const u8,
}

impl Raw<'_> {
    /// Where the header page is mapped. `struct perf_event_mmap_page` begins there, and the data
    /// area stands [`perfring_abi::Layout::data_offset`] bytes after it. To show, or to hand to
    /// code of another language; what is done with it is no longer checked.
    #[must_use]
    pub fn base(&self) -> *const u8 {
        self.base
    }

    /// Bytes of the data area: a power of two.
    #[must_use]
    #[inline]
    pub fn data_size(&self) -> u64 {
        self.ring.data_size()
    }

    /// `data_head`: what stands before it is committed. Words that are loaded afterwards are no
    /// older than that.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.ring.head()
    }

    /// `data_tail`: in a drop ring what the consumer has released, in an overwrite ring the oldest
    /// intact record. Loaded after all words that were loaded before: what was loaded at a position
    /// that is not before it was intact.
    #[must_use]
    #[inline]
    pub fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// The word at a position, which is wrapped here: any position is of some word. Of a hostile
    /// ring, or of one that goes on, it is whatever stands there.
    #[must_use]
    #[inline]
    pub fn word(&self, pos: u64) -> u64 {
        self.ring.load(pos)
    }

    /// As many words from a position on as there is room for, at most a ring of them.
    pub fn copy(&self, pos: u64, to: &mut [u64]) {
        self.ring.copy_out(pos, to);
    }
}

/// [`Raw`] access of the consumer of a drop ring, who moves the tail.
#[derive(Debug)]
pub struct RawReader<'a> {
    reader: &'a mut MappedReader,
}

impl RawReader<'_> {
    /// The ring. Nothing in it from [`RawReader::cursor`] to the head changes until
    /// [`RawReader::advance`].
    #[must_use]
    #[inline]
    pub fn ring(&self) -> Raw<'_> {
        self.reader.raw_ring()
    }

    /// The position of the next record.
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> u64 {
        self.reader.cursor()
    }

    /// Hands back everything before `to`: moves the tail there, after a walk over the records
    /// between, which counts them for the books. Returns how many they were.
    ///
    /// # Errors
    /// [`Corrupt`] if `to` is not where a published record ends, or something that no producer
    /// writes stands before it. The tail stays where it was.
    pub fn advance(&mut self, to: u64) -> Result<Count, Corrupt> {
        let ring = self.reader.map.ring();
        let Cursor::Pinned(reader) = &mut self.reader.cursor else {
            return Err(Corrupt { pos: to });
        };
        let count = reader.pass_to(ring, to)?;
        let mark = reader.mark();
        if reader.release_to(ring, &mark) {
            futex::wake(ring.space_word());
        }
        Ok(count)
    }
}

impl MappedReader {
    fn raw_ring(&self) -> Raw<'_> {
        Raw { ring: self.map.ring(), base: self.map.base() }
    }

    /// Raw access; `None` on an overwrite ring, whose tail is the producers' and whose words may
    /// change at any time: what an observer is for.
    pub fn raw(&mut self) -> Option<RawReader<'_>> {
        matches!(self.cursor, Cursor::Pinned(_)).then_some(RawReader { reader: self })
    }
}

impl MappedObserver {
    /// Raw access. Any word may change at any time, in an overwrite ring; in a drop ring those
    /// between the tail and the head stand still while the tail does.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw { ring: self.map.ring(), base: self.map.base() }
    }
}
