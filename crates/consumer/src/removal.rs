//! Detecting that the ring's file was removed: no process wakes a reader for that.

use perfring_shm::until_tick;
use std::time::{Duration, Instant};

/// When a reader asks next.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    next: Option<Instant>,
}

impl Removal {
    /// Returns whether it is time to ask, at most once a second: at the same moments for all
    /// rings.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.next.is_none_or(|next| next <= now);
        if due {
            self.next = now.checked_add(until_tick());
        }
        due
    }

    /// Returns the time until the next check.
    pub(crate) fn left(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }
}
