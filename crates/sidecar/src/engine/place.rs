//! A place of an output in a ring.

use perfring_consumer::Saved;

/// A place in a ring: a position, and the number of records and losses after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) saved: Saved,
    pub(super) skip: u64,
}

impl From<Saved> for Place {
    fn from(saved: Saved) -> Self {
        Place { saved, skip: 0 }
    }
}
