//! Directories of rings, and reading many rings as one.
//!
//! A [`RingSet`] is a directory of rings, one for each producer. [`Merge::follow`] reads all of them in the
//! order of time, while they come and go:
//!
//! ```
//! use perfring_set::{Merge, RingSet};
//! use std::time::Duration;
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("shop");
//! let set = RingSet::open(&dir)?;
//! set.producer("worker-1")?.publish(b"hello")?; // in one process
//!
//! # let mut lines = Vec::new();
//! let mut merge = Merge::follow(&dir)?; // in another
//! while merge.wait(Duration::from_millis(200)) {
//!     while let Some(item) = merge.read() {
//!         println!("{item}");
//! #       lines.push(item.to_string());
//!     }
//!     merge.acknowledge();
//! }
//! # assert_eq!(lines, ["worker-1: hello"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`list`] returns the content of a directory, and a [`Follower`] its changes. A [`Feed`] reports when to attach to the
//! rings of several directories, and a [`Pruner`] removes rings that are not needed. The parts of [`DirMerge`] are public: a
//! [`Source`] is a ring that is read ahead of its release; a [`Merge`] returns the items of many sources in the order of
//! time, [`FullestFirst`] the items of the fullest ring first.
//!
//! # Dependencies
//!
//! ```toml
//! [dependencies]
//! perfring = { path = "../perfring/crates/perfring", features = ["set"] } # as `perfring::set`
//! ```
//!
//! Or depend on `perfring-set` itself. [`DirItem::decode`] needs no feature. Decoding without this crate needs
//! `perfring_types` with the feature `read` (`perfring` with the feature `decode`).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod change;
mod described;
mod dir;
mod dir_item;
mod dir_merge;
mod dir_watch;
mod entry;
mod feed;
mod feed_change;
mod follow;
mod follow_options;
mod fullest_first;
mod heap;
mod merge;
mod merged;
mod not_read;
mod one_ring;
mod paths;
mod poll_schedule;
mod priority;
mod prune;
mod sleep_on_all;
mod source;

pub use change::{Change, FollowError};
pub use dir::{Access, RingSet, SetError, SetOptions};
pub use dir_item::{DirEvent, DirItem};
pub use dir_merge::DirMerge;
pub use entry::{Listing, NoRing, RingEntry, list};
pub use feed::Feed;
pub use feed_change::{FeedChange, Found, NotAttached, PlaceId};
pub use follow::Follower;
pub use follow_options::{FollowOptions, ReadMode};
pub use fullest_first::FullestFirst;
pub use merge::{Merge, MergeFigures};
pub use merged::{Merged, SourceId};
pub use not_read::NotRead;
pub use paths::{dirs, paths};
pub use perfring_consumer::files::is_priority;
pub use perfring_types as types;
pub use priority::PRIORITY_SEVERITY;
pub use prune::{Fate, Kept, PruneRule, Pruner, Verdict};
pub use source::{About, Sleep, Source, SourceError};
