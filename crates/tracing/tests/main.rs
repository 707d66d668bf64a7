//! The tests of the layer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod alone;
mod common;
mod crash;
mod events_and_spans;
mod panics;
mod quiet;
mod removed;
mod whatever_happens;
