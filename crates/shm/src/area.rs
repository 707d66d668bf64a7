//! The mapping of the AUX area: twice in a row, as the data area is, so that a payload that wraps is
//! in one piece.

use crate::AttachError;
use crate::file::RingFile;
use crate::map::{DataAccess, POPULATE_MAX, Reservation};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use perfring_abi::atomic::AtomicU64;
use perfring_ring::Range;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;

/// The AUX area of a ring that has one.
#[derive(Debug)]
pub(crate) struct Area {
    base: NonNull<u8>,
    size: usize,
}

impl Area {
    pub(crate) fn map(ring: &RingFile, access: DataAccess) -> Result<Option<Self>, AttachError> {
        let layout = &ring.layout;
        let failed = |errno: nix::errno::Errno| ring.io("mapping its AUX area", errno.into());
        let too_big = || failed(nix::errno::Errno::ENOMEM);
        let size = usize::try_from(layout.aux_size).map_err(|_| too_big())?;
        let Some(size) = NonZeroUsize::new(size) else {
            return Ok(None);
        };
        let len = size.get().checked_mul(2).ok_or_else(too_big)?;
        let reserved = Reservation::new(len).map_err(failed)?;
        let prot = match access {
            DataAccess::Write => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            DataAccess::Read => ProtFlags::PROT_READ,
        };
        let mut flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        if layout.aux_size <= POPULATE_MAX {
            flags |= MapFlags::MAP_POPULATE;
        }
        for at in [0, size.get()] {
            let to = NonZeroUsize::new(reserved.base().as_ptr() as usize + at);
            // SAFETY: both ranges lie inside the one reserved above, which nobody else knows of. The
            // file is long enough, as in `Mirror::map`.
            unsafe { mmap(to, size, prot, flags, &ring.file, layout.aux_offset() as i64) }
                .map_err(failed)?;
        }
        Ok(Some(Area { base: reserved.keep(), size: size.get() }))
    }

    /// Where a payload begins. Up to the area's size of bytes from there on are mapped.
    #[inline]
    pub(crate) fn at(&self, pos: u64) -> NonNull<u8> {
        // SAFETY: the offset is less than `size`, a power of two (`Layout::check`), of which twice is
        // mapped.
        unsafe { self.base.add(pos as usize & (self.size - 1)) }
    }

    /// The payload's bytes, or none if it is longer than the area: no reservation is, and no record
    /// that a reader has checked.
    pub(crate) fn bytes(&self, range: Range) -> NonNull<[u8]> {
        let len = if range.len <= self.size { range.len } else { 0 };
        NonNull::slice_from_raw_parts(self.at(range.at), len)
    }

    /// The area once, for who copies from it.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as `self`, page-aligned, all atomics: any content is valid
        // whoever stores there. Through a read-only mapping nobody stores: observers only load.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast::<AtomicU64>(), self.size / 8) }
    }

    /// What is mapped.
    pub(crate) fn range(&self) -> (NonNull<u8>, usize) {
        (self.base, 2 * self.size)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        drop(Reservation::of(self.base, 2 * self.size));
    }
}
