//! What pages show of rings: how old their unread records are, and which producers live.

use super::Engine;
use super::ring::RingStatus;
use std::time::Duration;

/// Whether a ring may be mapped to find its oldest unread record, which takes some 20 µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    New,
    /// What the last look found counts, as long as the record is still the oldest.
    Known,
}

impl Engine {
    /// Returns how old the oldest unread record of a ring is: no time if all is read, `None` if the ring has no
    /// timestamps.
    pub(crate) fn unread_age(&self, ring: &RingStatus<'_>, look: Look) -> Option<Duration> {
        match (ring.unread()?, ring.origin.timed) {
            (_, false) => None,
            (0, true) => Some(Duration::ZERO),
            _ => {
                let known = || ring.known_oldest_unread();
                let time = if look == Look::New { ring.oldest_unread() } else { known() }?;
                Some(Duration::from_nanos(self.clock.now_ns().saturating_sub(time)))
            }
        }
    }

    /// Tells the outputs which producers of each ring are alive.
    pub(crate) fn show_producers(&mut self) {
        for outlet in self.outlets.iter_mut() {
            outlet.producers(&mut self.rings.iter().filter_map(|(_, ring)| {
                let alive = ring.shapes.observer()?.live_producers().ok()?;
                Some((ring.shapes.origin(), alive.into_iter().map(|owner| owner.pid).collect()))
            }));
        }
    }
}
