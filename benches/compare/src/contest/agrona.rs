//! Agrona's ring buffers and its broadcast, in an implementation of their own layout and protocol.
//!
//! The originals are Java, and C within Aeron's client, which copies a message in by a call; these
//! have the originals' `tryClaim` and `commit` instead, written and read in place and compiled into
//! the loop. Layout, positions and steps are those of Agrona 2 and Aeron 1.5x: records of an aligned
//! length and a type, a trailer of positions 128 bytes apart behind the data, the head's cache in
//! it, padding at the end. The one-to-one reader leaves its records, as the producer zeroes the next
//! header; the many-to-one reader zeroes what it has read.

mod broadcast;
mod many;
mod one;
mod reader;

pub use broadcast::Broadcast;
pub use many::ManyToOne;
pub use one::OneToOne;

use super::common::{Mapped, Polls, failed};
use super::{About, Home, Setup};
use crate::CompareError;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

const NAME: &str = "agrona";
/// The most messages that a reader takes before it says so: with none, a many-to-one reader zeroes a
/// megabyte at a time, and is slower.
const READ_LIMIT: u64 = 256;
/// A record's length and type.
const HEADER: usize = 8;
const PADDING: i32 = -1;
/// Any type of an application's.
const TYPE: i32 = 1;
const TRAILER: usize = 768;
/// Where the positions are in the trailer. The broadcast has its own three in its beginning.
const TAIL: usize = 128;
const HEAD_CACHE: usize = 256;
const HEAD: usize = 384;

const ONE_READER: &str = "its rings have one reader; several are for its broadcast";
const NO_SLEEP: &str = "nothing wakes its readers: they poll";

/// A mapped buffer.
struct Buffer {
    map: Mapped,
    capacity: usize,
}

impl Buffer {
    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        let capacity = setup.data_size;
        // Its own limit.
        if !capacity.is_power_of_two() || setup.payload as u64 > capacity / 8 {
            let why = format!("no payloads of {} bytes in {capacity}", setup.payload);
            return Err(failed(NAME)(why));
        }
        Mapped::create(path, capacity + TRAILER as u64)
    }

    fn open(path: &Path) -> Result<Self, CompareError> {
        let map = Mapped::open(path)?;
        let capacity = map.len().saturating_sub(TRAILER);
        if capacity < 64 || !capacity.is_power_of_two() {
            return Err(failed(NAME)("not such a buffer"));
        }
        Ok(Buffer { map, capacity })
    }

    /// A position of the trailer's.
    #[inline(always)]
    fn position(&self, offset: usize) -> &AtomicI64 {
        debug_assert!(offset + 8 <= TRAILER);
        // SAFETY: in the trailer, 8-aligned as the capacity is a power of two, and touched by both
        // ends only as this atomic.
        unsafe { &*self.map.base().add(self.capacity + offset).cast::<AtomicI64>() }
    }

    /// A record's length and type.
    #[inline(always)]
    fn header(&self, index: usize) -> (&AtomicI32, &AtomicI32) {
        debug_assert!(index + HEADER <= self.capacity && index.is_multiple_of(8));
        // SAFETY: records begin at multiples of 8 below the capacity, so the length is within the
        // mapping and aligned. It and the type are touched as atomics while both ends may be there.
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

    /// A header that says that nothing is there yet.
    #[inline(always)]
    fn clear_header(&self, index: usize) {
        let (length, kind) = self.header(index);
        length.store(0, Ordering::Relaxed);
        kind.store(0, Ordering::Relaxed);
    }

    /// A record that says that the rest of the buffer is none.
    #[inline]
    fn pad(&self, index: usize, bytes: usize) {
        let (length, kind) = self.header(index);
        kind.store(PADDING, Ordering::Relaxed);
        length.store(bytes as i32, Ordering::Release);
    }
}

/// Bytes that a payload takes.
const fn record(payload: usize) -> usize {
    (payload + HEADER).next_multiple_of(8)
}

/// What is the same for all of them.
fn about(name: &'static str, setup: &Setup, more: &str) -> About {
    About {
        name,
        version: "own version of Agrona 2's protocol".to_owned(),
        home: Home::Processes,
        settings: format!(
            "buffer of {} bytes in a mapped file, {READ_LIMIT} messages a read, {more}",
            setup.data_size
        ),
        waits: Polls::about(setup.pace),
    }
}
