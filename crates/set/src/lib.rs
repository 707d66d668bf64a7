//! Many rings, one timeline.
//!
//! A [`RingSet`] is a directory of rings, one for each producer, and a [`Follower`] sees them come and
//! go. A [`Source`] is a ring that is read ahead of what is released from it: [`Merge`] gives the items
//! of many in the order of time, [`FullestFirst`] from the fullest ring first.
#![forbid(unsafe_code)]

mod described;
mod dir;
mod dir_item;
mod dir_merge;
mod dir_watch;
mod entry;
mod follow;
mod fullest_first;
mod heap;
mod merge;
mod poll_schedule;
mod prune;
mod source;

pub use dir::{Access, RingSet, SetError, SetOptions};
pub use dir_item::{DirEvent, DirItem};
pub use dir_merge::{DirMerge, FollowOptions, ReadMode};
pub use entry::{Listing, NoRing, RingEntry, list};
pub use follow::{Change, FollowError, Follower};
pub use fullest_first::FullestFirst;
pub use merge::{Merge, MergeFigures, Merged, SourceId};
pub use prune::{Fate, Kept, PruneRule, Pruner, Verdict};
pub use source::{About, Source, SourceError};
