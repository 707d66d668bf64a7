//! The end of a reservation, and its consequences: `data_head` advances over everything that
//! has ended, a sleeper is woken, and from time to time the owner of the reservation that holds the head back is
//! checked for liveness.

use crate::shared::owner::Owner;
use crate::shared::running;
use crate::shared::sweep::{advance, note_stuck, sweep};
use crate::view::{Ring, Shared, System};
use crate::wait::{Fences, Owed, Wake, claim_wake};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Header, RecordWord, Slot};

/// Records published behind the same open reservation before a producer checks whether its owner is
/// alive.
const BEHIND_MAX: u32 = if cfg!(loom) { 1 } else { 64 };

/// How a producer of a shared ring ends its reservations.
#[derive(Debug)]
pub(crate) struct Committer {
    pub(super) me: Owner,
    pub(super) fences: Fences,
    /// The `data_head` at the last publish behind an open reservation, and the number of publishes in a row
    /// that found it there.
    pub(super) behind: (u64, u32),
}

impl Committer {
    /// Performs the swap that ends a reservation, and its consequences.
    #[inline(always)]
    pub(crate) fn end<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        start: u64,
        word: RecordWord,
        size: u64,
        wake: Wake,
    ) -> Owed {
        at.ring.word(start).swap(word.raw(), Ordering::SeqCst); // N, O
        // loom treats SeqCst accesses like acquire and release accesses, and models the fence.
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        self.ended_at(at, liveness, wake, start + size)
    }

    /// Called after a record was published behind an open one.
    ///
    /// Takes the ring in parts, so that the call from the hot path passes it in registers.
    #[cold]
    #[inline(never)]
    pub(crate) fn ended<P: System>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        slots: &[Slot],
        liveness: &P,
        wake: Wake,
        end: u64,
    ) -> Owed {
        let at = Shared::new(Ring::new(header, data), slots);
        fence(Ordering::SeqCst); // O
        self.ended_at(at, liveness, wake, end)
    }

    #[inline(always)]
    pub(crate) fn ended_at<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        wake: Wake,
        end: u64,
    ) -> Owed {
        let head = advance(at);
        if head < end {
            self.wait_behind(at, liveness, head);
            // The record behind an open reservation does not reach a sleeper's threshold. The sleeper is woken to check
            // whether the producer that holds the head back is dead.
            let wake = if wake == Wake::No { wake } else { Wake::Force };
            return self.wake(at.ring.header, wake, head);
        }
        self.wake(at.ring.header, wake, head)
    }

    #[inline(always)]
    pub(crate) fn wake(&self, header: &Header, wake: Wake, head: u64) -> Owed {
        if wake == Wake::No {
            return Owed::NOTHING;
        }
        self.fences.light(); // I, pairs with J
        // Relaxed: I orders it.
        if header.wait.armed.load(Ordering::Relaxed) == 0 {
            return Owed::NOTHING;
        }
        claim(header, wake, head)
    }

    /// Checks from time to time whether the owner of the reservation that holds back the head is
    /// alive.
    #[cold]
    fn wait_behind<P: System>(&mut self, at: Shared<'_>, liveness: &P, head: u64) {
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
            // Checked again under the lock: its slot may have another holder by now, which has
            // swept it.
            if !liveness.is_alive(owner) {
                sweep(at, owner, head);
            }
            self.me.unlock(at);
            advance(at);
        } else {
            note_stuck(at, liveness, head);
        }
    }
}

/// Called after a producer saw a sleeper. The running totals count open records too, so a consumer
/// that waits for a number of records may be woken early; and at once if they are stale.
#[cold]
fn claim(header: &Header, wake: Wake, head: u64) -> Owed {
    claim_wake(&header.wait, wake, head, running::records(header))
}
