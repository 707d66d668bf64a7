//! The kernel's own rings in overwrite mode.

use crate::perf::event::{KernelEvent, KernelEvents};
use crate::perf::pages::{KernelPages, WhenFull};
use perfring_ring::{KernelCopy, ReadError};
use std::io;
use std::sync::Arc;

/// A ring that the kernel writes in overwrite mode (`write_backward`): for one processor, for any
/// number of events.
#[derive(Debug)]
pub struct MappedRecorder {
    pages: KernelPages,
    /// The kernel's output is paused, because the end of the last pause has failed.
    is_paused: bool,
}

impl MappedRecorder {
    /// Maps a ring that these events write into: events of [`KernelEventSpec::overwrite`], of one
    /// processor. The data area must be a power of two of whole pages.
    ///
    /// [`KernelEventSpec::overwrite`]: crate::KernelEventSpec::overwrite
    ///
    /// # Errors
    /// The error of `mmap(2)`: `EPERM` if the limit for locked memory is too low.
    pub fn map(events: Vec<KernelEvent>, data_size: u64) -> io::Result<Self> {
        let pages = KernelPages::map(events, data_size, WhenFull::Overwrite)?;
        Ok(MappedRecorder { pages, is_paused: false })
    }

    /// Returns the events that write into it.
    #[must_use]
    pub fn events(&self) -> &Arc<KernelEvents> {
        self.pages.events()
    }

    /// Copies what the ring holds. The kernel writes nothing into the ring meanwhile, and counts what
    /// it would have written. A forked child has no ring, and its copy is empty.
    ///
    /// Exclusive, because the end of one copy lets the kernel write again. If that fails, the copy is good, and the next call
    /// tries it again first.
    ///
    /// # Errors
    /// The error of `ioctl(2)`, or [`ReadError::Corrupt`] if the ring's head is where no kernel
    /// leaves it.
    pub fn copy(&mut self) -> io::Result<KernelCopy> {
        if self.pages.forked() {
            return Ok(KernelCopy::default());
        }
        if self.is_paused {
            self.events().pause_output(false)?;
        }
        let ring = self.pages.ring();
        // The copy's memory is there before the pause, which is to be short.
        let mut copy = KernelCopy::with_room(ring.data_size());
        self.events().pause_output(true)?;
        let copied = copy.take(ring);
        self.is_paused = self.events().pause_output(false).is_err();
        copied.map_err(|corrupt| io::Error::other(ReadError::from(corrupt)))?;
        Ok(copy)
    }

    /// Returns the bytes of the data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.pages.data_size()
    }
}
