//! Ranges of addresses into which parts of a ring's file are mapped.

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Parts up to this size are faulted in when they are mapped, so that the first lap is as fast as
/// later ones.
const POPULATE_MAX: usize = 16 << 20;

/// The size of a huge page, on x86-64 and on aarch64 with small pages of 4 KiB.
pub(crate) const HUGE: usize = 2 << 20;

/// Access of a mapping to the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataAccess {
    Write,
    Read,
}

/// A reserved range of addresses, in whole pages, with its mappings. It is unmapped when dropped.
#[derive(Debug)]
pub(crate) struct AddressRange {
    base: NonNull<c_void>,
    pub(super) len: usize,
}

impl AddressRange {
    /// Reserves a range in which nothing is mapped. A large range begins at a multiple of a huge
    /// page, so that a file mapped at its beginning can have huge pages.
    pub(crate) fn new(len: usize) -> Result<Self, Errno> {
        let slack = if len >= HUGE { HUGE } else { 0 };
        let size = len.checked_add(slack).and_then(NonZeroUsize::new).ok_or(Errno::ENOMEM)?;
        // SAFETY: a new private range at an address of the kernel's choice touches nothing of ours.
        let base =
            unsafe { mmap_anonymous(None, size, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) }?;
        if slack == 0 {
            return Ok(AddressRange { base, len });
        }
        let head = (base.as_ptr() as usize).next_multiple_of(HUGE) - base.as_ptr() as usize;
        // SAFETY: `head` is less than the slack, so this is inside the range.
        let kept = unsafe { base.byte_add(head) };
        // SAFETY: as above, for what follows it by `len`.
        let end = unsafe { kept.byte_add(len) };
        if head > 0 {
            // SAFETY: the first part of what was mapped above, to which there is no reference.
            unsafe { munmap(base, head) }?;
        }
        if slack > head {
            // SAFETY: as above, the last part. Both are whole pages, as the kernel rounds lengths up.
            unsafe { munmap(end, slack - head) }?;
        }
        Ok(AddressRange { base: kept, len })
    }

    /// Maps `len` bytes of a file, from `offset` on, at `at` bytes from the beginning of the range.
    pub(crate) fn map(
        &mut self,
        (at, len): (usize, usize),
        file: &File,
        offset: u64,
        access: DataAccess,
    ) -> Result<(), Errno> {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        let to = NonZeroUsize::new(self.base.as_ptr() as usize + at);
        let len = NonZeroUsize::new(len).filter(|_| inside).ok_or(Errno::ENOMEM)?;
        let prot = match access {
            DataAccess::Write => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            DataAccess::Read => ProtFlags::PROT_READ,
        };
        let mut flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        if len.get() <= POPULATE_MAX {
            flags |= MapFlags::MAP_POPULATE;
        }
        // SAFETY: inside this range, to which there is no reference while it is borrowed mutably,
        // so what MAP_FIXED replaces is ours. The file is long enough: `Layout::check` compared its
        // length, and this code never truncates it. (A process that does makes access fault with
        // SIGBUS, as with any file mapping.)
        unsafe { mmap(to, len, prot, flags, file, offset as i64) }.map(drop)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base.cast()
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        // SAFETY: the range was reserved with this length, and nothing refers into it: the owner is
        // being dropped.
        let _ = unsafe { munmap(self.base, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ranges_begin_at_a_huge_page() {
        for len in [4096, HUGE, 5 * HUGE + 4096] {
            let range = AddressRange::new(len).unwrap();
            assert!(len < HUGE || (range.base().as_ptr() as usize).is_multiple_of(HUGE));
        }
    }
}
