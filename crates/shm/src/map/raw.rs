//! Raw access to a ring, as libbpf's `perf_buffer__buffer` gives it: for readers of one's own.

use crate::map::mirror::Mirror;
use crate::sys::futex;
use perfring_ring::{Count, ReadError, Reader, Ring};

/// A ring as words: where it is mapped, how far it goes, and what it holds.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub(super) ring: Ring<'a>,
    pub(super) base: *const u8,
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
    pub(super) map: &'a Mirror,
    pub(super) reader: &'a mut Reader,
}

impl RawReader<'_> {
    /// The ring. Nothing in it from [`RawReader::cursor`] to the head changes until
    /// [`RawReader::advance`].
    #[must_use]
    #[inline]
    pub fn ring(&self) -> Raw<'_> {
        Raw { ring: self.map.ring(), base: self.map.base() }
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
    /// [`ReadError`] if `to` is not where a published record ends, or something that no producer
    /// writes stands before it. The tail stays where it was.
    pub fn advance(&mut self, to: u64) -> Result<Count, ReadError> {
        let ring = self.map.ring();
        let count = self.reader.pass_to(ring, to)?;
        let resume_point = self.reader.resume_point();
        futex::wake_if(self.reader.release_to(ring, &resume_point), ring.space_word());
        Ok(count)
    }
}
