//! A ring as mapped by observers: the whole file, read-only.

use crate::file::error::AttachError;
use crate::file::liveness::is_dead;
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile, SeatId};
use crate::file::presence::Presence;
use crate::file::trust::Trust;
use crate::map::plain::Plain;
use crate::map::raw::Raw;
use perfring_ring::{
    Anchors, BlockOwner, MetricsArea, OwnerInfo, ReadError, RingCopy, RingTotals, TypeTableArea,
};

/// A ring that this process observes. It leaves no trace in the ring.
#[derive(Debug)]
pub struct ObserverMapping {
    pub(crate) map: Plain,
    pub(crate) ring: RingFile,
    presence: Presence,
}

impl ObserverMapping {
    /// Maps a ring, whether or not processes are attached to it.
    pub fn open(location: impl Into<Location>) -> Result<Self, AttachError> {
        Self::map(RingFile::open(location.into(), FileAccess::Read)?)
    }

    /// Maps a ring that another user may truncate, or whose file may claim large payloads. A guarded
    /// ring is refused if its payloads could be too large, and its truncation does not end this process.
    pub fn open_with(location: impl Into<Location>, trust: Trust) -> Result<Self, AttachError> {
        let ring = RingFile::open(location.into(), FileAccess::Read)?;
        trust.guards(&ring)?;
        Self::map(ring)
    }

    /// Maps the same ring once more, also if its file was removed or replaced.
    pub fn again(&self) -> Result<Self, AttachError> {
        Self::map(self.ring.clone())
    }

    fn map(ring: RingFile) -> Result<Self, AttachError> {
        Ok(ObserverMapping { map: Plain::map(&ring)?, ring, presence: Presence::default() })
    }

    /// Returns the open file.
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// Returns whether [`ObserverMapping::check_removed`] found the ring's file removed.
    pub fn is_removed(&self) -> bool {
        self.presence.is_removed()
    }

    /// Asks the file system whether the ring's file was removed, or another took its place; and whether it was truncated, of
    /// which the next poll says. Three system calls.
    pub fn check_removed(&self) -> bool {
        self.map.guard.look();
        self.presence.check(&self.ring)
    }

    /// `data_head` now.
    #[inline]
    pub fn head(&self) -> u64 {
        self.map.ring().head()
    }

    /// Returns the type table, from which `perfring_types` makes types.
    pub fn types(&self) -> TypeTableArea<'_> {
        self.map.types()
    }

    /// Returns the anchors that convert timestamps to wall-clock times, as of now; none in a ring
    /// without time.
    pub fn anchors(&self) -> Anchors {
        Anchors::read(self.map.ring())
    }

    /// Returns the metrics area; empty for a ring without an area. Values that were read are good if
    /// [`ObserverMapping::cut_off`] returns `None` afterwards.
    pub fn metrics(&self) -> MetricsArea<'_> {
        self.map.metrics()
    }

    /// Returns why the mapping is no longer the file's, if that was found out.
    pub fn cut_off(&self) -> Option<ReadError> {
        self.map.guard.cut_off()
    }

    /// Returns whether the owner of a block of the metrics area lives, by the kernel's locks: true where that cannot be found out.
    pub fn has_owner(&self, owner: BlockOwner) -> bool {
        self.map.has_owner(&self.ring, owner).unwrap_or(true)
    }

    /// Returns the owner info of the first producer's slot.
    pub fn producer(&self) -> OwnerInfo {
        self.map.holder(SeatId::Producer(0))
    }

    /// Returns the ring's totals.
    pub fn totals(&self) -> Option<RingTotals> {
        RingTotals::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
    }

    /// Copies everything intact.
    pub fn snapshot(&self) -> Result<RingCopy, ReadError> {
        RingCopy::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
            .and_then(|snapshot| {
                let snapshot = snapshot.with_lead(self.ring.layout.lead());
                snapshot.with_aux(self.map.ring(), self.map.aux())
            })
            .map_err(|corrupt| self.map.guard.report(corrupt))
            // Data that was truncated while it was copied may look whole.
            .and_then(|snapshot| self.map.guard.cut_off().map_or(Ok(snapshot), Err))
    }

    /// Returns the ring's words and positions.
    pub fn raw(&self) -> Raw<'_> {
        Raw { ring: self.map.ring(), base: self.map.base() }
    }
}
