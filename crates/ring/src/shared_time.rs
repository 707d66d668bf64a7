//! What a producer of a shared ring tells it of the clocks, under the lock.

use crate::{Peers, Reading, Shared, SharedWriter};
use perfring_abi::atomic::Ordering;

impl SharedWriter {
    /// Notes in a timed ring what the clocks say: after attaching, before the first record. `read`
    /// reads them, under the lock: what is stamped by then is not of the future. Returns whether the
    /// lock was to be had.
    #[must_use]
    pub fn begin_time<P: Peers>(
        &self,
        at: Shared<'_>,
        peers: &P,
        read: impl FnOnce() -> Reading,
    ) -> bool {
        self.under_lock(at, peers, || {
            // Relaxed: M orders it.
            let newest = at.ring.header.shared.newest_stamp.load(Ordering::Relaxed);
            crate::time::begin(at.ring, &read(), at.producer_pos(), newest);
        })
    }

    /// The same, now and again.
    #[must_use]
    pub fn keep_time<P: Peers>(
        &self,
        at: Shared<'_>,
        peers: &P,
        read: impl FnOnce() -> Reading,
    ) -> bool {
        self.under_lock(at, peers, || crate::time::keep(at.ring, &read(), at.producer_pos()))
    }

    fn under_lock<P: Peers>(&self, at: Shared<'_>, peers: &P, then: impl FnOnce()) -> bool {
        if self.owner.lock(at, peers).is_err() {
            return false;
        }
        then();
        self.owner.unlock(at);
        true
    }
}
