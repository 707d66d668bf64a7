//! The kernel's own rings, read by their consumer.

use crate::perf::event::{KernelEvent, KernelEvents};
use crate::perf::pages::{KernelPages, WhenFull};
use perfring_ring::{KernelFrame, KernelReader, ReadError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest pause between two polls of a waiting reader. The kernel wakes it only after many
/// records, so that reading adds little to what is observed.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A ring that the kernel writes: for one processor, for any number of events.
#[derive(Debug)]
pub struct MappedKernel {
    pages: KernelPages,
    reader: KernelReader,
}

impl MappedKernel {
    /// Maps a ring that these events write into. They must be of one processor, and the data area a
    /// power of two of whole pages.
    ///
    /// # Errors
    /// The error of `mmap(2)`: `EPERM` if the limit for locked memory is too low.
    pub fn map(events: Vec<KernelEvent>, data_size: u64) -> io::Result<Self> {
        let pages = KernelPages::map(events, data_size, WhenFull::Refuse)?;
        let damaged = |corrupt| io::Error::other(ReadError::from(corrupt));
        let reader = KernelReader::attach(pages.ring()).map_err(damaged)?;
        Ok(MappedKernel { pages, reader })
    }

    /// Returns the events that write into it.
    #[must_use]
    pub fn events(&self) -> &Arc<KernelEvents> {
        self.pages.events()
    }

    /// Polls the kernel's head. In a forked child, which has no ring, it never advances.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`].
    #[inline]
    pub fn poll(&mut self) -> Result<u64, ReadError> {
        match self.pages.forked() {
            true => Ok(self.reader.head()),
            false => Ok(self.reader.poll(self.pages.ring())?),
        }
    }

    /// Returns the record at `cursor`, if one is known, with its body copied to `body`.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`].
    #[inline]
    pub fn peek(&self, cursor: u64, body: &mut Vec<u64>) -> Result<Option<KernelFrame>, ReadError> {
        if self.pages.forked() {
            return Ok(None);
        }
        let ring = self.pages.ring();
        let Some(frame) = self.reader.peek(ring, cursor)? else { return Ok(None) };
        self.reader.copy(ring, &frame, body);
        Ok(Some(frame))
    }

    /// Releases the space before `pos`, which is the end of a record.
    #[inline]
    pub fn release(&mut self, pos: u64) {
        if !self.pages.forked() {
            self.reader.release(self.pages.ring(), pos);
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
        match self.pages.forked() {
            true => self.reader.head(),
            false => self.pages.ring().head(),
        }
    }

    /// Returns the bytes of the data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.pages.data_size()
    }

    /// Waits until the kernel has written beyond `cursor`, for at most `timeout`. Returns whether
    /// it has.
    pub fn wait(&self, cursor: u64, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if self.pages.forked() || self.pages.ring().head() != cursor {
                return !self.pages.forked();
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return false;
            }
            self.events().poll(left.min(PAUSE_MAX));
        }
    }
}

impl AsFd for MappedKernel {
    /// Returns the descriptor of an event that has not ended, for `poll`: readable once as many
    /// bytes are there as were requested.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events().alive_fd()
    }
}
