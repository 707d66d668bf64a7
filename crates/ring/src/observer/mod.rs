//! The observer and the snapshot: reading without changing the ring.

mod ahead; // what the observer finds next
pub(crate) mod copy; // the observer
pub(crate) mod intact; // a snapshot
mod losses; // losses that no marker reports
mod visit; // the observer's copied records
