//! Checks that a waiting reader makes by itself, because no process wakes it for them: losses that no marker in
//! the stream reports, and the removal of the ring's file.

use perfring_shm::until_tick;
use std::time::{Duration, Instant};

/// When a reader looks next.
#[derive(Debug, Default)]
pub(crate) struct Tick {
    next: Option<Instant>,
}

impl Tick {
    /// Returns whether it is time to look, at most once a second: at the same moments for all
    /// rings.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.next.is_none_or(|next| next <= now);
        if due {
            self.next = now.checked_add(until_tick(false));
        }
        due
    }

    /// Returns the time until the next look.
    pub(crate) fn left(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }
}
