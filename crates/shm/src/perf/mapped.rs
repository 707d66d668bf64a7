//! The kernel's own rings, mapped: it writes its records into them.

use crate::perf::event::{KernelEvent, KernelEvents};
use crate::sys::fork::NotForChildren;
use crate::sys::host::page_size;
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::Header;
use perfring_abi::atomic::AtomicU64;
use perfring_ring::{KernelFrame, KernelReader, ReadError, Ring};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest pause between two looks of a waiting reader: the kernel wakes it for many records
/// only, so that reading makes little of what it reads about.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A ring that the kernel writes: of one processor, for any number of events.
#[derive(Debug)]
pub struct MappedKernel {
    // First, so that it is dropped first: what a forked child is cut off from.
    children: NotForChildren,
    map: MmapRaw,
    page: usize,
    reader: KernelReader,
    events: Arc<KernelEvents>,
}

impl MappedKernel {
    /// Maps a ring that these events write into, which must be of one processor, with a data area of
    /// a power of two of whole pages.
    ///
    /// # Errors
    /// What `mmap(2)` says: `EPERM` where so much memory may not be locked.
    pub fn map(events: Vec<KernelEvent>, data_size: u64) -> io::Result<Self> {
        let page = page_size() as usize;
        let size = usize::try_from(data_size).ok().filter(|size| size.is_power_of_two());
        let len = size.filter(|size| *size >= page).and_then(|size| size.checked_add(page));
        let (Some(len), Some(first)) = (len, events.first()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let map = MmapOptions::new().len(len).map_raw(&first.as_fd())?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let data = NonNull::new(map.as_mut_ptr().wrapping_add(page)).unwrap_or(base);
        let ranges = [(base, page), (data, len - page), (base, 0)];
        let children = NotForChildren::new(ranges, &first.as_fd());
        let damaged = |corrupt| io::Error::other(ReadError::from(corrupt));
        let reader = KernelReader::attach(ring(&map, page)).map_err(damaged)?;
        let events = Arc::new(KernelEvents::of_one_ring(events)?);
        Ok(MappedKernel { children, map, page, reader, events })
    }

    /// The events that write into it.
    #[must_use]
    pub fn events(&self) -> &Arc<KernelEvents> {
        &self.events
    }

    /// A fresh look at how far the kernel is. In a forked child, which has no ring, nothing comes.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`].
    #[inline]
    pub fn poll(&mut self) -> Result<u64, ReadError> {
        match self.children.forked() {
            true => Ok(self.reader.head()),
            false => Ok(self.reader.poll(ring(&self.map, self.page))?),
        }
    }

    /// The record at `cursor`, if one is known of, with its body copied to `body`.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`].
    #[inline]
    pub fn peek(&self, cursor: u64, body: &mut Vec<u64>) -> Result<Option<KernelFrame>, ReadError> {
        if self.children.forked() {
            return Ok(None);
        }
        let ring = ring(&self.map, self.page);
        let Some(frame) = self.reader.peek(ring, cursor)? else { return Ok(None) };
        self.reader.copy(ring, &frame, body);
        Ok(Some(frame))
    }

    /// Hands the space before `pos` back, which is where a record ended.
    #[inline]
    pub fn release(&mut self, pos: u64) {
        if !self.children.forked() {
            self.reader.release(ring(&self.map, self.page), pos);
        }
    }

    /// Up to where the space was handed back.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.reader.released()
    }

    /// `data_head` when last looked at.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.reader.head()
    }

    /// `data_head` now.
    #[must_use]
    pub fn live_head(&self) -> u64 {
        match self.children.forked() {
            true => self.reader.head(),
            false => ring(&self.map, self.page).head(),
        }
    }

    /// Bytes of the data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        (self.map.len() - self.page) as u64
    }

    /// Waits until the kernel has written beyond `cursor`, for at most `timeout`. Returns whether it
    /// has.
    pub fn wait(&self, cursor: u64, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if self.children.forked() || ring(&self.map, self.page).head() != cursor {
                return !self.children.forked();
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return false;
            }
            self.events.poll(left.min(PAUSE_MAX));
        }
    }
}

impl AsFd for MappedKernel {
    /// Of an event that has not ended, for poll: readable once as many bytes are there as were asked
    /// for.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.alive_fd()
    }
}

/// The ring as the algorithm sees it.
#[inline]
fn ring(map: &MmapRaw, page: usize) -> Ring<'_> {
    // SAFETY: the first page is mapped for as long as `map`, page-aligned, and holds at least the
    // 4,096 bytes of a `Header`, which is all atomics: any content is valid, whatever the kernel
    // stores. `perf_event_mmap_page` stands where `Header` has it.
    let header = unsafe { &*map.as_ptr().cast::<Header>() };
    let data = map.as_ptr().wrapping_add(page).cast::<AtomicU64>();
    // SAFETY: the rest of the mapping, which `MappedKernel::map` made a power of two of bytes;
    // aligned; atomics, as above.
    let data = unsafe { slice::from_raw_parts(data, (map.len() - page) / 8) };
    Ring::new(header, data)
}
