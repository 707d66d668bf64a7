//! Waiting for other threads and processes.
//!
//! No test fails because the machine is busy: a thread can be off its core for seconds at any place. A test
//! waits for a condition, and counts work where it needs a bound. Time ends a wait only if the
//! condition never comes.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// The limit of every wait for something that must happen. It ends a test that hangs, and no other.
pub const WATCHDOG: Duration = Duration::from_secs(300);

/// Returns the end of a wait that begins now.
#[must_use]
pub fn deadline() -> Instant {
    let now = Instant::now();
    now.checked_add(WATCHDOG).unwrap_or(now)
}

/// Polls a condition until it holds.
///
/// # Panics
/// After [`WATCHDOG`], with this description of the condition.
#[track_caller]
pub fn until(what: impl Display, mut holds: impl FnMut() -> bool) {
    let dog = Watchdog::default();
    while !holds() {
        dog.pause(&what);
    }
}

/// The watchdog of a loop that does work between two polls of its condition.
#[derive(Clone, Copy, Debug)]
pub struct Watchdog {
    deadline: Instant,
}

impl Default for Watchdog {
    fn default() -> Self {
        Watchdog { deadline: deadline() }
    }
}

impl Watchdog {
    /// Checks that the loop does not hang.
    ///
    /// # Panics
    /// If the loop is older than [`WATCHDOG`], with this description of the condition.
    #[track_caller]
    pub fn check(&self, what: impl Display) {
        assert!(Instant::now() < self.deadline, "not within {WATCHDOG:?}: {what}");
    }

    /// Sleeps for a millisecond, between two polls.
    ///
    /// # Panics
    /// As for [`Watchdog::check`].
    #[track_caller]
    pub fn pause(&self, what: impl Display) {
        self.check(what);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the state of a thread of any process, in the letters of `/proc`: `S` while it sleeps, `T` while it is
/// stopped. `None` if the thread does not exist.
#[must_use]
pub fn state(thread: impl Display) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // After the name, which is in parentheses and may contain anything.
    stat.rsplit(") ").next()?.chars().next()
}

/// Returns whether a thread of any process sleeps.
#[must_use]
pub fn sleeps(thread: impl Display) -> bool {
    state(thread) == Some('S')
}
