//! Empty polls.

use std::thread::yield_now;

/// Polls between two that also yield the core: the other end may be on it.
const POLLS: u32 = 4096;

/// Counts empty polls in a row.
#[derive(Default)]
pub(super) struct Patience(u32);

impl Patience {
    /// Counts an empty poll. Yields the core from time to time, and returns whether it did.
    #[inline(always)]
    pub(super) fn lose(&mut self) -> bool {
        self.0 += 1;
        if self.0 < POLLS {
            return false;
        }
        self.give_up();
        true
    }

    /// Yields the core now.
    #[inline(always)]
    pub(super) fn give_up(&mut self) {
        self.0 = 0;
        yield_now();
    }

    /// Resets the count after a poll that found something.
    #[inline(always)]
    pub(super) fn regain(&mut self) {
        self.0 = 0;
    }
}
