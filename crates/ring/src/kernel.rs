//! The consumer of one of the kernel's own rings.
//!
//! The page and the orderings are those of a drop ring. What differs: `misc` is the kernel's and
//! tells no padding, no type is a hole, and there are no books: the kernel counts by itself.

use crate::record::Corrupt;
use crate::view::{Ring, sane};
use alloc::vec::Vec;
use perfring_abi::atomic::Ordering;
use perfring_abi::{HEADER_LEN, RECORD_ALIGN, RecordWord};

/// Where a record of the kernel's stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFrame {
    /// Of its header.
    pub pos: u64,
    /// `type`: one of `enum perf_event_type`.
    pub kind: u32,
    /// `misc`: the mode of the processor, and flags of the type's own.
    pub misc: u16,
    /// Bytes it takes in the ring, header included.
    pub size: u64,
}

impl KernelFrame {
    /// Words of its body.
    #[must_use]
    #[inline]
    pub fn words(&self) -> usize {
        (self.size - u64::from(HEADER_LEN)) as usize / 8
    }

    /// The position after it.
    #[must_use]
    #[inline]
    pub fn end(&self) -> u64 {
        self.pos + self.size
    }
}

/// The private state of the consumer of a ring that the kernel writes. It holds any number of
/// records: the tail moves only where [`KernelReader::release`] says.
#[derive(Debug)]
pub struct KernelReader {
    /// `data_head` when last looked at.
    head: u64,
    /// What `data_tail` holds.
    released: u64,
}

impl KernelReader {
    /// Begins at the tail.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no kernel leaves.
    pub fn attach(ring: Ring<'_>) -> Result<Self, Corrupt> {
        // Relaxed: nobody but the reader of a ring writes its tail.
        let tail = ring.header.data_tail.load(Ordering::Relaxed);
        let mut reader = KernelReader { head: tail, released: tail };
        reader.poll(ring)?;
        Ok(reader)
    }

    /// A fresh look at how far the kernel is.
    ///
    /// # Errors
    /// [`Corrupt`] if it went where it cannot be.
    #[inline]
    pub fn poll(&mut self, ring: Ring<'_>) -> Result<u64, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if !sane(ring, head, self.released) || head < self.head {
            return Err(Corrupt { pos: self.head });
        }
        self.head = head;
        Ok(head)
    }

    /// The record at `cursor`, if one is known of: start from [`KernelReader::released`], go on
    /// from [`KernelFrame::end`].
    ///
    /// # Errors
    /// [`Corrupt`] if no record can stand there.
    #[inline]
    pub fn peek(&self, ring: Ring<'_>, cursor: u64) -> Result<Option<KernelFrame>, Corrupt> {
        if cursor < self.released || cursor >= self.head || !cursor.is_multiple_of(8) {
            return Ok(None);
        }
        // Relaxed: B ordered it.
        let word = RecordWord::from_raw(ring.word(cursor).load(Ordering::Relaxed));
        let size = word.size();
        if size < u64::from(HEADER_LEN)
            || !size.is_multiple_of(u64::from(RECORD_ALIGN))
            || size > self.head - cursor
        {
            return Err(Corrupt { pos: cursor });
        }
        Ok(Some(KernelFrame { pos: cursor, kind: word.kind(), misc: word.misc(), size }))
    }

    /// The body of a record that was peeked at, in one piece: it may run over the end of the data
    /// area, and the kernel's rings cannot be mapped so that it does not show.
    #[inline]
    pub fn copy<'b>(&self, ring: Ring<'_>, frame: &KernelFrame, to: &'b mut Vec<u64>) -> &'b [u64] {
        to.clear();
        to.resize(frame.words(), 0);
        ring.copy_out(frame.pos + u64::from(HEADER_LEN), to);
        to
    }

    /// Hands back everything before `pos`, which is where a record ended that was peeked at. Any
    /// other position is left alone.
    #[inline]
    pub fn release(&mut self, ring: Ring<'_>, pos: u64) {
        if pos > self.released && pos <= self.head && pos.is_multiple_of(8) {
            self.released = pos;
            ring.header.data_tail.store(pos, Ordering::Release); // C, pairs with D
        }
    }

    /// What `data_tail` holds.
    #[must_use]
    #[inline]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// `data_head` when last looked at.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.head
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;
    use crate::heap::HeapRing;
    use alloc::vec;
    use perfring_abi::Policy;

    /// The kernel's side of it: writes a record if there is room, as `perf_output_begin` does.
    fn write(heap: &HeapRing, kind: u32, misc: u16, body: &[u64]) -> bool {
        let ring = heap.ring();
        let head = ring.header.data_head.load(Ordering::Relaxed);
        let tail = ring.header.data_tail.load(Ordering::Acquire);
        let size = 8 + 8 * body.len() as u64;
        if head + size - tail >= ring.data_size() {
            return false;
        }
        let word = RecordWord::pack(kind, misc, size as u16).raw();
        for (at, word) in [word].iter().chain(body).enumerate() {
            ring.word(head + 8 * at as u64).store(*word, Ordering::Relaxed);
        }
        ring.header.data_head.store(head + size, Ordering::Release);
        true
    }

    fn put(heap: &HeapRing, at: usize, word: RecordWord) {
        heap.data()[at].store(word.raw(), Ordering::Relaxed);
    }

    #[test]
    fn records_come_as_they_were_written_over_many_laps_and_the_tail_waits_to_be_reported() {
        const RECORDS: u64 = if cfg!(miri) { 300 } else { 10_000 };
        let heap = HeapRing::new(256, Policy::Drop).unwrap();
        let mut reader = KernelReader::attach(heap.ring()).unwrap();
        let (mut body, mut cursor, mut written, mut read) = (Vec::new(), 0, 0u64, 0u64);
        let mut wraps = 0;
        while read < RECORDS {
            // As much as goes in: misc has bits that would be padding in a ring of ours.
            while write(&heap, 9, 0x4007, &vec![written; (written % 7) as usize]) {
                written += 1;
            }
            assert_eq!(heap.header().data_tail.load(Ordering::Relaxed), reader.released());
            reader.poll(heap.ring()).unwrap();
            let before = read;
            while let Some(frame) = reader.peek(heap.ring(), cursor).unwrap() {
                assert_eq!((frame.kind, frame.misc), (9, 0x4007));
                let words = reader.copy(heap.ring(), &frame, &mut body);
                assert_eq!(words, vec![read; (read % 7) as usize]);
                wraps += u64::from(frame.pos / 256 != (frame.end() - 1) / 256);
                (cursor, read) = (frame.end(), read + 1);
            }
            assert_eq!(read, written);
            assert!(read > before, "there was room for one");
            reader.release(heap.ring(), cursor);
        }
        assert!(wraps > RECORDS / 100, "{wraps} of {read} records went over the end");
    }

    #[test]
    fn words_that_no_kernel_writes_are_reported_and_never_passed() {
        for (word, head) in [
            (RecordWord::pack(9, 0, 0), 64),
            (RecordWord::pack(9, 0, 4), 64),
            (RecordWord::pack(9, 0, 12), 64),
            (RecordWord::pack(9, 0, 72), 64),
            (RecordWord::pack(9, 0, 65_535), 64),
        ] {
            let heap = HeapRing::new(256, Policy::Drop).unwrap();
            put(&heap, 0, word);
            heap.header().data_head.store(head, Ordering::Relaxed);
            let reader = KernelReader::attach(heap.ring()).unwrap();
            assert_eq!(reader.peek(heap.ring(), 0), Err(Corrupt { pos: 0 }), "{word:?}");
            assert_eq!(reader.peek(heap.ring(), 0), Err(Corrupt { pos: 0 }), "{word:?}");
        }
    }

    #[test]
    fn heads_where_no_kernel_is_are_reported() {
        let heap = HeapRing::new(256, Policy::Drop).unwrap();
        let mut reader = KernelReader::attach(heap.ring()).unwrap();
        heap.header().data_head.store(64, Ordering::Relaxed);
        assert_eq!(reader.poll(heap.ring()), Ok(64));
        for head in [256, 7, 0, 56, u64::MAX, 1 << 63] {
            heap.header().data_head.store(head, Ordering::Relaxed);
            assert_eq!(reader.poll(heap.ring()), Err(Corrupt { pos: 64 }), "{head}");
        }
        assert!(KernelReader::attach(heap.ring()).is_err());
    }

    #[test]
    fn only_what_was_looked_at_is_handed_back() {
        let heap = HeapRing::new(256, Policy::Drop).unwrap();
        assert!(write(&heap, 9, 0, &[1, 2]));
        let mut reader = KernelReader::attach(heap.ring()).unwrap();
        assert!(write(&heap, 9, 0, &[3, 4]));
        for pos in [48, u64::MAX, 12, 0] {
            reader.release(heap.ring(), pos);
            assert_eq!(heap.header().data_tail.load(Ordering::Relaxed), 0, "{pos}");
        }
        reader.release(heap.ring(), 24);
        assert_eq!(heap.header().data_tail.load(Ordering::Relaxed), 24);
        // What was handed back is not to be seen again.
        assert_eq!(reader.peek(heap.ring(), 0), Ok(None));
    }
}
