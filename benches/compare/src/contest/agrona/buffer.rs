//! The mapped buffer of all three, its trailer of positions, and its records.

use crate::contest::mapped::Mapped;
use perfring_bench::Result;
use perfring_bench::contestant::{About, Location, Setup};
use perfring_bench::error::failed;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// Its name in errors.
const NAME: &str = "agrona";
/// The largest payload, whatever the buffer.
pub(super) const PAYLOAD: usize = 1 << 24;
/// A record's length and type.
pub(super) const HEADER: usize = 8;
pub(super) const PADDING: i32 = -1;
/// Any type of the application's range.
pub(super) const TYPE: i32 = 1;
/// Bytes behind the data: those of the rings, of which the broadcast uses the first.
const TRAILER: usize = 768;

pub(super) const NO_SLEEP: &str = "nothing wakes its readers: they poll";

/// Returns the bytes that a payload uses.
pub(super) const fn record(payload: usize) -> usize {
    (payload + HEADER).next_multiple_of(8)
}

/// Describes one of the three.
pub(super) fn about(setup: &Setup, how: &str) -> About {
    About {
        version: "own version of Agrona 2's protocol".to_owned(),
        location: Location::Processes,
        settings: format!("buffer of {} bytes in a mapped file, {how}", setup.data_size),
        waits: setup.pace.polls(),
    }
}

/// A mapped buffer.
pub(super) struct Buffer {
    map: Mapped,
    pub(super) capacity: usize,
}

impl Buffer {
    pub(super) fn create(path: &Path, setup: &Setup) -> Result<()> {
        let capacity = setup.data_size;
        // Its own limit.
        if !capacity.is_power_of_two() || setup.payload as u64 > capacity / 8 {
            let why = format!("no payloads of {} bytes in {capacity}", setup.payload);
            return Err(failed(NAME)(why));
        }
        Mapped::create(path, capacity + TRAILER as u64)
    }

    pub(super) fn open(path: &Path) -> Result<Self> {
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

    /// Writes a padding record over the rest of the buffer.
    #[inline]
    pub(super) fn pad(&self, index: usize, bytes: usize) {
        let (length, kind) = self.header(index);
        kind.store(PADDING, Ordering::Relaxed);
        length.store(bytes as i32, Ordering::Release);
    }

    /// Zeroes records.
    ///
    /// # Safety
    /// They are within the buffer, and no other end reads or writes them meanwhile.
    #[inline(always)]
    pub(super) unsafe fn zero(&self, start: usize, bytes: usize) {
        debug_assert!(start + bytes <= self.capacity);
        // SAFETY: as the caller promises.
        unsafe { self.map.base().add(start).write_bytes(0, bytes) };
    }
}
