//! The tests of readers under a runtime.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod alive;
mod cancelled;
mod promises;
