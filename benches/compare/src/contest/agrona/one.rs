//! One writer, one reader. The reader leaves its records: the writer zeroes the next header.

use super::buffer::{Buffer, HEADER, record};
use super::ring::{self, HEAD, HEAD_CACHE, Reader, TAIL};
use perfring_bench::Result;
use perfring_bench::contestant::{About, Can, Contestant, Fill, Sender, Setup};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Agrona's `OneToOneRingBuffer`.
pub struct OneToOne;

impl Contestant for OneToOne {
    type Sender = OneSender;
    type Receiver = Reader<false>;
    type Held = ();

    fn can() -> Can {
        ring::can(Err("one writer: its many-to-one ring is listed beside it"))
    }

    fn about(setup: &Setup) -> About {
        ring::about(setup, "the head stored once a read")
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        Buffer::create(path, setup)
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<OneSender> {
        Ok(OneSender { buffer: Buffer::open(path)? })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader<false>> {
        Reader::open(path, setup)
    }
}

/// Its writing end.
pub struct OneSender {
    buffer: Buffer,
}

impl OneSender {
    /// Claims a record of `size` bytes and returns its index, if there is room for it and the next
    /// header.
    #[inline(always)]
    fn claim(&self, size: usize) -> Option<usize> {
        let buffer = &self.buffer;
        let required = size + HEADER;
        let cache = buffer.position(HEAD_CACHE);
        let mut head = cache.load(Ordering::Relaxed);
        let tail = buffer.position(TAIL).load(Ordering::Relaxed);
        if required as i64 > buffer.capacity as i64 - (tail - head) {
            head = buffer.position(HEAD).load(Ordering::Acquire);
            if required as i64 > buffer.capacity as i64 - (tail - head) {
                return None;
            }
            cache.store(head, Ordering::Relaxed);
        }
        let index = buffer.index(tail);
        let to_end = buffer.capacity - index;
        if size == to_end {
            // The next header is the first of the buffer, which has been read: room for it was
            // requested.
            self.clear_header(0);
            buffer.position(TAIL).store(tail + size as i64, Ordering::Release);
            return Some(index);
        }
        if required > to_end {
            // It does not fit before the end: pad, and start at the beginning, if that has been
            // read.
            if required > buffer.index(head) {
                head = buffer.position(HEAD).load(Ordering::Acquire);
                if required > buffer.index(head) {
                    return None;
                }
                cache.store(head, Ordering::Relaxed);
            }
            self.clear_header(0);
            buffer.position(TAIL).store(tail + (size + to_end) as i64, Ordering::Release);
            buffer.pad(index, to_end);
            self.clear_header(size);
            return Some(0);
        }
        buffer.position(TAIL).store(tail + size as i64, Ordering::Release);
        self.clear_header(index + size);
        Some(index)
    }

    /// Writes a header that marks a record as not present yet.
    #[inline(always)]
    fn clear_header(&self, index: usize) {
        let (length, kind) = self.buffer.header(index);
        length.store(0, Ordering::Relaxed);
        kind.store(0, Ordering::Relaxed);
    }
}

impl Sender for OneSender {
    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        let Some(index) = self.claim(record(N)) else { return Ok(false) };
        // SAFETY: claimed, and there is one writer.
        unsafe { ring::write::<N, false>(&self.buffer, index, number, fill) };
        Ok(true)
    }
}
