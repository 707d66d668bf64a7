//! Many rings, one timeline.
//!
//! A [`RingSet`] is a directory of rings, one for each producer, and a [`Follower`] sees them come and
//! go. A [`Source`] is a ring that is read ahead of what is released from it: [`Merge`] gives the items
//! of many in the order of time, [`Fullest`] from the fullest ring first.
#![forbid(unsafe_code)]

mod dir;
mod entry;
mod follow;
mod fullest;
mod heap;
mod looks;
mod merge;
mod prune;
mod source;
mod watch;

pub use dir::{RingSet, SetError, SetOptions, Trust};
pub use entry::{Listing, NoRing, RingEntry, list};
pub use follow::{Change, FollowError, Follower};
pub use fullest::Fullest;
pub use merge::{Merge, MergeFigures, Merged, SourceId};
pub use prune::{Fate, Kept, PruneRule, Pruner, Verdict};
pub use source::{About, Source, SourceError};
