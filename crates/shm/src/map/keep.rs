//! Readings of the clocks for a ring whose producers have no other occasion for them.

use perfring_ring::Reading;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a ring gets a reading of the clocks.
const KEEP_NS: u64 = 100_000_000;

/// The function that reads the clocks for a ring, and the time of its next call.
pub(super) struct Keep {
    next: AtomicU64,
    read: Box<dyn Fn() -> Reading + Send + Sync>,
}

impl Keep {
    pub(super) fn by(read: impl Fn() -> Reading + Send + Sync + 'static) -> Self {
        Keep { next: AtomicU64::new(0), read: Box::new(read) }
    }

    /// Has the ring get a reading by `store`, if it is time for it. `store` returns whether it has stored it.
    pub(super) fn at(&self, now: u64, store: impl FnOnce(&dyn Fn() -> Reading) -> bool) {
        if now >= self.next.load(Ordering::Relaxed) && store(&self.read) {
            self.next.store(now.saturating_add(KEEP_NS), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep").field("next", &self.next).finish_non_exhaustive()
    }
}
