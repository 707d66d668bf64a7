//! The tests of consumers and observers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot continue has failed"
)]

mod acknowledged;
mod ahead;
mod attach_when_there;
mod drain;
mod large;
mod named;
mod removed;
mod runs;
mod trust;
