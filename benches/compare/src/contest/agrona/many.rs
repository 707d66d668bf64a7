//! Many writers, one reader, which zeroes what it has read.

use super::buffer::{
    self, Buffer, HEAD, HEAD_CACHE, HEADER, NO_SLEEP, ONE_READER, TAIL, TYPE, record,
};
use super::reader::Reader;
use crate::CompareError;
use crate::contest::waits::Room;
use crate::contestant::{About, Can, Contestant, Sender, Setup, failed};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// Agrona's `ManyToOneRingBuffer`.
pub struct ManyToOne;

const NAME: &str = "agrona many-to-one";

impl Contestant for ManyToOne {
    type Sender = ManySender;
    type Receiver = Reader<true>;
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
        buffer::about(NAME, setup, more)
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

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader<true>, CompareError> {
        Reader::open(path, setup)
    }
}

/// Its writing end.
pub struct ManySender {
    buffer: Buffer,
    room: Room,
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
        // SAFETY: claimed by a compare-and-swap: no other writer has it, and the reader has passed
        // it and returns only when the length is positive.
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
