//! A place of an output in a ring.

use perfring_consumer::advanced::Saved;

/// A place in a ring: a position, and the number of records and losses after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) saved: Saved,
    pub(super) skip: u64,
}

/// How far a reader is in its ring: by position, and at one position by what it was told of refused records.
pub(super) type Reached = (u64, u64);

/// Returns how far a reader is.
pub(super) fn reached(saved: &Saved) -> Reached {
    (saved.pos, saved.told.total().records)
}

impl From<Saved> for Place {
    fn from(saved: Saved) -> Self {
        Place { saved, skip: 0 }
    }
}
