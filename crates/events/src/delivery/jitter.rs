//! Pauses that differ between processes.

use std::time::Duration;

/// Varies a pause, so that many clients of one server do not return all at once: to between half of
/// it and all.
pub fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(0) & 0xffff;
    pause / 2 + pause / 2 / 65_536 * random
}
