//! Many rings, one timeline.
#![forbid(unsafe_code)]

mod dir;
mod follow;
mod watch;

pub use dir::{RingSet, SetError, SetOptions, Trust};
pub use follow::{Change, FollowError, Follower, RingEntry};
