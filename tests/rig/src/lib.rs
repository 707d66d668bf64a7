//! Servers and generators for the tests of several crates, each behind a feature: they need more
//! dependencies than a test of the ring should build.
#![allow(missing_docs, reason = "its users are tests")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

#[cfg(feature = "any")]
pub mod any;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "otlp")]
pub mod otlp;
