//! The consumer of one of the kernel's own rings.
//!
//! The page and the orderings are the same as in a drop ring, with three differences: the kernel's
//! `misc` encodes no padding, no type is a hole, and there are no totals, because the kernel
//! keeps its own counts.

use crate::record::Corrupt;
use crate::view::{Ring, sane};
use alloc::vec::Vec;
use perfring_abi::atomic::Ordering;
use perfring_abi::{HEADER_LEN, RECORD_ALIGN, RecordWord};

/// The position and properties of a record written by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFrame {
    /// The position of its header.
    pub pos: u64,
    /// `type`: one of `enum perf_event_type`.
    pub kind: u32,
    /// `misc`: the mode of the processor, and flags of the type.
    pub misc: u16,
    /// The bytes that it uses in the ring, header included.
    pub size: u64,
}

impl KernelFrame {
    /// Returns the frame of a header at this position, if the record fits into the bytes from there on.
    #[inline]
    pub(crate) fn of(word: RecordWord, pos: u64, room: u64) -> Option<Self> {
        let size = word.size();
        let is_valid = size >= u64::from(HEADER_LEN)
            && size.is_multiple_of(u64::from(RECORD_ALIGN))
            && size <= room;
        is_valid.then(|| KernelFrame { pos, kind: word.kind(), misc: word.misc(), size })
    }

    /// Returns the number of words of its body.
    #[must_use]
    #[inline]
    pub fn words(&self) -> usize {
        (self.size - u64::from(HEADER_LEN)) as usize / 8
    }

    /// Returns the position after it.
    #[must_use]
    #[inline]
    pub fn end(&self) -> u64 {
        self.pos + self.size
    }
}

/// The private state of the consumer of a ring that the kernel writes. It can hold any number of
/// records: the tail moves only when [`KernelReader::release`] is called.
#[derive(Debug)]
pub struct KernelReader {
    /// `data_head` at the last poll.
    head: u64,
    /// The value of `data_tail`.
    released: u64,
}

impl KernelReader {
    /// Starts at the tail.
    ///
    /// # Errors
    /// [`Corrupt`] if no kernel leaves such positions.
    pub fn attach(ring: Ring<'_>) -> Result<Self, Corrupt> {
        // Relaxed: only the reader of a ring writes its tail.
        let tail = ring.header.data_tail.load(Ordering::Relaxed);
        let mut reader = KernelReader { head: tail, released: tail };
        reader.poll(ring)?;
        Ok(reader)
    }

    /// Polls `data_head`.
    ///
    /// # Errors
    /// [`Corrupt`] if the head moved to an impossible position.
    #[inline]
    pub fn poll(&mut self, ring: Ring<'_>) -> Result<u64, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if !sane(ring, head, self.released) || head < self.head {
            return Err(Corrupt { pos: self.head });
        }
        self.head = head;
        Ok(head)
    }

    /// Returns the record at `cursor`, if it is known. Start from [`KernelReader::released`] and
    /// continue from [`KernelFrame::end`].
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid record at `cursor`.
    #[inline]
    pub fn peek(&self, ring: Ring<'_>, cursor: u64) -> Result<Option<KernelFrame>, Corrupt> {
        if cursor < self.released || cursor >= self.head || !cursor.is_multiple_of(8) {
            return Ok(None);
        }
        // Relaxed: B ordered it.
        let word = RecordWord::from_raw(ring.word(cursor).load(Ordering::Relaxed));
        match KernelFrame::of(word, cursor, self.head - cursor) {
            Some(frame) => Ok(Some(frame)),
            None => Err(Corrupt { pos: cursor }),
        }
    }

    /// Copies the body of a peeked record into one piece: it may wrap around the end of the data
    /// area, and the kernel's rings cannot be mapped twice in a row.
    #[inline]
    pub fn copy<'b>(&self, ring: Ring<'_>, frame: &KernelFrame, to: &'b mut Vec<u64>) -> &'b [u64] {
        to.clear();
        to.resize(frame.words(), 0);
        ring.copy_out(frame.pos + u64::from(HEADER_LEN), to);
        to
    }

    /// Releases everything before `pos`, which is the end of a record that was peeked. Any other
    /// position is ignored.
    #[inline]
    pub fn release(&mut self, ring: Ring<'_>, pos: u64) {
        if pos > self.released && pos <= self.head && pos.is_multiple_of(8) {
            self.released = pos;
            ring.header.data_tail.store(pos, Ordering::Release); // C, pairs with D
        }
    }

    /// Returns the value of `data_tail`.
    #[must_use]
    #[inline]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Returns `data_head` as of the last poll.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.head
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use crate::heap::HeapRing;
    use alloc::vec;
    use perfring_abi::Policy;

    /// The kernel's side: writes a record if there is room, as `perf_output_begin` does.
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

    fn store_word(heap: &HeapRing, at: usize, word: RecordWord) {
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
            // As many as fit. `misc` has bits that would be padding in a perfring ring.
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
            store_word(&heap, 0, word);
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
    fn only_peeked_records_are_released() {
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
        // Released records are not returned again.
        assert_eq!(reader.peek(heap.ring(), 0), Ok(None));
    }
}
