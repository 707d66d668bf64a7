//! The part of a ring that a waiter needs.

use crate::file::open::RingFile;
use crate::sys::fork::{self, NotForChildren};
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::Header;
use perfring_abi::atomic::AtomicU32;
use std::io;
use std::ptr::NonNull;

/// A second, read-only mapping of the header page, for the address of its futex. A waiter keeps it,
/// so it stays valid when the consumer is dropped.
#[derive(Debug)]
pub(crate) struct FrontPage {
    // First, so that it is dropped first.
    _children: NotForChildren,
    map: MmapRaw,
}

impl FrontPage {
    pub(crate) fn map(ring: &RingFile) -> io::Result<Self> {
        let len = ring.layout.page_size as usize;
        let _opening = fork::hold_off();
        let map = MmapOptions::new().len(len).map_raw_read_only(&ring.file)?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Ok(FrontPage { _children: NotForChildren::mapping(base, len), map })
    }

    /// Returns the futex word of the consumer. A waiter waits on it and never loads it: if the file
    /// was truncated, a load would raise SIGBUS.
    pub(crate) fn word(&self) -> &AtomicU32 {
        // SAFETY: a whole page is mapped for as long as `self`, aligned, and a `Header` is all
        // atomics, no larger than the smallest page: any content is valid. The reference is made
        // into an address, and nothing is loaded through it.
        &unsafe { &*self.map.as_ptr().cast::<Header>() }.wait.seq
    }
}
