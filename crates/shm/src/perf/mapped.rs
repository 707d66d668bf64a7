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

/// The longest pause between two polls of a waiting reader. The kernel wakes it only after many
/// records, so that reading adds little to what is observed.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A ring that the kernel writes: for one processor, for any number of events.
#[derive(Debug)]
pub struct MappedKernel {
    // First, so that it is dropped first: the registration for forked children.
    children: NotForChildren,
    map: MmapRaw,
    page: usize,
    reader: KernelReader,
    events: Arc<KernelEvents>,
}

impl MappedKernel {
    /// Maps a ring that these events write into. They must be of one processor, and the data area a
    /// power of two of whole pages.
    ///
    /// # Errors
    /// The error of `mmap(2)`: `EPERM` if the limit for locked memory is too low.
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

    /// Returns the events that write into it.
    #[must_use]
    pub fn events(&self) -> &Arc<KernelEvents> {
        &self.events
    }

    /// Polls the kernel's head. In a forked child, which has no ring, it never advances.
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

    /// Returns the record at `cursor`, if one is known, with its body copied to `body`.
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

    /// Releases the space before `pos`, which is the end of a record.
    #[inline]
    pub fn release(&mut self, pos: u64) {
        if !self.children.forked() {
            self.reader.release(ring(&self.map, self.page), pos);
        }
    }

    /// Returns the position up to which space was released.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.reader.released()
    }

    /// Returns `data_head` as of the last poll.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.reader.head()
    }

    /// Loads `data_head`.
    #[must_use]
    pub fn live_head(&self) -> u64 {
        match self.children.forked() {
            true => self.reader.head(),
            false => ring(&self.map, self.page).head(),
        }
    }

    /// Returns the bytes of the data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        (self.map.len() - self.page) as u64
    }

    /// Waits until the kernel has written beyond `cursor`, for at most `timeout`. Returns whether
    /// it has.
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
    /// Returns the descriptor of an event that has not ended, for `poll`: readable once as many
    /// bytes are there as were requested.
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
