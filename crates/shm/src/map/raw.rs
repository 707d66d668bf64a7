//! Raw access to a ring for custom readers, like libbpf's `perf_buffer__buffer`.

use crate::map::mirror::Mirror;
use crate::sys::futex;
use perfring_ring::{Count, ReadError, Reader, Ring};

/// A ring as words: its address, its size and its positions.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub(super) ring: Ring<'a>,
    pub(super) base: *const u8,
}

impl Raw<'_> {
    /// Returns the address of the header page. `struct perf_event_mmap_page` begins there, and the
    /// data area at the start of [`Areas::data`](perfring_abi::Areas::data), counted from there. For display, or for code in
    /// another language; nothing checks the use of the address.
    #[must_use]
    pub fn base(&self) -> *const u8 {
        self.base
    }

    /// Returns the bytes of the data area: a power of two.
    #[must_use]
    #[inline]
    pub fn data_size(&self) -> u64 {
        self.ring.data_size()
    }

    /// Loads `data_head`: records before it are committed. Words that are loaded afterwards are
    /// no older than the head.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.ring.head()
    }

    /// Loads `data_tail`: in a drop ring the end of the released records, in an overwrite
    /// ring the oldest intact record. It is loaded after all words that were loaded before: words
    /// at positions not before it were intact.
    #[must_use]
    #[inline]
    pub fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// Loads the word at a position, modulo the ring's size: every position has a word. In a
    /// hostile ring, or in a ring that is being written, its value is arbitrary.
    #[must_use]
    #[inline]
    pub fn word(&self, pos: u64) -> u64 {
        self.ring.load(pos)
    }

    /// Copies as many words from a position on as `to` has space for, at most a ring of them.
    pub fn copy(&self, pos: u64, to: &mut [u64]) {
        self.ring.copy_out(pos, to);
    }
}

/// [`Raw`] access of the consumer of a drop ring, which moves the tail.
#[derive(Debug)]
pub struct RawReader<'a> {
    pub(super) map: &'a Mirror,
    pub(super) reader: &'a mut Reader,
}

impl RawReader<'_> {
    /// Returns the ring. Nothing in it from [`RawReader::cursor`] to the head changes until
    /// [`RawReader::advance`].
    #[must_use]
    #[inline]
    pub fn ring(&self) -> Raw<'_> {
        Raw { ring: self.map.ring(), base: self.map.base() }
    }

    /// Returns the position of the next record.
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> u64 {
        self.reader.cursor()
    }

    /// Releases everything before `to`: walks over the records between, counts them in the totals,
    /// and moves the tail there. Returns their number.
    ///
    /// # Errors
    /// [`ReadError`] if `to` is not the end of a published record, or if something that no producer
    /// writes stands before it. The tail does not move then.
    pub fn advance(&mut self, to: u64) -> Result<Count, ReadError> {
        let ring = self.map.ring();
        let count = self.reader.pass_to(ring, to)?;
        let resume_point = self.reader.resume_point();
        futex::wake_if(self.reader.release_to(ring, &resume_point), ring.space_word());
        Ok(count)
    }
}
