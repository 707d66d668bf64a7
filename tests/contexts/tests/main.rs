//! The tests of contexts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod process;
mod sink;
mod thread;
