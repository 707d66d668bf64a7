//! How old the unread records of rings are.

use super::Engine;
use super::ring::RingStatus;
use std::time::Duration;

impl Engine {
    /// Returns how old the oldest unread record of a ring is: no time if all is read, `None` if the ring has no
    /// timestamps.
    pub(crate) fn unread_age(&self, ring: &RingStatus<'_>) -> Option<Duration> {
        match (ring.unread()?, ring.origin.timed) {
            (_, false) => None,
            (0, true) => Some(Duration::ZERO),
            _ => {
                let time = ring.oldest_unread()?;
                Some(Duration::from_nanos(self.clock.now_ns().saturating_sub(time)))
            }
        }
    }
}
