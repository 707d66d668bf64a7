//! Agrona's many-to-one ring buffer, in an implementation of its layout and protocol.
//!
//! The originals are Java, and C within Aeron's client, which copies a message in by a call. This
//! has the originals' `tryClaim` and `commit` instead, written and read in place and compiled into
//! the loop. Layout, positions and steps are those of Agrona 2 and Aeron 1.5x: records of an
//! aligned length and a type, a trailer of positions 128 bytes apart behind the data, the head's
//! cache in it, padding at the end. The reader zeroes what it has read, so that the lines go back
//! to the writers owned: perfring's consumer writes lines back because of what this one gained.

use crate::contest::mapped::Mapped;
use perfring_bench::Result;
use perfring_bench::contestant::{
    About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit,
};
use perfring_bench::error::failed;
use perfring_bench::waits::Waits;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering, fence};

/// Agrona's `ManyToOneRingBuffer`.
pub struct ManyToOne;

const NAME: &str = "agrona many-to-one";
/// The most messages that a reader takes before it stores its position: without a limit, it zeroes
/// a megabyte at a time, and is slower.
const READ_LIMIT: u64 = 256;
/// A record's length and type.
const HEADER: usize = 8;
const PADDING: i32 = -1;
/// Any type of the application's range.
const TYPE: i32 = 1;
const TRAILER: usize = 768;
/// The offsets of the positions in the trailer.
const TAIL: usize = 128;
const HEAD_CACHE: usize = 256;
const HEAD: usize = 384;

/// Returns the bytes that a payload uses.
const fn record(payload: usize) -> usize {
    (payload + HEADER).next_multiple_of(8)
}

impl Contestant for ManyToOne {
    type Sender = Buffer;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        Can {
            payload: 1 << 24,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("it refuses what has no room"),
            receivers: Err("it has one reader"),
            sleeping: Err("nothing wakes its readers: they poll"),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        About {
            name: NAME,
            version: "own version of Agrona 2's protocol".to_owned(),
            location: Location::Processes,
            settings: format!(
                "buffer of {} bytes in a mapped file, {READ_LIMIT} messages a read, tryClaim and \
                 commit per record, the reader zeroes what it has read and then stores the head, \
                 once a read",
                setup.data_size
            ),
            waits: setup.pace.polls(),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        let capacity = setup.data_size;
        // Its own limit.
        if !capacity.is_power_of_two() || setup.payload as u64 > capacity / 8 {
            let why = format!("no payloads of {} bytes in {capacity}", setup.payload);
            return Err(failed(NAME)(why));
        }
        Mapped::create(path, capacity + TRAILER as u64)
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<Buffer> {
        Buffer::open(path)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader> {
        Ok(Reader { buffer: Buffer::open(path)?, waits: Waits::new(setup.pace) })
    }
}

/// A mapped buffer, which is all that a writing end has.
pub struct Buffer {
    map: Mapped,
    capacity: usize,
}

impl Buffer {
    fn open(path: &Path) -> Result<Self> {
        let map = Mapped::open(path)?;
        let capacity = map.len().saturating_sub(TRAILER);
        if capacity < 64 || !capacity.is_power_of_two() {
            return Err(failed(NAME)("not such a buffer"));
        }
        Ok(Buffer { map, capacity })
    }

    /// Returns a position of the trailer.
    #[inline(always)]
    fn position(&self, offset: usize) -> &AtomicI64 {
        debug_assert!(offset + 8 <= TRAILER);
        // SAFETY: in the trailer, 8-aligned as the capacity is a power of two, and accessed by both
        // ends only as this atomic.
        unsafe { &*self.map.base().add(self.capacity + offset).cast::<AtomicI64>() }
    }

    /// A record's length and type.
    #[inline(always)]
    fn header(&self, index: usize) -> (&AtomicI32, &AtomicI32) {
        debug_assert!(index + HEADER <= self.capacity && index.is_multiple_of(8));
        // SAFETY: records begin at multiples of 8 below the capacity, so the length is within the
        // mapping and aligned. It and the type are accessed as atomics while both ends may access
        // them.
        let length = unsafe { &*self.map.base().add(index).cast::<AtomicI32>() };
        // SAFETY: as above, the word behind it.
        let kind = unsafe { &*self.map.base().add(index + 4).cast::<AtomicI32>() };
        (length, kind)
    }

    /// A record's payload.
    #[inline(always)]
    fn payload<const N: usize>(&self, index: usize) -> *mut [u8; N] {
        debug_assert!(index + HEADER + N <= self.capacity);
        // SAFETY: a record does not wrap, so its payload is within the mapping.
        unsafe { self.map.base().add(index + HEADER).cast() }
    }

    #[inline(always)]
    fn index(&self, position: i64) -> usize {
        position as usize & (self.capacity - 1)
    }

    /// Claims a record of `size` bytes and returns its index, if there is room.
    #[inline(always)]
    fn claim(&self, size: usize) -> Option<usize> {
        let cache = self.position(HEAD_CACHE);
        let tails = self.position(TAIL);
        let mut head = cache.load(Ordering::Acquire);
        loop {
            let tail = tails.load(Ordering::Acquire);
            if size as i64 > self.capacity as i64 - (tail - head) {
                head = self.position(HEAD).load(Ordering::Acquire);
                if size as i64 > self.capacity as i64 - (tail - head) {
                    return None;
                }
                cache.store(head, Ordering::Release);
            }
            let index = self.index(tail);
            let to_end = self.capacity - index;
            let mut padding = 0;
            if size > to_end {
                if size > self.index(head) {
                    head = self.position(HEAD).load(Ordering::Acquire);
                    if size > self.index(head) {
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
            // A padding record over the rest of the buffer.
            let (length, kind) = self.header(index);
            kind.store(PADDING, Ordering::Relaxed);
            length.store(padding as i32, Ordering::Release);
            return Some(0);
        }
    }
}

impl Sender for Buffer {
    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let Some(index) = self.claim(record(N)) else { return Ok(false) };
        let length = (N + HEADER) as i32;
        let (word, kind) = self.header(index);
        word.store(-length, Ordering::Release);
        fence(Ordering::Release);
        kind.store(TYPE, Ordering::Relaxed);
        // SAFETY: claimed by a compare-and-swap: no other writer has it, and the reader has passed
        // it and returns only when the length is positive.
        fill(unsafe { &mut *self.payload::<N>(index) }, number);
        word.store(length, Ordering::Release);
        Ok(true)
    }
}

/// The reading end.
pub struct Reader {
    buffer: Buffer,
    waits: Waits,
}

impl Reader {
    /// Reads up to so many records, to the end of the buffer at most, as the original does. Returns
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
            // SAFETY: records that were read, complete and within the buffer; their writers have
            // finished with them, and no other writes before the head is stored.
            unsafe { buffer.map.base().add(start).write_bytes(0, index - start) };
            buffer.position(HEAD).store(head + (index - start) as i64, Ordering::Release);
        }
        (count, index != start)
    }
}

impl Receiver for Reader {
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
