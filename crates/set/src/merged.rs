//! The items that a merge returns.

use crate::described::Described;
use perfring_consumer::{Anchors, Item};
use perfring_types::read::TypeTable;
use std::fmt;
use std::sync::Arc;

/// Identifies a source of a [`Merge`](crate::Merge) or of a [`FullestFirst`](crate::FullestFirst). Ids are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId {
    pub(crate) slot: u32,
    pub(crate) turn: u32,
}

impl SourceId {
    /// Returns its slot: a number below the greatest number of sources that there were at once. Slots are reused.
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.turn)
    }
}

/// An item of a merge.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Merged<'a> {
    /// The source that it is from.
    pub source: SourceId,
    /// The record or the loss.
    pub item: Item<'a>,
    /// Its position in time, ns of `CLOCK_BOOTTIME`. It is the record's timestamp; in a ring without
    /// timestamps, the time of the poll that found the record; for a loss, the time of the item before it
    /// in its ring, or 0.
    pub time: u64,
    /// By how many ns it comes too late: something later was returned before it. 0 if it does not.
    pub late: u64,
    pub(crate) described: Option<&'a Described>,
}

impl<'a> Merged<'a> {
    /// Returns the wall-clock time of the item, in ns since 1970. `None` without a timestamp, without
    /// an anchor for it, or if the source was added by [`Merge::add`](crate::Merge::add).
    #[must_use]
    pub fn wall(&self) -> Option<u64> {
        let anchors = self.anchors()?;
        match self.item {
            Item::Record(record) => record.wall(anchors),
            Item::Lost(_) if self.time == 0 => None,
            Item::Lost(lost) => anchors.wall(lost.pos, self.time),
        }
    }

    /// Returns the type table of the item's ring. `None` if the source was added by [`Merge::add`](crate::Merge::add).
    #[must_use]
    pub fn types(&self) -> Option<&'a Arc<TypeTable>> {
        self.described.map(Described::types)
    }

    /// Returns the clock anchors of the item's ring. `None` if the source was added by [`Merge::add`](crate::Merge::add).
    #[must_use]
    pub fn anchors(&self) -> Option<&'a Anchors> {
        self.described.map(Described::anchors)
    }
}
