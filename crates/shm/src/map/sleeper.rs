//! Sleeping for a consumer without having it: for those who share one between threads.

use crate::map::plain::Plain;
use crate::sys::futex;
use std::time::Duration;

/// The right to sleep once, from a consumer that has asked to be woken.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) value: u32,
    /// The longest sleep on the strength of it.
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
    /// most `limit`. May return early. Afterwards the consumer's `end_sleep`.
    pub fn sleep(&self, ticket: Ticket, limit: Duration) {
        futex::sleep(self.map.ring().wait_word(), ticket.value, limit.min(ticket.most));
    }

    /// Wakes whoever sleeps for this ring's consumer. Not one that is just about to: it wakes by
    /// itself.
    pub fn wake(&self) {
        futex::wake(self.map.ring().wait_word());
    }
}
