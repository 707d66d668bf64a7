//! Many rings, one timeline.
//!
//! A [`Source`] is a ring that is read ahead of what is released from it.
#![forbid(unsafe_code)]

mod source;

pub use source::{About, Source, SourceError};
