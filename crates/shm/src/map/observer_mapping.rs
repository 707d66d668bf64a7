//! A ring as mapped by observers: the whole file, read-only.

use crate::file::error::AttachError;
use crate::file::guard::Guard;
use crate::file::liveness::is_dead;
use crate::file::location::Location;
use crate::file::open::{Access, RingFile};
use crate::map::plain::Plain;
use crate::map::raw::Raw;
use perfring_ring::{Anchors, Corrupt, RingTotals, Snapshot, TypeTable};

/// A ring that this process observes. It leaves no trace in the ring.
#[derive(Debug)]
pub struct ObserverMapping {
    pub(crate) map: Plain,
    pub(crate) ring: RingFile,
}

impl ObserverMapping {
    /// Maps a ring, whether or not processes are attached to it.
    pub fn open(location: impl Into<Location>, guard: Guard) -> Result<Self, AttachError> {
        let ring = RingFile::open(location.into(), Access::Read)?;
        guard.prepare(&ring)?;
        Ok(ObserverMapping { map: Plain::map(&ring)?, ring })
    }

    /// Returns the open file.
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// Loads `data_head`.
    #[inline]
    pub fn head(&self) -> u64 {
        self.map.ring().head()
    }

    /// Returns the type table, from which `perfring_types` makes types.
    pub fn types(&self) -> TypeTable<'_> {
        self.map.types()
    }

    /// Returns the anchors that convert timestamps to wall-clock times, as of now; none in a ring
    /// without time.
    pub fn anchors(&self) -> Anchors {
        Anchors::read(self.map.ring())
    }

    /// Returns the ring's totals.
    pub fn totals(&self) -> Option<RingTotals> {
        RingTotals::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
    }

    /// Copies everything intact.
    pub fn snapshot(&self) -> Result<Snapshot, Corrupt> {
        Snapshot::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
            .and_then(|snapshot| {
                let snapshot = snapshot.with_time(self.ring.layout.time);
                snapshot.with_aux(self.map.ring(), self.map.aux())
            })
            .map_err(|corrupt| self.map.guard.report(corrupt))
            // Data that was truncated while it was copied may look whole.
            .and_then(
                |snapshot| {
                    if self.map.guard.is_truncated() { Err(Corrupt::CUT) } else { Ok(snapshot) }
                },
            )
    }

    /// Returns the ring's words and positions.
    pub fn raw(&self) -> Raw<'_> {
        Raw { ring: self.map.ring(), base: self.map.base() }
    }
}
