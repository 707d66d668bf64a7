//! Many rings, one timeline.
//!
//! A [`Source`] is a ring that is read ahead of what is released from it. [`Merge`] gives the items of
//! many in the order of time, [`Fullest`] from the fullest ring first.
#![forbid(unsafe_code)]

mod fullest;
mod heap;
mod looks;
mod merge;
mod source;

pub use fullest::Fullest;
pub use merge::{Merge, MergeFigures, Merged, SourceId};
pub use source::{About, Source, SourceError};
