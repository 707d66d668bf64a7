//! Waiting for what servers and processes do.

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
