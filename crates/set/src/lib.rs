//! Many rings, one timeline.
//!
//! A [`Source`] is a ring that is read ahead of what is released from it.
#![forbid(unsafe_code)]

mod dir;
mod follow;
mod source;
mod watch;

pub use dir::{RingSet, SetError, SetOptions, Trust};
pub use follow::{Change, FollowError, Follower, RingEntry};
pub use source::{About, Source, SourceError};
