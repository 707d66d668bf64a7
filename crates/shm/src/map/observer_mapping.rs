//! A ring as observers have it: the whole file, read-only.

use crate::file::error::AttachError;
use crate::file::guard::Guard;
use crate::file::liveness::is_dead;
use crate::file::location::Location;
use crate::file::open::{Access, RingFile};
use crate::map::plain::Plain;
use crate::map::raw::Raw;
use perfring_ring::{Anchors, Corrupt, RingTotals, Snapshot, TypeTable};

/// A ring that this process looks at. Nobody can tell.
#[derive(Debug)]
pub struct ObserverMapping {
    pub(crate) map: Plain,
    pub(crate) ring: RingFile,
}

impl ObserverMapping {
    /// Maps a ring, dead or alive.
    pub fn open(location: impl Into<Location>, guard: Guard) -> Result<Self, AttachError> {
        let ring = RingFile::open(location.into(), Access::Read)?;
        guard.prepare(&ring)?;
        Ok(ObserverMapping { map: Plain::map(&ring)?, ring })
    }

    /// The open file.
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// `data_head` now.
    #[inline]
    pub fn head(&self) -> u64 {
        self.map.ring().head()
    }

    /// The type table: what `perfring_types` makes types of.
    pub fn types(&self) -> TypeTable<'_> {
        self.map.types()
    }

    /// What tells wall-clock times of stamps, as of now. None in a ring without time.
    pub fn anchors(&self) -> Anchors {
        Anchors::read(self.map.ring())
    }

    /// The ring's books.
    pub fn totals(&self) -> Option<RingTotals> {
        RingTotals::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
    }

    /// A copy of everything intact.
    pub fn snapshot(&self) -> Result<Snapshot, Corrupt> {
        Snapshot::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
            .and_then(|snapshot| {
                let snapshot = snapshot.with_time(self.ring.layout.time);
                snapshot.with_aux(self.map.ring(), self.map.aux())
            })
            .map_err(|corrupt| self.map.guard.report(corrupt))
            // What was cut short while it was copied may look whole.
            .and_then(
                |snapshot| {
                    if self.map.guard.is_truncated() { Err(Corrupt::CUT) } else { Ok(snapshot) }
                },
            )
    }

    /// The ring's words and positions.
    pub fn raw(&self) -> Raw<'_> {
        Raw { ring: self.map.ring(), base: self.map.base() }
    }
}
