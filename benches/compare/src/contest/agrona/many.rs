//! Many writers, one reader, which zeroes what it has read.

use super::super::common::{Room, failed};
use super::super::{About, Can, Contestant, Receiver, Sender, Setup};
use super::{
    Buffer, HEAD, HEAD_CACHE, HEADER, NO_SLEEP, ONE_READER, PADDING, READ_LIMIT, TAIL, TYPE, record,
};
use crate::CompareError;
use perfring_bench::contest::Waits;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// Agrona's `ManyToOneRingBuffer`.
pub struct ManyToOne;

const NAME: &str = "agrona many-to-one";

impl Contestant for ManyToOne {
    type Sender = ManySender;
    type Receiver = ManyReceiver;
    type Held = ();

    fn can() -> Can {
        Can {
            payload: 1 << 24,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("it refuses what has no room; overwriting is its broadcast's"),
            receivers: Err(ONE_READER),
            sleeping: Err(NO_SLEEP),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let more = "tryClaim and commit per record, the reader zeroes what it has read and then stores \
                    the head, once a read";
        super::about(NAME, setup, more)
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        if setup.receivers > 1 || setup.overwrite {
            return Err(failed(NAME)("one receiver, nothing lost"));
        }
        Buffer::create(path, setup)
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<ManySender, CompareError> {
        Ok(ManySender { buffer: Buffer::open(path)?, room: Room::default() })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<ManyReceiver, CompareError> {
        Ok(ManyReceiver { buffer: Buffer::open(path)?, waits: Waits::new(setup.pace) })
    }
}

/// Its writing end.
pub struct ManySender {
    buffer: Buffer,
    room: Room,
}

impl ManySender {
    /// The index of a claimed record of `size` bytes, if there is room.
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

    #[inline(always)]
    fn write<const N: usize>(
        &self,
        index: usize,
        number: u64,
        fill: &mut impl FnMut(&mut [u8; N], u64),
    ) {
        let length = (N + HEADER) as i32;
        let (word, kind) = self.buffer.header(index);
        word.store(-length, Ordering::Release);
        fence(Ordering::Release);
        kind.store(TYPE, Ordering::Relaxed);
        // SAFETY: claimed by a compare-and-swap: no other writer has it, the reader has been here
        // and comes back when the length is positive.
        fill(unsafe { &mut *self.buffer.payload::<N>(index) }, number);
        word.store(length, Ordering::Release);
    }
}

impl Sender for ManySender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        for number in numbers {
            let index = loop {
                match self.claim(record(N)) {
                    Some(index) => break index,
                    None => self.room.wait(),
                }
            };
            self.write(index, number, &mut fill);
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let Some(index) = self.claim(record(N)) else { return Ok(false) };
        self.write(index, number, &mut fill);
        Ok(true)
    }
}

/// Its reading end.
pub struct ManyReceiver {
    buffer: Buffer,
    waits: Waits,
}

impl ManyReceiver {
    /// Reads up to so many records, to the end of the buffer at most, as the original does.
    #[inline(always)]
    fn read<const N: usize>(&mut self, limit: u64, visit: &mut impl FnMut(&[u8; N])) -> u64 {
        loop {
            let (count, padding) = self.read_block(limit, visit);
            // Padding alone is not nothing.
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
                // SAFETY: committed, and writers stay away until the head is past it.
                visit(unsafe { &*buffer.payload::<N>(index) });
                count += 1;
            }
            index += (length as usize).next_multiple_of(8);
        }
        if index != start {
            // SAFETY: records that were read, whole and within the buffer; their writers are done
            // with them, and no other comes before the head is stored.
            unsafe { buffer.map.base().add(start).write_bytes(0, index - start) };
            buffer.position(HEAD).store(head + (index - start) as i64, Ordering::Release);
        }
        (count, index != start)
    }
}

impl Receiver for ManyReceiver {
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
