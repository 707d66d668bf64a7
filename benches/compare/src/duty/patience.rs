//! Looks that found nothing.

use std::thread::yield_now;

/// Looks between two that also give the core up: the other end may be on it.
const POLLS: u32 = 4096;

/// Counts looks that found nothing, one after the other.
#[derive(Default)]
pub(super) struct Patience(u32);

impl Patience {
    /// One more found nothing. Gives the core up now and then, and says whether it did.
    #[inline(always)]
    pub(super) fn lose(&mut self) -> bool {
        self.0 += 1;
        if self.0 < POLLS {
            return false;
        }
        self.give_up();
        true
    }

    /// Gives the core up now.
    #[inline(always)]
    pub(super) fn give_up(&mut self) {
        self.0 = 0;
        yield_now();
    }

    /// One found something.
    #[inline(always)]
    pub(super) fn regain(&mut self) {
        self.0 = 0;
    }
}
