//! One writer that never waits, any number of readers that copy.

use super::buffer::{self, Buffer, HEADER, NO_SLEEP, PADDING, PAYLOAD, TYPE, record};
use perfring_bench::Result;
use perfring_bench::contestant::{About, Can, Contestant, Fill, Receiver, Sender, Setup, Visit};
use perfring_bench::waits::Waits;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// Agrona's `BroadcastTransmitter` and `CopyBroadcastReceiver`.
pub struct Broadcast;

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
            lossless: Err("its transmitter never waits"),
            senders: Err("it has one transmitter"),
            sleeping: Err(NO_SLEEP),
            refuses: Err("it always has room: it overwrites"),
            ..Can::all(PAYLOAD)
        }
    }

    fn about(setup: &Setup) -> About {
        let how =
            "written in place, copied out; a receiver that was lapped continues with the latest";
        buffer::about(setup, how)
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        Buffer::create(path, setup)
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<Transmitter> {
        Ok(Transmitter { buffer: Buffer::open(path)? })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Copier> {
        let buffer = Buffer::open(path)?;
        let next = buffer.position(LATEST).load(Ordering::Acquire);
        Ok(Copier { buffer, next, waits: Waits::new(setup.pace) })
    }
}

/// Its writing end.
pub struct Transmitter {
    buffer: Buffer,
}

impl Sender for Transmitter {
    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
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

    /// Continues with the latest record. The original does the same.
    #[cold]
    fn lapped(&self) -> i64 {
        self.buffer.position(LATEST).load(Ordering::Acquire)
    }
}

impl Receiver for Copier {
    /// Copies the next intact record.
    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        loop {
            let buffer = &self.buffer;
            let mut cursor = self.next;
            if buffer.position(TAIL).load(Ordering::Acquire) <= cursor {
                return Ok(false);
            }
            if !self.is_valid(cursor) {
                cursor = self.lapped();
            }
            let index = buffer.index(cursor);
            let (word, kind) = buffer.header(index);
            let (length, kind) = (word.load(Ordering::Relaxed), kind.load(Ordering::Relaxed));
            let whole = length == (N + HEADER) as i32 && index + record(N) <= buffer.capacity;
            if kind != PADDING && whole {
                let mut copy = MaybeUninit::<[u8; N]>::uninit();
                let from = buffer.payload::<N>(index);
                // SAFETY: within the buffer, as just checked. The transmitter may write meanwhile,
                // as in the original: the copy is used only if it did not.
                unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(from, 1) };
                if self.is_valid(cursor) {
                    self.next = cursor + record(N) as i64;
                    // SAFETY: all of it was copied.
                    visit(unsafe { copy.assume_init_ref() });
                    return Ok(true);
                }
            } else if self.is_valid(cursor) {
                self.next = cursor + ((i64::from(length.max(8)) + 7) & !7);
                continue;
            }
            self.next = self.lapped();
        }
    }

    #[inline]
    fn wait(&mut self) {
        let (buffer, next) = (&self.buffer, self.next);
        self.waits.wait(|| buffer.position(TAIL).load(Ordering::Acquire) > next);
    }
}
