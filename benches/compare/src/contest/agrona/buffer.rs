//! The mapped buffer of all three, its trailer of positions, and its records.

use crate::CompareError;
use crate::contest::mapped::Mapped;
use crate::contest::waits::Polls;
use crate::contestant::{About, Location, Setup, failed};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

pub(super) const NAME: &str = "agrona";
/// The most messages that a reader takes before it stores its position: without a limit, a
/// many-to-one reader zeroes a megabyte at a time, and is slower.
pub(super) const READ_LIMIT: u64 = 256;
/// A record's length and type.
pub(super) const HEADER: usize = 8;
pub(super) const PADDING: i32 = -1;
/// Any type of the application's range.
pub(super) const TYPE: i32 = 1;
pub(super) const TRAILER: usize = 768;
/// The offsets of the positions in the trailer. The broadcast has its own three at its beginning.
pub(super) const TAIL: usize = 128;
pub(super) const HEAD_CACHE: usize = 256;
pub(super) const HEAD: usize = 384;

pub(super) const ONE_READER: &str = "its rings have one reader; several are for its broadcast";
pub(super) const NO_SLEEP: &str = "nothing wakes its readers: they poll";

/// A mapped buffer.
pub(super) struct Buffer {
    pub(super) map: Mapped,
    pub(super) capacity: usize,
}

impl Buffer {
    pub(super) fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        let capacity = setup.data_size;
        // Its own limit.
        if !capacity.is_power_of_two() || setup.payload as u64 > capacity / 8 {
            let why = format!("no payloads of {} bytes in {capacity}", setup.payload);
            return Err(failed(NAME)(why));
        }
        Mapped::create(path, capacity + TRAILER as u64)
    }

    pub(super) fn open(path: &Path) -> Result<Self, CompareError> {
        let map = Mapped::open(path)?;
        let capacity = map.len().saturating_sub(TRAILER);
        if capacity < 64 || !capacity.is_power_of_two() {
            return Err(failed(NAME)("not such a buffer"));
        }
        Ok(Buffer { map, capacity })
    }

    /// Returns a position of the trailer.
    #[inline(always)]
    pub(super) fn position(&self, offset: usize) -> &AtomicI64 {
        debug_assert!(offset + 8 <= TRAILER);
        // SAFETY: in the trailer, 8-aligned as the capacity is a power of two, and accessed by both
        // ends only as this atomic.
        unsafe { &*self.map.base().add(self.capacity + offset).cast::<AtomicI64>() }
    }

    /// A record's length and type.
    #[inline(always)]
    pub(super) fn header(&self, index: usize) -> (&AtomicI32, &AtomicI32) {
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
    pub(super) fn payload<const N: usize>(&self, index: usize) -> *mut [u8; N] {
        debug_assert!(index + HEADER + N <= self.capacity);
        // SAFETY: a record does not wrap, so its payload is within the mapping.
        unsafe { self.map.base().add(index + HEADER).cast() }
    }

    #[inline(always)]
    pub(super) fn index(&self, position: i64) -> usize {
        position as usize & (self.capacity - 1)
    }

    /// Writes a header that marks a record as not present yet.
    #[inline(always)]
    pub(super) fn clear_header(&self, index: usize) {
        let (length, kind) = self.header(index);
        length.store(0, Ordering::Relaxed);
        kind.store(0, Ordering::Relaxed);
    }

    /// Writes a padding record over the rest of the buffer.
    #[inline]
    pub(super) fn pad(&self, index: usize, bytes: usize) {
        let (length, kind) = self.header(index);
        kind.store(PADDING, Ordering::Relaxed);
        length.store(bytes as i32, Ordering::Release);
    }
}

/// Returns the bytes that a payload uses.
pub(super) const fn record(payload: usize) -> usize {
    (payload + HEADER).next_multiple_of(8)
}

/// Returns the common part of the descriptions.
pub(super) fn about(name: &'static str, setup: &Setup, more: &str) -> About {
    About {
        name,
        version: "own version of Agrona 2's protocol".to_owned(),
        location: Location::Processes,
        settings: format!(
            "buffer of {} bytes in a mapped file, {READ_LIMIT} messages a read, {more}",
            setup.data_size
        ),
        waits: Polls::about(setup.pace),
    }
}
