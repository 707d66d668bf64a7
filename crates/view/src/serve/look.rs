//! The thread that looks at the records of rings that somebody has asked for.

use super::shared::Shared;
use std::time::Duration;

/// The time between two looks, and while nobody asks.
const LOOK: Duration = Duration::from_millis(20);
const IDLE: Duration = Duration::from_millis(50);
/// The most of a core that looks take: one part of so many.
const PART: u32 = 32;

/// Looks until the server is stopped.
pub(super) fn run(shared: &Shared) {
    shared.look(LOOK, IDLE, PART, || {
        let mut taps = shared.taps();
        taps.look();
        taps.is_empty()
    });
}
