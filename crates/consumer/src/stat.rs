//! What can be said of a ring from outside.

use perfring_abi::Layout;
use perfring_ring::{Totals, Who};
use perfring_shm::{AttachError, Home, MappedObserver, Place, RingFile};

/// Who holds a place, and whether it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The kernel says that a live process holds the place.
    pub alive: bool,
    /// Who signed for it last; hints.
    pub who: Who,
}

/// A ring's figures at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Shape and identity.
    pub layout: Layout,
    /// The books; `None` if the header says what no producer leaves.
    pub totals: Option<Totals>,
    /// The producer's place.
    pub producer: Holding,
    /// The consumer's place.
    pub consumer: Holding,
}

impl Stat {
    /// Reads a ring's figures. Needs read permission, disturbs nobody.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn read(home: impl Into<Home>) -> Result<Self, AttachError> {
        let (file, totals) = MappedObserver::peek(home)?;
        Self::of(&file, totals)
    }

    pub(crate) fn of(file: &RingFile, totals: Option<Totals>) -> Result<Self, AttachError> {
        let holding = |place| -> Result<Holding, AttachError> {
            Ok(Holding { alive: file.is_held(place)?, who: file.holder(place)? })
        };
        Ok(Stat {
            layout: *file.layout(),
            totals,
            producer: holding(Place::Producer)?,
            consumer: holding(Place::Consumer)?,
        })
    }
}
