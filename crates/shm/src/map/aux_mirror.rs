//! The mapping of the AUX area: twice in a row, like the data area, so that a payload that wraps is
//! contiguous.

use crate::file::error::AttachError;
use crate::file::open::RingFile;
use crate::map::address_range::{AddressRange, DataAccess};
use nix::errno::Errno;
use perfring_abi::atomic::AtomicU64;
use perfring_ring::AuxRange;
use std::ptr::NonNull;
use std::slice;

/// The AUX area of a ring that has one.
#[derive(Debug)]
pub(crate) struct AuxMirror {
    range: AddressRange,
    size: usize,
}

impl AuxMirror {
    pub(crate) fn map(ring: &RingFile, access: DataAccess) -> Result<Option<Self>, AttachError> {
        let layout = &ring.layout;
        if layout.aux_size == 0 {
            return Ok(None);
        }
        let size = usize::try_from(layout.aux_size).map_err(|_| Errno::ENOMEM);
        let mapped = size.and_then(|size| {
            let mut range = AddressRange::new(size.checked_mul(2).ok_or(Errno::ENOMEM)?)?;
            for at in [0, size] {
                range.map((at, size), &ring.file, layout.areas().aux.start, access)?;
            }
            Ok(AuxMirror { range, size })
        });
        mapped.map(Some).map_err(|errno| ring.io("mapping its AUX area", errno.into()))
    }

    /// Returns the address of a payload. As many bytes as the area has are mapped from there on.
    #[inline]
    pub(crate) fn at(&self, pos: u64) -> NonNull<u8> {
        // SAFETY: the offset is less than `size`, a power of two (`Layout::check`), of which twice is
        // mapped.
        unsafe { self.range.base().add(pos as usize & (self.size - 1)) }
    }

    /// Returns the payload's bytes; none if it is longer than the area, which no reservation is,
    /// and no record that a reader has checked.
    pub(crate) fn bytes(&self, range: AuxRange) -> NonNull<[u8]> {
        let len = if range.len <= self.size { range.len } else { 0 };
        NonNull::slice_from_raw_parts(self.at(range.at), len)
    }

    /// Returns the area once, for readers that copy.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let base = self.range.base().as_ptr().cast::<AtomicU64>();
        // SAFETY: mapped for as long as `self`, page-aligned, all atomics: any content is valid,
        // whichever process stores there. Through a read-only mapping this process stores nothing:
        // observers only load.
        unsafe { slice::from_raw_parts(base, self.size / 8) }
    }

    /// Returns the mapped range.
    pub(crate) fn range(&self) -> (NonNull<u8>, usize) {
        (self.range.base(), self.range.len)
    }
}
