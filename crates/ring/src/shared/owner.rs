//! The lock of a shared ring, and what is done about owners that died.
//!
//! The lock word names its owner: the slot, and the slot's epoch, which rises at every attach. An
//! owner that lives is never robbed, however long it takes; one that is dead (its
//! open-file-description lock is gone, which the caller's [`Liveness`] can tell) is taken over by
//! compare-and-swap from exactly the word that was seen, so one of any number of heirs wins.
//!
//! What the lock guards is written so that a death between any two stores leaves a state from
//! which the heir can go on: see [`repair`].

use crate::reserve::Refusal;
use crate::shared::slot;
use crate::shared::sweep::{advance, next_dead, repair, sweep};
use crate::view::{Liveness, SLOT_BITS, Shared, slot_of};
use alloc::vec::Vec;
use perfring_abi::atomic::{Ordering, fence};

/// Looks at a held lock before a producer gives up. What passes between them is [`Liveness::relax`]'s
/// to say.
pub const LOCK_ROUNDS: u32 = if cfg!(loom) { 3 } else { 96 };
/// Every so many of them, it is asked whether the holder lives.
const ASK_EVERY: u32 = if cfg!(loom) { 1 } else { 24 };

/// Who takes the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) index: u32,
    id: u64,
}

impl Owner {
    pub(crate) fn new(index: u32, epoch: u64) -> Self {
        Owner { index, id: u64::from(index + 1) | epoch << SLOT_BITS }
    }

    /// Takes the lock, and says which dead owner it was taken from, if it was.
    ///
    /// # Errors
    /// [`Refusal::Contended`] if its owner lives and keeps it.
    #[inline(always)]
    pub(crate) fn lock<P: Liveness>(
        self,
        at: Shared<'_>,
        liveness: &P,
    ) -> Result<Option<u32>, Refusal> {
        // M, pairs with the release of whoever had it.
        match at.lock().compare_exchange(0, self.id, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(None),
            Err(_) => self.lock_slowly(at, liveness),
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly<P: Liveness>(
        self,
        at: Shared<'_>,
        liveness: &P,
    ) -> Result<Option<u32>, Refusal> {
        let lock = at.lock();
        let mut seen = lock.load(Ordering::Relaxed);
        for round in 0..LOCK_ROUNDS {
            if seen == 0 {
                match lock.compare_exchange(0, self.id, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Ok(None), // M
                    Err(now) => seen = now,
                }
            }
            let owner = slot_of(seen);
            // A word of one's own slot is a predecessor's: the slot's lock is held by none but
            // this producer now.
            if seen != 0
                && (owner == self.index
                    || (round % ASK_EVERY == ASK_EVERY - 1 && !liveness.is_alive(owner)))
                && lock
                    .compare_exchange(seen, self.id, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            // M, as the owner's last release, and everything it did before it died: a dead
            // process's stores are all out.
            {
                repair(at, owner);
                return Ok(Some(owner));
            }
            liveness.relax(round);
            seen = lock.load(Ordering::Relaxed);
        }
        Err(Refusal::Contended { slot: slot_of(seen) })
    }

    #[inline(always)]
    pub(crate) fn unlock(self, at: Shared<'_>) {
        at.lock().store(0, Ordering::Release); // M
    }
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// For each slot whose owner is dead and had left reservations open: the slot, and how many.
    pub swept: Vec<(u32, u64)>,
    /// The slot whose dead owner had left the lock taken.
    pub lock: Option<u32>,
}

/// Recovers a ring for somebody who is no producer of it, and who holds the lock of the place after
/// the last slot. `epoch` is a number that no other such call has had.
///
/// # Errors
/// [`Refusal::Contended`] if the ring's lock is held by somebody who lives.
pub fn recover<P: Liveness>(
    at: Shared<'_>,
    epoch: u64,
    liveness: &P,
) -> Result<Recovered, Refusal> {
    let owner = Owner::new(at.slots.len() as u32, epoch);
    // Of a dead heir the newest figure may be of a hole that it did not come to make.
    let counts = |index| slot::Losses::load(at, index).reclaimed.records;
    let slots = 0..at.slots.len() as u32;
    let old: Vec<u64> = slots.clone().map(counts).collect();
    let lock = owner.lock(at, liveness)?;
    // Only slots with something open: asking the system for each of hundreds is slow.
    // Each turn ends all that one of them left open.
    for _ in 0..at.slots.len() {
        let Some(slot) = next_dead(at, liveness) else { break };
        sweep(at, slot);
    }
    // One that died between the end of a record and this: nothing is open, and nothing published.
    fence(Ordering::SeqCst); // O
    advance(at);
    owner.unlock(at);
    let swept = slots.zip(old).filter_map(|(index, old)| {
        let more = counts(index).saturating_sub(old);
        (more > 0).then_some((index, more))
    });
    Ok(Recovered { swept: swept.collect(), lock })
}
