//! Many rings, one timeline.
//!
//! A [`Source`] is a ring that is read ahead of what is released from it. [`Merge`] gives the items of
//! many in the order of time.
#![forbid(unsafe_code)]

mod dir;
mod entry;
mod follow;
mod heap;
mod looks;
mod merge;
mod source;
mod watch;

pub use dir::{RingSet, SetError, SetOptions, Trust};
pub use merge::{Merge, MergeFigures, Merged, SourceId};
pub use source::{About, Source, SourceError};
mod prune;
pub use entry::{NoRing, RingEntry, list};
pub use follow::{Change, FollowError, Follower};
pub use prune::{Fate, Kept, PruneRule, Pruner, Verdict};
