//! A file that both ends map.

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use perfring_bench::error::system;
use perfring_bench::{BenchError, Result};
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::NonNull;

/// A file that is mapped for writing.
pub(crate) struct Mapped {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; its owner proves its accesses.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Creates the file, all zeros, with its space allocated.
    pub(crate) fn create(path: &Path, len: u64) -> Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let bytes = i64::try_from(len).map_err(|_| BenchError::Usage(format!("{len} bytes")))?;
        nix::fcntl::posix_fallocate(&file, 0, bytes).map_err(system("posix_fallocate"))
    }

    /// Maps a whole file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let len = usize::try_from(file.metadata()?.len()).ok().and_then(NonZeroUsize::new);
        let len = len.ok_or_else(|| BenchError::Usage("an empty file".to_owned()))?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap(None, len, prot, flags, &file, 0) }.map_err(system("mmap"))?;
        Ok(Mapped { base: base.cast(), len: len.get() })
    }

    /// Returns its first byte; it is mapped for as long as this lives.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns its length.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this mapping, whose pointers do not outlive it.
        let _ = unsafe { munmap(self.base.cast::<c_void>(), self.len) };
    }
}
