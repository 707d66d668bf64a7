//! Servers and generators for the tests of several crates, each behind a feature: they need more
//! dependencies than a test of the ring should build.
#![allow(missing_docs, reason = "its users are tests")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[cfg(feature = "any")]
pub mod any;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "otlp")]
pub mod otlp;

use std::time::{Duration, Instant};

/// Generous, as a machine may be busy. No test waits for it to pass.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Waits for a condition.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "timed out waiting for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
