//! What the tests of several crates run against, each by its feature: it needs more than a test of the
//! ring should build.
#![allow(missing_docs, reason = "its users are tests")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[cfg(feature = "any")]
pub mod any;
#[cfg(feature = "nats")]
pub mod nats;
