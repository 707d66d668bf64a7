//! The tests of the exporters.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "a test that cannot continue has failed"
)]

mod carried;
mod failures;
mod forwarded;
mod rows;
mod tee;
