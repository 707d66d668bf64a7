//! What a waiter needs of a ring.

use crate::file::open::RingFile;
use crate::sys::fork::NotForChildren;
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::Header;
use perfring_abi::atomic::AtomicU32;
use std::io;
use std::ptr::NonNull;

/// The header page once more, read-only, of which a waiter knows the futex: nobody has to ask
/// whether the consumer still lives.
#[derive(Debug)]
pub(crate) struct FrontPage {
    // First, so that it is dropped first.
    _children: NotForChildren,
    map: MmapRaw,
}

impl FrontPage {
    pub(crate) fn map(ring: &RingFile) -> io::Result<Self> {
        let len = ring.layout.page_size as usize;
        let map = MmapOptions::new().len(len).map_raw_read_only(&ring.file)?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Ok(FrontPage { _children: NotForChildren::mapping(base, len), map })
    }

    /// What a consumer sleeps on. It is waited for, and never loaded: a file that somebody has cut
    /// short would end the waiter.
    pub(crate) fn word(&self) -> &AtomicU32 {
        // SAFETY: a whole page is mapped for as long as `self`, aligned, and a `Header` is all
        // atomics, no larger than the smallest page: any content is valid. The reference is made
        // into an address, and nothing is loaded through it.
        &unsafe { &*self.map.as_ptr().cast::<Header>() }.wait.seq
    }
}
