//! The pages of one of the kernel's own rings: it writes its records into them.

use crate::perf::event::{KernelEvent, KernelEvents};
use crate::sys::fork::NotForChildren;
use crate::sys::host::page_size;
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::Header;
use perfring_abi::atomic::AtomicU64;
use perfring_ring::Ring;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

/// What the kernel does in a full ring: it looks at how the pages are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It waits for `data_tail`, which this process stores.
    Refuse,
    /// It writes over the oldest records. The pages are mapped to read only.
    Overwrite,
}

#[derive(Debug)]
pub(crate) struct KernelPages {
    // First, so that it is dropped first: the registration for forked children.
    children: NotForChildren,
    map: MmapRaw,
    page: usize,
    events: Arc<KernelEvents>,
}

impl KernelPages {
    pub(crate) fn map(
        events: Vec<KernelEvent>,
        data_size: u64,
        when_full: WhenFull,
    ) -> io::Result<Self> {
        let page = page_size() as usize;
        let size = usize::try_from(data_size).ok().filter(|size| size.is_power_of_two());
        let len = size.filter(|size| *size >= page).and_then(|size| size.checked_add(page));
        let (Some(len), Some(first)) = (len, events.first()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut options = MmapOptions::new();
        let map = match when_full {
            WhenFull::Refuse => options.len(len).map_raw(&first.as_fd())?,
            WhenFull::Overwrite => options.len(len).map_raw_read_only(&first.as_fd())?,
        };
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let data = NonNull::new(map.as_mut_ptr().wrapping_add(page)).unwrap_or(base);
        let ranges = [(base, page), (data, len - page), (base, 0)];
        let children = NotForChildren::new(ranges, &first.as_fd());
        let events = Arc::new(KernelEvents::of_one_ring(events)?);
        Ok(KernelPages { children, map, page, events })
    }

    pub(crate) fn events(&self) -> &Arc<KernelEvents> {
        &self.events
    }

    /// Returns whether this process is a forked child, which has other pages in their place.
    #[inline(always)]
    pub(crate) fn forked(&self) -> bool {
        self.children.forked()
    }

    /// Returns the bytes of the data area.
    pub(crate) fn data_size(&self) -> u64 {
        (self.map.len() - self.page) as u64
    }

    /// Returns the ring as the algorithm sees it.
    #[inline]
    pub(crate) fn ring(&self) -> Ring<'_> {
        let Self { map, page, .. } = self;
        // SAFETY: the first page is mapped for as long as `map`, page-aligned, and holds at least the
        // 4,096 bytes of a `Header`, which is all atomics: any content is valid, whatever the kernel
        // stores. `perf_event_mmap_page` stands where `Header` has it. Pages that are mapped to read
        // only are only loaded from: `MappedRecorder` stores nothing.
        let header = unsafe { &*map.as_ptr().cast::<Header>() };
        let data = map.as_ptr().wrapping_add(*page).cast::<AtomicU64>();
        // SAFETY: the rest of the mapping, which `KernelPages::map` made a power of two of bytes;
        // aligned; atomics, as above.
        let data = unsafe { slice::from_raw_parts(data, (map.len() - page) / 8) };
        Ring::new(header, data)
    }
}
