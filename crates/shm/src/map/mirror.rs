//! The mirror: a mapping in which every record is contiguous.

use crate::file::allocate::fill_holes;
use crate::file::error::AttachError;
use crate::file::open::RingFile;
use crate::map::address_range::{AddressRange, DataAccess};
use crate::map::aux_mirror::AuxMirror;
use crate::map::control::{self, slots, words_before};
use crate::map::loan::Loan;
use crate::sys::copy::copy_fresh;
use crate::sys::host::page_size;
use crate::sys::sigbus::SigbusGuard;
use memmap2::MmapRaw;
use nix::errno::Errno;
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{Header, Slot};
use perfring_ring::{AuxRange, Frame, Ring, Shared, Site, TypeTableArea, TypeTableWriter};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

/// Header, data, and the data once more, so that a record that wraps is contiguous.
#[derive(Debug)]
pub(crate) struct Mirror {
    // Before the range that it guards, so that it is dropped first.
    pub(super) guard: SigbusGuard,
    range: AddressRange,
    data: NonNull<u8>,
    data_size: usize,
    /// The control pages, and after them the type table.
    control: MmapRaw,
    slots: usize,
    types_size: usize,
    pub(super) aux: Option<AuxMirror>,
    /// The memory that reservations lend if other users may write the file.
    loan: Option<Loan>,
}

// SAFETY: the mapping belongs to no thread. All access to shared memory through `&Mirror` is by
// atomics, except for payload bytes, which are handed out against `&mut` of the one writer or
// reader that owns the mirror.
unsafe impl Send for Mirror {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mirror {}

impl Mirror {
    /// Maps a ring for a process that writes it, a consumer or a producer, once all of its pages are there.
    pub(crate) fn map(ring: &RingFile, access: DataAccess) -> Result<Self, AttachError> {
        fill_holes(ring)?;
        let host = page_size();
        let page = u64::from(ring.layout.page_size);
        if !page.is_multiple_of(host) {
            let (location, ring) = (ring.location.clone(), ring.layout.page_size);
            return Err(AttachError::PageSize { location, ring, host });
        }
        let (range, data_size) = map_data(ring, page as usize, access)
            .map_err(|errno| ring.io("mapping it", errno.into()))?;
        let control = control::map(ring, access)?;
        let aux = AuxMirror::map(ring, access)?;
        // SAFETY: a page is less than the range, so the sum stays inside it.
        let data = unsafe { range.base().add(page as usize) };
        let slots = ring.layout.slots as usize;
        let types_size = ring.layout.types_size as usize;
        let guard = SigbusGuard::default();
        let mut map =
            Mirror { guard, range, data, data_size, control, slots, types_size, aux, loan: None };
        map.guard = SigbusGuard::new(map.ranges(), access == DataAccess::Write, ring.watched());
        Ok(map)
    }

    /// From now on reservations lend private memory.
    pub(crate) fn lend(&mut self, ring: &RingFile) -> Result<(), AttachError> {
        let loan = Loan::new(&ring.layout)
            .map_err(|source| ring.io("mapping memory for its reservations", source))?;
        self.loan = Some(loan);
        Ok(())
    }

    /// The ring as the algorithm sees it.
    #[inline]
    pub(crate) fn ring(&self) -> Ring<'_> {
        // SAFETY: the first page is mapped for as long as `self`, page-aligned, at least the 4,096
        // bytes of a `Header`, which is all atomics: any content is valid, and whatever another
        // process stores there is an atomic store to us.
        let header = unsafe { self.range.base().cast::<Header>().as_ref() };
        // SAFETY: `data_size` bytes from `data` on are mapped for as long as `self` and aligned;
        // atomics, as above. Through a read-only mapping the algorithm only loads.
        let data = unsafe {
            slice::from_raw_parts(self.data.as_ptr().cast::<AtomicU64>(), self.data_size / 8)
        };
        // `Layout::check` verified that the size is a power of two of whole pages.
        Ring::new(header, data)
    }

    /// Returns the address of the header page.
    pub(crate) fn base(&self) -> *const u8 {
        self.range.base().as_ptr()
    }

    /// Returns the two copies of the data.
    pub(crate) fn data_ranges(&self) -> [(NonNull<u8>, usize); 2] {
        // SAFETY: the second copy begins where the first ends, inside the reserved range.
        let second = unsafe { self.data.add(self.data_size) };
        [(self.data, self.data_size), (second, self.data_size)]
    }

    #[inline]
    fn at(&self, pos: u64) -> *mut u8 {
        self.sight().at(pos)
    }

    /// Returns the address of a reservation's payload.
    #[inline(always)]
    fn payload_at(&self, site: Site) -> *mut u8 {
        if site.is_elsewhere() { self.elsewhere(site) } else { self.at(site.payload_pos()) }
    }

    #[cold]
    #[inline(never)]
    fn elsewhere(&self, site: Site) -> *mut u8 {
        let (settled, is_lent) = (site.settled(), site.is_lent());
        // Without an area no writer makes such a reservation. Without memory to lend no writer marks one as lent.
        let at = match (settled.aux_pos(), is_lent) {
            (Some(pos), false) => self.aux.as_ref().map(|aux| aux.at(pos)),
            (Some(pos), true) => self.loan.as_ref().map(|loan| loan.of_aux(pos)),
            (None, _) => self.loan.as_ref().map(|loan| loan.of_data(settled.payload_pos())),
        };
        at.unwrap_or(NonNull::dangling()).as_ptr()
    }

    /// Returns whether reservations of this mapping lend private memory.
    pub(crate) fn lends(&self) -> bool {
        self.loan.is_some()
    }

    /// Copies the first `len` bytes of a reservation that is lent to its place in the ring. Does nothing for any other.
    ///
    /// # Safety
    /// As for [`Mirror::zero_last_word`], and `len` is no more than was reserved.
    #[inline(always)]
    pub(crate) unsafe fn settle(&self, site: Site, len: usize) {
        if site.is_elsewhere() {
            // SAFETY: the caller's promise, passed on.
            unsafe { self.settle_elsewhere(site, len) };
        }
    }

    /// # Safety
    /// As for [`Mirror::settle`].
    #[cold]
    #[inline(never)]
    unsafe fn settle_elsewhere(&self, site: Site, len: usize) {
        if site.is_lent() {
            let lent = self.open_bytes(site, len);
            // SAFETY: the memory is this mapping's own, this part of it the reservation's, and no slice that can be
            // written is left, by the caller's promise.
            let lent = unsafe { lent.as_ref() };
            // SAFETY: the same promise; the payload is as long as this part of the reservation.
            unsafe { self.fill_open(site.settled(), lent) };
        }
    }

    /// Returns the bytes of an open reservation of so many bytes. Readers may load them while it is open.
    #[inline(always)]
    pub(crate) fn open_bytes(&self, site: Site, len: usize) -> NonNull<[u8]> {
        // A writer reserves at most `data_size - 8` bytes with the header, so the slice ends inside
        // the second copy of the data; and in the AUX area at most all of it. The bytes are
        // initialised: a file's are.
        let at = self.payload_at(site);
        // SAFETY: `at` points into a mapping, which is not at address zero.
        let at = unsafe { NonNull::new_unchecked(at) };
        NonNull::slice_from_raw_parts(at, len)
    }

    /// Copies a payload into an open reservation, and zeroes the padding.
    ///
    /// # Safety
    /// As for [`Mirror::zero_last_word`], and the payload is as long as the reservation.
    #[inline(always)]
    pub(crate) unsafe fn fill_open(&self, site: Site, payload: &[u8]) {
        let to = if site.is_elsewhere() {
            self.elsewhere(site)
        } else {
            // SAFETY: the caller's promise, passed on.
            unsafe { self.zero_last_word_here(site, payload.len()) };
            self.at(site.payload_pos())
        };
        // SAFETY: as in `open_bytes`. The payload is not in this mapping: a reader has one of its
        // own, and its records are pinned, so no part of what is free.
        unsafe { copy_fresh(payload.as_ptr(), to, payload.len()) };
    }

    /// Zeroes a reservation's last word if it is to hold padding, so that no record carries bytes
    /// of another. To be called before the payload is written.
    ///
    /// # Safety
    /// The reservation is an open one, of `len` bytes, of a writer of this very mirror, which is mapped writable, and no
    /// slice of it lives.
    #[inline(always)]
    pub(crate) unsafe fn zero_last_word(&self, site: Site, len: usize) {
        // No reader takes the bytes after a payload in the AUX area for a part of its record. Lent bytes are padded
        // when they are settled.
        if !site.is_elsewhere() {
            // SAFETY: the caller's promise, passed on.
            unsafe { self.zero_last_word_here(site, len) };
        }
    }

    /// See [`Mirror::zero_last_word`], for a payload in the data area.
    ///
    /// # Safety
    /// The same.
    #[inline(always)]
    unsafe fn zero_last_word_here(&self, site: Site, len: usize) {
        if len & 7 != 0 {
            let at = self.at(site.payload_pos() + (len as u64 & !7));
            // SAFETY: a record's size is a multiple of eight, so the word belongs to the same
            // reservation, and it is aligned.
            unsafe { at.cast::<u64>().write(0) };
        }
    }

    /// Zeroes the padding of a payload that turned out shorter than its reservation.
    ///
    /// # Safety
    /// As for [`Mirror::zero_last_word`]; `len` is no more than was reserved.
    #[inline]
    pub(crate) unsafe fn zero_padding(&self, site: Site, len: usize) {
        if len & 7 == 0 || site.is_elsewhere() {
            return;
        }
        // Payloads begin at a multiple of eight. One word, as a call of `memset` costs more.
        let word = self.at(site.payload_pos() + (len as u64 & !7)).cast::<[u8; 8]>();
        // SAFETY: the last word of the payload belongs to the same reservation.
        let mut bytes = unsafe { word.read() };
        bytes[len & 7..].fill(0);
        // SAFETY: as above.
        unsafe { word.write(bytes) };
    }

    /// Returns the payload of a record that the protocol pins, in place.
    ///
    /// # Safety
    /// The frame was found before an acquired head, and the tail is not moved past it while the
    /// slice lives.
    #[inline]
    pub(crate) unsafe fn pinned(&self, frame: &Frame) -> &[u8] {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.sight().pinned(frame) }
    }

    /// Returns the payload of a pinned record in the AUX area, in place.
    ///
    /// # Safety
    /// As for [`Mirror::pinned`], and `aux_tail` is not moved past it either.
    pub(crate) unsafe fn pinned_range(&self, range: AuxRange) -> &[u8] {
        let Some(aux) = &self.aux else { return &[] };
        // SAFETY: `bytes` stays inside the mapping. They are initialised: a file's are. Every store
        // to them happened before the head was published (A, B), and no producer of ours stores
        // there before `aux_tail` has passed (C, D): the algorithm found the range between that and
        // a whole area beyond. A process that breaks the protocol can; see the crate's documentation.
        unsafe { aux.bytes(range).as_ref() }
    }

    /// Returns the AUX area for readers that copy; empty for a ring without an area.
    pub(crate) fn aux(&self) -> &[AtomicU64] {
        self.aux.as_ref().map_or(&[], AuxMirror::words)
    }

    /// Returns whole pinned records in place: `frame.len` bytes from the first one's header on.
    ///
    /// # Safety
    /// As for [`Mirror::pinned`], for all of them.
    #[inline]
    pub(crate) unsafe fn pinned_records(&self, frame: &Frame) -> &[u8] {
        let at = self.at(frame.pos);
        // SAFETY: as in `Sight::pinned`.
        unsafe { slice::from_raw_parts(at, frame.len) }
    }

    /// Prefetches the cache line at `pos`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, pos: u64) {
        self.sight().prefetch(pos);
    }

    /// Returns by value the fields that a loop over records needs: the mirror's own fields would
    /// be loaded again after every store.
    #[inline(always)]
    pub(crate) fn sight(&self) -> Sight<'_> {
        Sight { data: self.data, mask: self.data_size - 1, mirror: PhantomData }
    }

    /// Returns the producers' slots.
    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        // SAFETY: the control pages are mapped as long as `self`, and `Layout::check` has found room for so many slots.
        unsafe { slots(self.control.as_ptr(), self.slots) }
    }

    /// Returns the ring and its slots.
    #[inline]
    pub(crate) fn shared(&self) -> Shared<'_> {
        Shared::new(self.ring(), self.slots())
    }

    /// Returns the type table.
    pub(crate) fn types(&self) -> TypeTableArea<'_> {
        TypeTableArea::new(words_before(&self.control, self.control.len(), self.types_size))
    }

    /// Returns the type table of a mirror that is mapped with [`DataAccess::Write`].
    pub(crate) fn types_to_write(&self) -> TypeTableWriter<'_> {
        TypeTableWriter::new(words_before(&self.control, self.control.len(), self.types_size))
    }

    /// Returns the mapped ranges: the header and the data twice, the control pages, and the AUX
    /// area twice.
    pub(crate) fn ranges(&self) -> [(NonNull<u8>, usize); 3] {
        let control = NonNull::new(self.control.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let aux = self.aux.as_ref().map_or((NonNull::dangling(), 0), AuxMirror::range);
        [(self.range.base(), self.range.len), (control, self.control.len()), aux]
    }
}

/// See [`Mirror::sight`].
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    data: NonNull<u8>,
    mask: usize,
    mirror: PhantomData<&'a Mirror>,
}

impl<'a> Sight<'a> {
    #[inline(always)]
    fn at(self, pos: u64) -> *mut u8 {
        // SAFETY: the offset is less than the data's size, so the sum stays inside the mapping.
        unsafe { self.data.as_ptr().add(pos as usize & self.mask) }
    }

    /// Prefetches the cache line at `pos`.
    #[inline(always)]
    pub(crate) fn prefetch(self, pos: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint, which reads nothing as far as the language can tell.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.at(pos).cast::<i8>()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = pos;
    }

    /// Returns the payload of a record that the protocol pins, in place.
    ///
    /// # Safety
    /// As for [`Mirror::pinned`].
    #[inline(always)]
    pub(crate) unsafe fn pinned(self, frame: &Frame) -> &'a [u8] {
        let at = self.at(frame.payload_pos());
        // SAFETY: the algorithm checked that the record ends before the head, which is less than
        // `data_size` after the tail, so the slice ends inside the second copy of the data. The
        // bytes are initialised. Every store to them happened before the head was published (A, B),
        // except for those of this process that write-touch consumed lines: between two borrows,
        // and unchanged; and no producer of ours stores there before the tail has passed (C, D). A
        // process that breaks the protocol can; see the crate's documentation.
        unsafe { slice::from_raw_parts(at, frame.len) }
    }
}

/// Maps the header, and the data twice.
fn map_data(
    ring: &RingFile,
    page: usize,
    access: DataAccess,
) -> Result<(AddressRange, usize), Errno> {
    let size = usize::try_from(ring.layout.data_size).map_err(|_| Errno::ENOMEM)?;
    let len = size.checked_mul(2).and_then(|twice| twice.checked_add(page)).ok_or(Errno::ENOMEM)?;
    let mut range = AddressRange::new(len)?;
    range.map((0, page), &ring.file, 0, DataAccess::Write)?;
    range.map((page, size), &ring.file, page as u64, access)?;
    range.map((page + size, size), &ring.file, page as u64, access)?;
    Ok((range, size))
}
