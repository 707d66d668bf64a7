//! The tests of contexts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod layer;
mod process;
mod published;
mod sink;
mod thread;
