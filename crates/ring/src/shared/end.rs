//! The end of a reservation, and what follows from it: `data_head` goes over everything that has
//! ended, a sleeper is woken, and now and then somebody asks whether what holds the head up lives.

use crate::shared::owner::Owner;
use crate::shared::running;
use crate::shared::sweep::{advance, note_stuck, sweep};
use crate::view::{Liveness, Shared};
use crate::wait::{Fences, Wake, claim_wake};
use perfring_abi::RecordWord;
use perfring_abi::atomic::{Ordering, fence};

/// Records published behind the same open reservation before a producer asks whether its owner
/// still lives.
const BEHIND_MAX: u32 = if cfg!(loom) { 1 } else { 64 };

/// How a producer of a shared ring ends its reservations.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(super) me: Owner,
    pub(super) fences: Fences,
    /// Where `data_head` stood at the last publish behind an open reservation, and how many in a row
    /// found it there.
    pub(super) behind: (u64, u32),
}

impl Ends {
    /// The swap that ends a reservation, and what follows from it.
    #[inline(always)]
    pub(crate) fn end<P: Liveness>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        start: u64,
        word: RecordWord,
        size: u64,
        wake: Wake,
    ) -> bool {
        at.ring.word(start).swap(word.raw(), Ordering::SeqCst); // N, O
        // loom takes SeqCst accesses for acquire and release ones, and knows the fence.
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        self.ended_at(at, liveness, wake, start + size)
    }

    /// After a record was published behind an open one.
    #[cold]
    pub(crate) fn ended<P: Liveness>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        wake: Wake,
        end: u64,
    ) -> bool {
        fence(Ordering::SeqCst); // O
        self.ended_at(at, liveness, wake, end)
    }

    #[inline(always)]
    pub(crate) fn ended_at<P: Liveness>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        wake: Wake,
        end: u64,
    ) -> bool {
        let head = advance(at);
        if head < end {
            self.wait_behind(at, liveness, head);
            // Whoever sleeps will not be woken by what is published here: it is to look whether
            // the one that holds it up is dead.
            return self.wake(at, if wake == Wake::No { wake } else { Wake::Force }, head);
        }
        self.wake(at, wake, head)
    }

    #[inline(always)]
    pub(crate) fn wake(&self, at: Shared<'_>, wake: Wake, head: u64) -> bool {
        if wake == Wake::No {
            return false;
        }
        self.fences.light(); // I, pairs with J
        // Relaxed: I orders it.
        at.ring.header.wait.armed.load(Ordering::Relaxed) != 0 && claim(at, wake, head)
    }

    /// Asks now and then whether the owner of the reservation that holds up the head is alive.
    #[cold]
    fn wait_behind<P: Liveness>(&mut self, at: Shared<'_>, liveness: &P, head: u64) {
        let (pos, times) = self.behind;
        self.behind = if pos == head { (head, times + 1) } else { (head, 1) };
        if !self.behind.1.is_multiple_of(BEHIND_MAX) {
            return;
        }
        let Some(owner) = at.held_up() else { return };
        if owner != self.me.index
            && (owner as usize) < at.slots.len()
            && !liveness.is_alive(owner)
            && self.me.lock(at, liveness).is_ok()
        {
            // Again under the lock: its slot may have another holder by now, who has swept it.
            if !liveness.is_alive(owner) {
                sweep(at, owner);
            }
            self.me.unlock(at);
        } else {
            note_stuck(at, liveness, head);
        }
    }
}

/// A producer saw a sleeper. The ledger counts open records too, so one who waits for so many may be
/// woken somewhat early; and where it is stale, at once.
#[cold]
fn claim(at: Shared<'_>, wake: Wake, head: u64) -> bool {
    claim_wake(&at.ring.header.wait, wake, head, running::records(at))
}
