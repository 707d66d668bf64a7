//! Many rings, one timeline.
#![forbid(unsafe_code)]

mod dir;
mod entry;
mod follow;
mod prune;
mod watch;

pub use dir::{RingSet, SetError, SetOptions, Trust};
pub use entry::{NoRing, RingEntry, list};
pub use follow::{Change, FollowError, Follower};
pub use prune::{Fate, Kept, PruneRule, Pruner, Verdict};
