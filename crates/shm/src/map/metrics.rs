//! The metrics area of a ring, mapped to be written, and the blocks of it that this process has.

use crate::file::error::AttachError;
use crate::file::open::SeatId;
use crate::map::attached::{Attached, LockedTypes};
use crate::map::control::words_before;
use crate::sys::clock::now_ns;
use crate::sys::fork::{self, NotForChildren};
use crate::sys::sigbus::SigbusGuard;
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::RecordType;
use perfring_abi::atomic::AtomicU64;
use perfring_ring::{
    BlockOwner, MetricKind, MetricsArea, MetricsWriter, NewBlock, NoBlock, OwnerInfo,
};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

/// A ring's metrics area. In a forked child it is private memory.
#[derive(Debug)]
pub struct MetricsMap {
    // Both before the mapping, as in `Plain`.
    children: NotForChildren,
    _guard: SigbusGuard,
    map: MmapRaw,
}

impl Attached {
    /// Maps the metrics area; `None` if the ring has none.
    ///
    /// # Errors
    /// [`AttachError::Io`].
    pub fn map_metrics(&self) -> Result<Option<Arc<MetricsMap>>, AttachError> {
        let (ring, layout) = (&self.ring, self.layout());
        if layout.metrics_size == 0 {
            return Ok(None);
        }
        let _opening = fork::hold_off();
        let map = MmapOptions::new()
            .offset(layout.areas().metrics.start)
            .len(layout.metrics_size as usize)
            .map_raw(&ring.file)
            .map_err(|source| ring.io("mapping its metrics area", source))?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let none = (base, 0);
        Ok(Some(Arc::new(MetricsMap {
            children: NotForChildren::mapping(base, map.len()),
            _guard: SigbusGuard::new([(base, map.len()), none, none], true, ring.watched()),
            map,
        })))
    }

    /// Returns the owner of blocks that the producer in this slot of the ring takes; `None` if the ring lacks the slot.
    #[must_use]
    pub fn block_owner(&self, slot: u32) -> Option<BlockOwner> {
        let epoch = OwnerInfo::read(&self.map.slots().get(slot as usize)?.holder).epoch;
        Some(BlockOwner { slot, epoch, pid: std::process::id() })
    }

    /// Returns whether the owner of a block has left its slot, by the kernel's lock.
    fn has_left(&self, owner: BlockOwner) -> bool {
        let is_held = || self.ring.is_held(SeatId::Producer(owner.slot)).unwrap_or(true);
        // One that another process has taken since has another epoch.
        !self.block_owner(owner.slot).is_some_and(|now| now.is_in_epoch_of(owner)) || !is_held()
    }
}

impl MetricsMap {
    fn words(&self) -> &[AtomicU64] {
        words_before(&self.map, self.map.len(), self.map.len())
    }

    /// Returns whether this process is a forked child of the process that mapped it.
    #[must_use]
    #[inline(always)]
    pub fn forked(&self) -> bool {
        self.children.forked()
    }

    /// Returns the area, for reading.
    #[must_use]
    pub fn area(&self) -> MetricsArea<'_> {
        MetricsArea::new(self.words())
    }

    /// Takes a block for an instrument whose type is in the table. `attached` is the ring of this area, and `_lock` its table's
    /// lock. `payload` is the payload of a record.
    ///
    /// # Errors
    /// See [`NoBlock`].
    pub fn take(
        self: &Arc<Self>,
        attached: &Attached,
        _lock: &LockedTypes<'_>,
        owner: BlockOwner,
        (id, kind, stripes): (RecordType, MetricKind, u32),
        payload: &[u8],
    ) -> Result<MetricBlock, NoBlock> {
        let area = MetricsWriter::new(self.words());
        let is_dead = |owner| attached.has_left(owner);
        let place =
            area.take(NewBlock { id, kind, stripes, owner, start: now_ns(), payload }, is_dead)?;
        let words = self.words().get(place.word..place.word + place.words).unwrap_or_default();
        let base = NonNull::from(words).cast();
        Ok(MetricBlock { base, len: words.len(), mask: place.stripes - 1, map: Arc::clone(self) })
    }
}

/// A block of this process in a metrics area.
#[derive(Clone, Debug)]
pub struct MetricBlock {
    base: NonNull<AtomicU64>,
    len: usize,
    mask: u32,
    map: Arc<MetricsMap>,
}

// SAFETY: it refers to atomics in a mapping that belongs to no thread, and keeps the mapping.
unsafe impl Send for MetricBlock {}
// SAFETY: as for `Send`; any thread, and any process, may update the atomics at any time.
unsafe impl Sync for MetricBlock {}

impl MetricBlock {
    /// Returns the words of the block.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `MetricsMap::take` made it of a slice of these words, in the mapping that `self.map` keeps. They are atomics,
        // so any content is valid, whichever process stores there; in a forked child they are private memory, of zeros.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// Returns the number of stripes less one: a mask for the number of a thread.
    #[must_use]
    #[inline(always)]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Returns whether this process is a forked child of the process that took the block: its writes there would reach no
    /// reader.
    #[must_use]
    #[inline(always)]
    pub fn forked(&self) -> bool {
        self.map.forked()
    }
}
