//! The control pages and the type table behind them, for both kinds of mapping.

use crate::file::error::AttachError;
use crate::file::open::RingFile;
use crate::map::address_range::DataAccess;
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::Slot;
use perfring_abi::atomic::AtomicU64;
use std::slice;

/// Maps the control pages, and the type table after them.
pub(crate) fn map(ring: &RingFile, access: DataAccess) -> Result<MmapRaw, AttachError> {
    let mut options = MmapOptions::new();
    let control = ring.layout.areas().control;
    let len = control.end - control.start + ring.layout.types_size;
    options.offset(control.start).len(len as usize);
    match access {
        DataAccess::Write => options.map_raw(&ring.file),
        DataAccess::Read => options.map_raw_read_only(&ring.file),
    }
    .map_err(|source| ring.io("mapping its control pages", source))
}

/// Returns the slots in mapped control pages.
///
/// # Safety
/// The control pages, which have room for so many slots, are mapped for `'a`.
#[inline]
pub(crate) unsafe fn slots<'a>(control: *const u8, count: usize) -> &'a [Slot] {
    // SAFETY: the caller's promise; the pages are aligned, and all of a slot is atomics, so any content is valid,
    // whichever process stores there.
    unsafe { slice::from_raw_parts(control.cast::<Slot>(), count) }
}

/// Returns the last `size` bytes before `end` of a mapping, both in whole pages, as words.
pub(crate) fn words_before(map: &MmapRaw, end: usize, size: usize) -> &[AtomicU64] {
    let end = end.min(map.len());
    let start = map.as_ptr().wrapping_add(end.saturating_sub(size));
    let words = size.min(end) / 8;
    // SAFETY: inside the mapping, for as long as it is borrowed; aligned, as both sizes are
    // (`Layout::check`); atomics, so any content is valid, whichever process stores there.
    unsafe { slice::from_raw_parts(start.cast::<AtomicU64>(), words) }
}
