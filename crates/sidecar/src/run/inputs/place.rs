//! An input's place.

use crate::config::{Input, InputSource};
use perfring_set::PlaceId;

/// An input that is a place of the feed.
pub(super) struct Place {
    pub(super) id: PlaceId,
    pub(super) input: Input,
    /// Nothing was there at the last poll.
    pub(super) is_missing: bool,
}

impl Place {
    pub(super) fn is_one_ring(&self) -> bool {
        matches!(self.input.source, InputSource::Ring(_))
    }
}
