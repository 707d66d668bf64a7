//! Who reads without leaving a trace.

pub(crate) mod copy; // the observer
pub(crate) mod intact; // a snapshot
