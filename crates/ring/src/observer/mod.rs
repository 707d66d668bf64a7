//! The observer and the snapshot: reading without changing the ring.

pub(crate) mod copy; // the observer
pub(crate) mod intact; // a snapshot
mod visit; // the observer's copied records
