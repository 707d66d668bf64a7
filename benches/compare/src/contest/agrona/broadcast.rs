//! One writer that never waits, any number of readers that copy.

use super::buffer::{self, Buffer, HEADER, NO_SLEEP, PADDING, TYPE, record};
use crate::CompareError;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Receiver, Sender, Setup, failed};
use perfring_bench::contest::Waits;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// Agrona's `BroadcastTransmitter` and `CopyBroadcastReceiver`.
pub struct Broadcast;

const NAME: &str = "agrona broadcast";
/// Its positions, side by side at the beginning of the trailer.
const INTENT: usize = 0;
const TAIL: usize = 8;
const LATEST: usize = 16;

impl Contestant for Broadcast {
    type Sender = Transmitter;
    type Receiver = Copier;
    type Held = ();

    fn can() -> Can {
        Can {
            payload: 1 << 24,
            lossless: Err("its transmitter never waits"),
            senders: Err("it has one transmitter"),
            overwrite: Ok(()),
            receivers: Ok(()),
            sleeping: Err(NO_SLEEP),
            refuses: Err("it always has room: it overwrites"),
        }
    }

    fn about(setup: &Setup) -> About {
        let more =
            "written in place, copied out; a receiver that was lapped goes on with the latest";
        About { waits: Polls::about(setup.pace), ..buffer::about(NAME, setup, more) }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        if setup.senders > 1 || !setup.overwrite {
            return Err(failed(NAME)("one sender, which overwrites"));
        }
        Buffer::create(path, setup)
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<Transmitter, CompareError> {
        Ok(Transmitter { buffer: Buffer::open(path)? })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Copier, CompareError> {
        let buffer = Buffer::open(path)?;
        let next = buffer.position(LATEST).load(Ordering::Acquire);
        Ok(Copier { buffer, next, waits: Waits::new(setup.pace) })
    }
}

/// Its writing end.
pub struct Transmitter {
    buffer: Buffer,
}

impl Transmitter {
    #[inline(always)]
    fn transmit<const N: usize>(&mut self, number: u64, fill: &mut impl FnMut(&mut [u8; N], u64)) {
        let buffer = &self.buffer;
        let size = record(N);
        let mut tail = buffer.position(TAIL).load(Ordering::Relaxed);
        let mut index = buffer.index(tail);
        let to_end = buffer.capacity - index;
        let padding = if to_end < size { to_end } else { 0 };
        // Before any byte is overwritten.
        let intent = tail + (padding + size) as i64;
        buffer.position(INTENT).store(intent, Ordering::Release);
        fence(Ordering::Release);
        if padding != 0 {
            buffer.pad(index, padding);
            tail += padding as i64;
            index = 0;
        }
        let (word, kind) = buffer.header(index);
        word.store((N + HEADER) as i32, Ordering::Relaxed);
        kind.store(TYPE, Ordering::Relaxed);
        // SAFETY: within the buffer, and there is one transmitter. A receiver that copies these
        // bytes meanwhile checks the intent afterwards and discards its copy.
        fill(unsafe { &mut *buffer.payload::<N>(index) }, number);
        buffer.position(LATEST).store(tail, Ordering::Release);
        buffer.position(TAIL).store(tail + size as i64, Ordering::Release);
    }
}

impl Sender for Transmitter {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        for number in numbers {
            self.transmit(number, &mut fill);
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        self.transmit(number, &mut fill);
        Ok(true)
    }
}

/// Its reading end.
pub struct Copier {
    buffer: Buffer,
    next: i64,
    waits: Waits,
}

impl Copier {
    /// Returns whether the bytes at `cursor` have not been overwritten.
    #[inline(always)]
    fn is_valid(&self, cursor: i64) -> bool {
        fence(Ordering::Acquire);
        let intent = self.buffer.position(INTENT).load(Ordering::Acquire);
        cursor + self.buffer.capacity as i64 > intent
    }

    /// Copies the next intact record.
    #[inline(always)]
    fn receive<const N: usize>(&mut self, visit: &mut impl FnMut(&[u8; N])) -> bool {
        loop {
            let buffer = &self.buffer;
            let mut cursor = self.next;
            if buffer.position(TAIL).load(Ordering::Acquire) <= cursor {
                return false;
            }
            if !self.is_valid(cursor) {
                cursor = self.lapped();
            }
            let buffer = &self.buffer;
            let (word, kind) = buffer.header(buffer.index(cursor));
            let (length, kind) = (word.load(Ordering::Relaxed), kind.load(Ordering::Relaxed));
            let whole = length == (N + HEADER) as i32
                && buffer.index(cursor) + record(N) <= buffer.capacity;
            if kind != PADDING && whole {
                let mut copy = MaybeUninit::<[u8; N]>::uninit();
                let from = buffer.payload::<N>(buffer.index(cursor));
                // SAFETY: within the buffer, as just checked. The transmitter may write meanwhile,
                // as in the original: the copy is used only if it did not.
                unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(from, 1) };
                if self.is_valid(cursor) {
                    self.next = cursor + record(N) as i64;
                    // SAFETY: all of it was copied.
                    visit(unsafe { copy.assume_init_ref() });
                    return true;
                }
            } else if self.is_valid(cursor) {
                self.next = cursor + ((i64::from(length.max(8)) + 7) & !7);
                continue;
            }
            self.next = self.lapped();
        }
    }

    /// Continues with the latest record, as the original does.
    #[cold]
    fn lapped(&self) -> i64 {
        self.buffer.position(LATEST).load(Ordering::Acquire)
    }
}

impl Receiver for Copier {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        while self.receive(&mut visit) {
            count += 1;
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        Ok(self.receive(&mut visit))
    }

    #[inline]
    fn wait(&mut self) {
        let (buffer, next) = (&self.buffer, self.next);
        self.waits.wait(|| buffer.position(TAIL).load(Ordering::Acquire) > next);
    }
}
