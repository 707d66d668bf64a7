//! The golden ring files that a writer leaves by itself: how each is made, and what a reader must find in
//! it. What must be found is reckoned from what the script did, never by asking a reader.
//!
//! The others in `proto/golden` were put together from two states of such rings, as a process that is
//! killed between two stores leaves them. No writer writes those, and they are frozen.
#![allow(missing_docs, clippy::missing_panics_doc)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod account;
mod exclusive;
mod large;
mod members;
mod script;
mod shared;
mod types;

pub use account::{Golden, hex, record};

/// All of them, made anew.
#[must_use]
pub fn all() -> Vec<Golden> {
    [exclusive::all(), shared::all(), types::all(), large::all()].concat()
}
