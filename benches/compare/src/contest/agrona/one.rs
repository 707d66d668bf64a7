//! One writer, one reader.

use super::buffer::{
    self, Buffer, HEAD, HEAD_CACHE, HEADER, NO_SLEEP, ONE_READER, TAIL, TYPE, record,
};
use super::reader::Reader;
use crate::CompareError;
use crate::contest::waits::Room;
use crate::contestant::{About, Can, Contestant, Sender, Setup, failed};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Agrona's `OneToOneRingBuffer`.
pub struct OneToOne;

const NAME: &str = "agrona one-to-one";

impl Contestant for OneToOne {
    type Sender = OneSender;
    type Receiver = Reader<false>;
    type Held = ();

    fn can() -> Can {
        Can {
            payload: 1 << 24,
            lossless: Ok(()),
            senders: Err("one-to-one: its many-to-one ring is listed beside it"),
            overwrite: Err("it refuses what has no room; overwriting is its broadcast's"),
            receivers: Err(ONE_READER),
            sleeping: Err(NO_SLEEP),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let more = "tryClaim and commit per record, the head stored once a read";
        buffer::about(NAME, setup, more)
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        if setup.senders > 1 || setup.receivers > 1 || setup.overwrite {
            return Err(failed(NAME)("one sender, one receiver, nothing lost"));
        }
        Buffer::create(path, setup)
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<OneSender, CompareError> {
        Ok(OneSender { buffer: Buffer::open(path)?, room: Room::default() })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader<false>, CompareError> {
        Reader::open(path, setup)
    }
}

/// Its writing end.
pub struct OneSender {
    buffer: Buffer,
    room: Room,
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
            buffer.clear_header(0);
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
            buffer.clear_header(0);
            buffer.position(TAIL).store(tail + (size + to_end) as i64, Ordering::Release);
            buffer.pad(index, to_end);
            buffer.clear_header(size);
            return Some(0);
        }
        buffer.position(TAIL).store(tail + size as i64, Ordering::Release);
        buffer.clear_header(index + size);
        Some(index)
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
        kind.store(TYPE, Ordering::Relaxed);
        // SAFETY: claimed: the reader has passed it and returns only when the length is positive.
        fill(unsafe { &mut *self.buffer.payload::<N>(index) }, number);
        word.store(length, Ordering::Release);
    }
}

impl Sender for OneSender {
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
