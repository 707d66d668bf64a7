//! Sleeping for a consumer without borrowing it: for threads that share one.

use crate::map::plain::Plain;
use crate::sys::futex;
use std::time::Duration;

/// The right to sleep once, from a consumer that has requested a wake.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) value: u32,
    /// The longest sleep with this ticket.
    pub(crate) most: Duration,
}

/// Sleeps and wakes for the consumer of one ring, through a read-only mapping of its own: while one
/// thread sleeps, others can read.
#[derive(Debug)]
pub struct Sleeper {
    pub(super) map: Plain,
}

impl Sleeper {
    /// Sleeps until a producer publishes what was asked for, or [`Sleeper::wake`] is called, for at
    /// most `limit`. May return early. Call the consumer's `end_sleep` afterwards.
    pub fn sleep(&self, ticket: Ticket, limit: Duration) {
        futex::sleep(self.map.ring().wait_word(), ticket.value, limit.min(ticket.most));
    }

    /// Wakes the thread that sleeps for this ring's consumer. A thread that is about to sleep is
    /// not woken, but wakes by itself.
    pub fn wake(&self) {
        futex::wake(self.map.ring().wait_word());
    }
}
