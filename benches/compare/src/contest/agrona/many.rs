//! Many writers, one reader, which zeroes what it has read, so that the lines go back to the
//! writers owned: perfring's consumer writes lines back because of what this one gained.

use super::buffer::{Buffer, record};
use super::ring::{self, HEAD, HEAD_CACHE, Reader, TAIL};
use perfring_bench::Result;
use perfring_bench::contestant::{About, Can, Contestant, Fill, Sender, Setup};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Agrona's `ManyToOneRingBuffer`.
pub struct ManyToOne;

impl Contestant for ManyToOne {
    type Sender = ManySender;
    type Receiver = Reader<true>;
    type Held = ();

    fn can() -> Can {
        ring::can(Ok(()))
    }

    fn about(setup: &Setup) -> About {
        let reader = "the reader zeroes what it has read and then stores the head, once a read";
        ring::about(setup, reader)
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        Buffer::create(path, setup)
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<ManySender> {
        Ok(ManySender { buffer: Buffer::open(path)? })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader<true>> {
        Reader::open(path, setup)
    }
}

/// Its writing end.
pub struct ManySender {
    buffer: Buffer,
}

impl ManySender {
    /// Claims a record of `size` bytes and returns its index, if there is room.
    #[inline(always)]
    fn claim(&self, size: usize) -> Option<usize> {
        let buffer = &self.buffer;
        let cache = buffer.position(HEAD_CACHE);
        let tails = buffer.position(TAIL);
        let mut head = cache.load(Ordering::Acquire);
        loop {
            let tail = tails.load(Ordering::Acquire);
            if size as i64 > buffer.capacity as i64 - (tail - head) {
                head = buffer.position(HEAD).load(Ordering::Acquire);
                if size as i64 > buffer.capacity as i64 - (tail - head) {
                    return None;
                }
                cache.store(head, Ordering::Release);
            }
            let index = buffer.index(tail);
            let to_end = buffer.capacity - index;
            let mut padding = 0;
            if size > to_end {
                if size > buffer.index(head) {
                    head = buffer.position(HEAD).load(Ordering::Acquire);
                    if size > buffer.index(head) {
                        return None;
                    }
                    cache.store(head, Ordering::Release);
                }
                padding = to_end;
            }
            let next = tail + (size + padding) as i64;
            let (ok, no) = (Ordering::AcqRel, Ordering::Relaxed);
            if tails.compare_exchange_weak(tail, next, ok, no).is_err() {
                continue;
            }
            if padding == 0 {
                return Some(index);
            }
            buffer.pad(index, padding);
            return Some(0);
        }
    }
}

impl Sender for ManySender {
    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        let Some(index) = self.claim(record(N)) else { return Ok(false) };
        // SAFETY: claimed by a compare-and-swap.
        unsafe { ring::write::<N, true>(&self.buffer, index, number, fill) };
        Ok(true)
    }
}
