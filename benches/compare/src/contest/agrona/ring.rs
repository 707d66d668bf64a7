//! What the two rings share: positions, records that are claimed and then committed, the reader.

use super::buffer::{self, Buffer, HEADER, NO_SLEEP, PADDING, PAYLOAD, TYPE};
use perfring_bench::Result;
use perfring_bench::contestant::{About, Can, Fill, Receiver, Setup, Visit};
use perfring_bench::waits::Waits;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// The most messages that a reader takes before it stores its position: without a limit, one that
/// zeroes does so a megabyte at a time, and is slower.
const READ_LIMIT: u64 = 256;
/// The offsets of the positions in the trailer, 128 bytes apart.
pub(super) const TAIL: usize = 128;
pub(super) const HEAD_CACHE: usize = 256;
pub(super) const HEAD: usize = 384;

/// Returns what one of them can be asked to do.
pub(super) fn can(senders: Result<(), &'static str>) -> Can {
    Can {
        senders,
        overwrite: Err("it refuses what has no room: its broadcast overwrites"),
        receivers: Err("its rings have one reader: several are for its broadcast"),
        sleeping: Err(NO_SLEEP),
        ..Can::all(PAYLOAD)
    }
}

/// Describes one of them.
pub(super) fn about(setup: &Setup, reader: &str) -> About {
    let how = format!("{READ_LIMIT} messages a read, tryClaim and commit per record, {reader}");
    buffer::about(setup, &how)
}

/// Writes and commits a record. With `FENCED` there is a fence between its negative length, which
/// marks it as being written, and the rest.
///
/// # Safety
/// The caller has claimed a record of this payload at this index: no other writer has it, and the
/// reader has passed it.
#[inline(always)]
pub(super) unsafe fn write<const N: usize, const FENCED: bool>(
    buffer: &Buffer,
    index: usize,
    number: u64,
    mut fill: impl Fill<N>,
) {
    let length = (N + HEADER) as i32;
    let (word, kind) = buffer.header(index);
    word.store(-length, Ordering::Release);
    if FENCED {
        fence(Ordering::Release);
    }
    kind.store(TYPE, Ordering::Relaxed);
    // SAFETY: the caller has claimed it; the reader returns only when the length is positive.
    fill(unsafe { &mut *buffer.payload::<N>(index) }, number);
    word.store(length, Ordering::Release);
}

/// The reading end of both: `ZERO`es what it has read, or leaves it.
pub struct Reader<const ZERO: bool> {
    buffer: Buffer,
    waits: Waits,
}

impl<const ZERO: bool> Reader<ZERO> {
    pub(super) fn open(path: &Path, setup: &Setup) -> Result<Self> {
        Ok(Reader { buffer: Buffer::open(path)?, waits: Waits::new(setup.pace) })
    }

    /// Reads up to so many records, to the end of the buffer at most. The original does the same. Returns
    /// how many, and whether anything was passed: padding alone counts as progress.
    #[inline(always)]
    fn read<const N: usize>(&mut self, limit: u64, visit: &mut impl Visit<N>) -> (u64, bool) {
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
                unsafe { buffer.zero(start, index - start) };
            }
            buffer.position(HEAD).store(head + (index - start) as i64, Ordering::Release);
        }
        (count, index != start)
    }
}

impl<const ZERO: bool> Receiver for Reader<ZERO> {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let mut total = 0;
        loop {
            let (count, progress) = self.read(READ_LIMIT, &mut visit);
            total += count;
            if !progress || (count > 0 && count < READ_LIMIT) {
                return Ok(total);
            }
        }
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        loop {
            let (count, progress) = self.read(1, &mut visit);
            if count > 0 || !progress {
                return Ok(count > 0);
            }
        }
    }

    #[inline]
    fn wait(&mut self) {
        let buffer = &self.buffer;
        let index = buffer.index(buffer.position(HEAD).load(Ordering::Relaxed));
        self.waits.wait(|| buffer.header(index).0.load(Ordering::Acquire) > 0);
    }
}
