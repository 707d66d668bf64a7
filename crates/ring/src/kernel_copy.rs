//! The records of one of the kernel's own rings in overwrite mode (`write_backward`).
//!
//! The kernel writes such a ring from its end to its beginning. `data_head` begins at 0, decreases by the size of each
//! record, and is the position of the newest one. A reader finds the older records by the sizes of the newer ones. A new
//! record overwrites the end of the oldest ones, so the first record that does not fit into the copy is damaged, and so is
//! everything behind it.

use crate::kernel::KernelFrame;
use crate::record::Corrupt;
use crate::view::{POS_MAX, Ring};
use alloc::vec::Vec;
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{HEADER_LEN, RecordType, RecordWord};

/// The part of a full ring whose oldest bytes are left out: one in so many. The pause of the kernel's output does not stop
/// a writer that has begun a record. That record overwrites the oldest bytes, maybe during the copy.
const LEFT_OUT: u64 = 16;
/// The fewest bytes that are left out of a ring of at least twice this size; of a smaller ring it is half. A
/// `PERF_RECORD_MMAP2` with a path of the greatest length has 4.2 KB, and an interrupt may begin a further record during that.
const LEFT_OUT_LEAST: u64 = 8 << 10;

/// A copy of a ring in overwrite mode, from the newest record on.
///
/// Positions in [`KernelFrame`]s of a copy are bytes from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCopy {
    words: Vec<u64>,
    written: u64,
}

impl KernelCopy {
    /// Creates a copy without records, which takes a ring of this size without an allocation and without page faults.
    #[must_use]
    pub fn with_room(data_size: u64) -> Self {
        let mut words = Vec::with_capacity(data_size as usize / 8);
        // Not 0: zeros may come from the system without pages. No record has this header.
        words.resize(data_size as usize / 8, u64::MAX);
        KernelCopy { words, written: 0 }
    }

    /// Copies a ring while the kernel's output into it is paused.
    ///
    /// # Errors
    /// [`Corrupt`] if the head is at a position where no kernel leaves it. The copy is then empty.
    pub fn take(&mut self, ring: Ring<'_>) -> Result<(), Corrupt> {
        let head = self.copy(ring)?;
        self.leave_out_begun(ring, head);
        Ok(())
    }

    /// Copies what is behind the head, and returns the head.
    fn copy(&mut self, ring: Ring<'_>) -> Result<u64, Corrupt> {
        let head = ring.head();
        self.written = head.wrapping_neg();
        if !self.written.is_multiple_of(8) || self.written > POS_MAX {
            (self.written, self.words) = (0, Vec::new());
            return Err(Corrupt { pos: head });
        }
        self.words.resize(self.written.min(kept(ring)) as usize / 8, 0);
        ring.copy_out(head, &mut self.words);
        Ok(head)
    }

    /// Leaves out the bytes that were overwritten after the head was loaded, as far as the head shows that now: by records
    /// that were begun before the pause.
    fn leave_out_begun(&mut self, ring: Ring<'_>, head: u64) {
        fence(Ordering::Acquire); // F, pairs with the kernel's barrier before its store of `data_head`
        let since = head.wrapping_sub(ring.head());
        self.words.truncate(kept(ring).saturating_sub(since) as usize / 8);
    }

    /// Returns the bytes that the kernel had written since the ring was made.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the whole records, in the order of writing. The records are adjacent: in that order, each begins where the one
    /// before it ends. A `PERF_RECORD_LOST` comes before the record with which the kernel wrote it. If that record is overwritten, the
    /// `PERF_RECORD_LOST` comes first.
    #[must_use]
    pub fn frames(&self) -> Vec<KernelFrame> {
        let mut frames = Vec::new();
        let (mut pos, end) = (0, self.words.len() as u64 * 8);
        while let Some(word) = self.words.get(pos as usize / 8) {
            let word = RecordWord::from_raw(*word);
            let Some(frame) = KernelFrame::of(word, pos, end - pos) else { break };
            pos = frame.end();
            frames.push(frame);
        }
        frames.reverse();
        // Both are one write of the kernel's, which begins with the loss at the lower position.
        for at in 1..frames.len() {
            if frames[at].kind == RecordType::LOST {
                frames.swap(at - 1, at);
            }
        }
        frames
    }

    /// Returns the body of a record.
    #[must_use]
    pub fn body(&self, frame: &KernelFrame) -> &[u64] {
        let at = (frame.pos + u64::from(HEADER_LEN)) as usize / 8;
        self.words.get(at..at + frame.words()).unwrap_or_default()
    }
}

/// Returns how many bytes of a ring are copied at most.
fn kept(ring: Ring<'_>) -> u64 {
    let size = ring.data_size();
    size - (size / LEFT_OUT).max(LEFT_OUT_LEAST).min(size / 2)
}

#[cfg(all(test, not(loom)))]
#[path = "kernel_copy_tests.rs"]
mod tests;
