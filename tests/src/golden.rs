//! The golden ring files that a writer produces: the making of each, and the content that a reader must find in
//! it. The expectation is computed from the script's actions, never by a reader.
//!
//! The other files in `proto/golden` were composed of two states of such rings, like the ring of a process
//! that is killed between two stores. No writer produces them, and they are frozen.
#![allow(missing_docs, clippy::missing_panics_doc)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod account;
mod exclusive;
mod large;
mod members;
mod metrics;
mod per_cpu;
mod script;
mod shared;
mod types;
mod unmarked;

pub use account::{Golden, hex, record};
pub use unmarked::{unmarked, with_unmarked};

/// Makes all of them.
#[must_use]
pub fn all() -> Vec<Golden> {
    [exclusive::all(), shared::all(), types::all(), large::all(), per_cpu::all(), metrics::all()]
        .concat()
}
