//! What stands at the front of a ring before it is taken, and places to release up to later. For
//! readers of many rings, who hold records of each until it is their turn.

use crate::counters::{ConsumerBook, Count, Saved};

/// What is next in a ring, of what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Nothing: all that was published before the last look was taken.
    Empty,
    /// Something, and only a look tells what.
    More,
    /// A record with this stamp, ns.
    Stamped(u64),
    /// A record of a ring without time.
    Plain,
    /// A loss.
    Lost,
}

/// A place in a ring after something that was read, with the books as they are true there: to be
/// released later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The position of the next record.
    pub pos: u64,
    /// What stood before it since the ring was made.
    pub before: Count,
    /// Of that, what was gone before the reader came to it.
    pub lapped: Count,
    /// Where the last range of the AUX area ends that belongs to it, in a drop ring.
    pub range_end: u64,
}

impl Mark {
    /// The place, for an observer to go on from.
    #[must_use]
    pub fn saved(&self) -> Saved {
        Saved { pos: self.pos, before: self.before }
    }

    pub(crate) fn book(&self) -> ConsumerBook {
        let read = self.before.since(self.lapped);
        ConsumerBook { pos: self.pos, read, lapped: self.lapped }
    }
}
