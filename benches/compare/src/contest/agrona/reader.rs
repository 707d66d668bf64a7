//! The reader of a one-to-one and of a many-to-one ring.

use super::buffer::{Buffer, HEAD, PADDING, READ_LIMIT};
use crate::CompareError;
use crate::contestant::{Receiver, Setup};
use perfring_bench::contest::Waits;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The reading end of both: zeroes what it has read, or leaves it.
pub struct Reader<const ZERO: bool> {
    buffer: Buffer,
    waits: Waits,
}

impl<const ZERO: bool> Reader<ZERO> {
    pub(super) fn open(path: &Path, setup: &Setup) -> Result<Self, CompareError> {
        Ok(Reader { buffer: Buffer::open(path)?, waits: Waits::new(setup.pace) })
    }

    /// Reads up to so many records, to the end of the buffer at most, as the original does.
    #[inline(always)]
    fn read<const N: usize>(&mut self, limit: u64, visit: &mut impl FnMut(&[u8; N])) -> u64 {
        loop {
            let (count, padding) = self.read_block(limit, visit);
            // Padding alone counts as progress.
            if count > 0 || !padding {
                return count;
            }
        }
    }

    #[inline(always)]
    fn read_block<const N: usize>(
        &mut self,
        limit: u64,
        visit: &mut impl FnMut(&[u8; N]),
    ) -> (u64, bool) {
        let buffer = &self.buffer;
        let head = buffer.position(HEAD).load(Ordering::Relaxed);
        let start = buffer.index(head);
        let (mut index, mut count) = (start, 0);
        while index < buffer.capacity && count < limit {
            let (word, kind) = buffer.header(index);
            let length = word.load(Ordering::Acquire);
            if length <= 0 {
                break;
            }
            if kind.load(Ordering::Relaxed) != PADDING {
                // SAFETY: committed, and writers do not touch it until the head is past it.
                visit(unsafe { &*buffer.payload::<N>(index) });
                count += 1;
            }
            index += (length as usize).next_multiple_of(8);
        }
        if index != start {
            if ZERO {
                // SAFETY: records that were read, complete and within the buffer; their writers
                // have finished with them, and no other writes before the head is stored.
                unsafe { buffer.map.base().add(start).write_bytes(0, index - start) };
            }
            buffer.position(HEAD).store(head + (index - start) as i64, Ordering::Release);
        }
        (count, index != start)
    }
}

impl<const ZERO: bool> Receiver for Reader<ZERO> {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        loop {
            let read = self.read(READ_LIMIT, &mut visit);
            count += read;
            if read < READ_LIMIT {
                return Ok(count);
            }
        }
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        Ok(self.read(1, &mut visit) != 0)
    }

    #[inline]
    fn wait(&mut self) {
        let buffer = &self.buffer;
        let index = buffer.index(buffer.position(HEAD).load(Ordering::Relaxed));
        self.waits.wait(|| buffer.header(index).0.load(Ordering::Acquire) > 0);
    }
}
