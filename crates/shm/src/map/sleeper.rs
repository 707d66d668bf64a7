//! Sleeping for a consumer without borrowing it: for threads that share one.

use crate::map::plain::Plain;
use crate::sys::futex;
use perfring_abi::atomic::AtomicU32;
use std::time::Duration;

/// The right to sleep once, from a consumer that has requested a wake.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) value: u32,
    /// The longest sleep with this ticket.
    pub(crate) most: Duration,
    /// No wake should be missed.
    pub(crate) sure: bool,
    /// Another user may read the file, and keep a wake from the sleeper.
    pub(crate) exposed: bool,
}

/// Sleeps and wakes for the consumer of one ring, through its own read-only mapping: while one
/// thread sleeps, other threads can read.
#[derive(Debug)]
pub struct Sleeper {
    pub(super) map: Plain,
}

impl Sleeper {
    /// Sleeps until a producer reaches the requested threshold, or [`Sleeper::wake`] is called, for at
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

/// A consumer that has requested a wake, for one thread that sleeps on many rings.
#[derive(Clone, Copy, Debug)]
pub struct Armed<'a> {
    pub(crate) word: &'a AtomicU32,
    pub(crate) ticket: Ticket,
}

impl Armed<'_> {
    /// Returns whether no wake should be missed, so that a sleep may last until the next
    /// [`until_tick`](crate::until_tick); otherwise until the next [`SLICE`](crate::SLICE).
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.ticket.sure
    }

    /// Returns whether another user may read the ring's file, and so can keep a wake from the sleeper: for
    /// [`until_tick`](crate::until_tick).
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.ticket.exposed
    }
}

/// On so many rings a thread sleeps at once with [`sleep_on_any`]: `FUTEX_WAITV_MAX`.
pub const ANY_MOST: usize = 128;

/// Sleeps until a producer reaches the threshold of one of these consumers, for at most `limit`. May return
/// early. Afterwards each consumer withdraws its request.
///
/// Returns false, without a sleep, if there are none or more than [`ANY_MOST`], and if the system
/// lacks this call: before Linux 5.16, or if a seccomp filter forbids `futex_waitv(2)`.
#[must_use]
pub fn sleep_on_any(armed: &[Armed<'_>], limit: Duration) -> bool {
    let Some(most) = armed.iter().map(|armed| armed.ticket.most).min() else { return false };
    let words = armed.iter().map(|armed| (armed.word.as_ptr(), armed.ticket.value));
    armed.len() <= ANY_MOST && futex::sleep_on_any(words, limit.min(most))
}
