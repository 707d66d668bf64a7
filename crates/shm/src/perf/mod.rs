//! The kernel's own rings, as `perf_event_open(2)` makes them.

pub(crate) mod attr;
pub(crate) mod event;
pub(crate) mod mapped;
pub(crate) mod pages;
pub(crate) mod recorder;
