//! The plain mapping of a whole ring, for readers that copy.

use crate::file::error::AttachError;
use crate::file::open::{FileAccess, RingFile, SeatId};
use crate::file::trust::Trust;
use crate::map::control::{slots, words_before};
use crate::map::named_seat::seats;
use crate::sys::fork::{self, NotForChildren};
use crate::sys::sigbus::SigbusGuard;
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{ConsumerSeat, Header, Layout};
use perfring_ring::{BlockOwner, MetricsArea, OwnerInfo, Ring, SeatState, Shared, TypeTableArea};
use std::ptr::NonNull;
use std::slice;

/// The whole file, read-only, each byte once.
#[derive(Debug)]
pub(crate) struct Plain {
    // Both are dropped before the mapping. The first is for a file that may hold a lock, which a
    // forked child's mapping would keep.
    _children: Option<NotForChildren>,
    pub(super) guard: SigbusGuard,
    map: MmapRaw,
    data_offset: usize,
    data_size: usize,
    layout: Layout,
}

impl Plain {
    /// Maps the file. Where others may write it, its truncation is an error from now on, and does not end this process.
    pub(crate) fn map(ring: &RingFile) -> Result<Self, AttachError> {
        Trust::Auto.guards_mapping(ring)?;
        let layout = &ring.layout;
        let locked = ring.access == FileAccess::Write;
        let opening = locked.then(fork::hold_off);
        let (file, offset) = ring.mappable()?;
        let map = MmapOptions::new()
            .offset(offset)
            .len(layout.file_size() as usize)
            .map_raw_read_only(file)
            .map_err(|source| ring.io("mapping it", source))?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let children = locked.then(|| NotForChildren::mapping(base, map.len()));
        drop(opening);
        // No process truncates a copy.
        let guard = match offset == ring.offset() {
            true => {
                SigbusGuard::new([(base, map.len()), (base, 0), (base, 0)], false, ring.watched())
            }
            false => SigbusGuard::default(),
        };
        Ok(Plain {
            _children: children,
            guard,
            map,
            data_offset: layout.areas().data.start as usize,
            data_size: layout.data_size as usize,
            layout: *layout,
        })
    }

    /// Returns `read` if the file was whole when it was read.
    pub(crate) fn sure<T>(&self, ring: &RingFile, read: T) -> Result<T, AttachError> {
        self.guard.cut_off().map_or(Ok(read), |error| Err(ring.corrupt(error)))
    }

    /// The ring as the algorithm sees it; only loads are allowed on it.
    #[inline]
    pub(crate) fn ring(&self) -> Ring<'_> {
        // SAFETY: as in `Mirror::ring`. The pages are read-only: observers use relaxed loads and
        // fences alone, which Rust guarantees to be sound on such pages.
        let header = unsafe { &*self.map.as_ptr().cast::<Header>() };
        // SAFETY: `Layout::check` found the data area inside the file, and the mapping is as long
        // as the file.
        let data = unsafe { self.map.as_ptr().add(self.data_offset) };
        // SAFETY: as above for the length; atomics, page-aligned, mapped for as long as `self`.
        let data = unsafe { slice::from_raw_parts(data.cast::<AtomicU64>(), self.data_size / 8) };
        // `Layout::check` verified that the size is a power of two of whole pages.
        Ring::new(header, data)
    }

    /// Returns the address of the header page.
    pub(crate) fn base(&self) -> *const u8 {
        self.map.as_ptr()
    }

    /// Returns the ring and its slots; only loads are allowed on them.
    pub(crate) fn shared(&self) -> Shared<'_> {
        // SAFETY: `Layout::check` found the control pages inside the file.
        let control = unsafe { self.map.as_ptr().add(self.layout.areas().control.start as usize) };
        // SAFETY: there is room for so many, and the mapping lives as long as `self`.
        let slots = unsafe { slots(control, self.layout.slots as usize) };
        Shared::new(self.ring(), slots)
    }

    /// Returns the seats of named consumers; only loads are allowed on them.
    pub(crate) fn seats(&self) -> &[ConsumerSeat] {
        // SAFETY: `Layout::check` found the seats inside the file; without any this is its beginning.
        let area = unsafe { self.map.as_ptr().add(self.layout.areas().consumers.start as usize) };
        // SAFETY: there is room for so many, and the mapping lives as long as `self`.
        unsafe { seats(area, self.layout.consumers as usize) }
    }

    /// Returns the type table; only loads are allowed on it.
    pub(crate) fn types(&self) -> TypeTableArea<'_> {
        let (end, size) = (self.layout.areas().types.end as usize, self.layout.types_size as usize);
        TypeTableArea::new(words_before(&self.map, end, size))
    }

    /// Returns the AUX area for copying; empty for a ring without an area.
    pub(crate) fn aux(&self) -> &[AtomicU64] {
        let (end, size) = (self.layout.areas().aux.end as usize, self.layout.aux_size as usize);
        words_before(&self.map, end, size)
    }

    /// Returns the metrics area, which ends the file; only loads are allowed on it.
    pub(crate) fn metrics(&self) -> MetricsArea<'_> {
        let size = self.layout.metrics_size as usize;
        MetricsArea::new(words_before(&self.map, self.map.len(), size))
    }

    /// Returns whether the owner of a block of the metrics area has its slot, by the kernel's lock.
    pub(crate) fn has_owner(
        &self,
        ring: &RingFile,
        owner: BlockOwner,
    ) -> Result<bool, AttachError> {
        if owner.slot >= self.layout.slots {
            return Ok(false);
        }
        let held = ring.is_held(SeatId::Producer(owner.slot))?;
        let epoch = self.holder(SeatId::Producer(owner.slot)).epoch;
        Ok(held && owner.is_in_epoch_of(BlockOwner { epoch, ..owner }))
    }

    /// Returns the owner info of a seat's present or last holder; empty if the ring lacks the seat.
    pub(crate) fn holder(&self, seat: SeatId) -> OwnerInfo {
        let at = self.shared();
        let holder = match seat {
            SeatId::Producer(slot) => at.slots().get(slot as usize).map(|slot| &slot.holder),
            SeatId::Consumer => Some(&at.ring().header().consumer_holder),
            SeatId::Named(seat) => self.seats().get(seat as usize).map(|seat| &seat.holder),
        };
        holder.map_or_else(OwnerInfo::default, OwnerInfo::read)
    }

    /// Returns how the present or last holder of a seat is, and its owner info.
    pub(crate) fn seat(
        &self,
        ring: &RingFile,
        seat: SeatId,
    ) -> Result<(SeatState, OwnerInfo), AttachError> {
        let held = ring.is_held(seat)?;
        let owner = self.holder(seat);
        match owner.state(held) {
            // Unless another has taken the seat meanwhile.
            SeatState::Dead => Ok((owner.state(ring.is_held(seat)?), owner)),
            state => Ok((state, owner)),
        }
    }
}
