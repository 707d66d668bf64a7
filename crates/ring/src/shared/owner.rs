//! The lock of a shared ring, and the recovery after owners that died.
//!
//! The lock word names its owner: the slot, and the slot's epoch, which rises at every attach. The
//! lock is never taken from a live owner, however long the owner holds it. The lock of a dead owner (its
//! open-file-description lock is released, which the caller's [`System`] detects) is taken over
//! by compare-and-swap from exactly the word that was seen, so one of any number of successors
//! wins.
//!
//! The stores under the lock are ordered so that a death between any two of them leaves a state from
//! which the successor can continue: see [`repair`].

use crate::reserve::Refusal;
use crate::shared::slot;
use crate::shared::sweep::{advance, next_dead, repair, sweep};
use crate::view::{SLOT_BITS, Shared, System, slot_of};
use alloc::vec::Vec;
use perfring_abi::atomic::{Ordering, fence};

/// Attempts to take a held lock before a producer gives up. [`System::relax`] fills the time between
/// them.
pub const LOCK_ROUNDS: u32 = if cfg!(loom) { 3 } else { 96 };
/// The holder's liveness is checked once in this many attempts.
const ASK_EVERY: u32 = if cfg!(loom) { 1 } else { 24 };

/// The identity with which a producer takes the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) index: u32,
    id: u64,
}

impl Owner {
    pub(crate) fn new(index: u32, epoch: u64) -> Self {
        Owner { index, id: u64::from(index + 1) | epoch << SLOT_BITS }
    }

    /// Returns the epoch, without the bits that the lock word has no room for.
    pub(crate) fn epoch(self) -> u64 {
        self.id >> SLOT_BITS
    }

    /// Takes the lock. Returns the slot of the dead owner, if the lock was taken from
    /// one.
    ///
    /// # Errors
    /// [`Refusal::Contended`] if its owner is alive and keeps it.
    #[inline(always)]
    pub(crate) fn lock<P: System>(
        self,
        at: Shared<'_>,
        liveness: &P,
    ) -> Result<Option<u32>, Refusal> {
        // M, pairs with the release of the last holder.
        let locked =
            match at.lock().compare_exchange(0, self.id, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => Ok(None),
                Err(_) => self.lock_slowly(at, liveness),
            };
        #[cfg(all(test, not(loom)))]
        crate::steps::locked();
        locked
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly<P: System>(self, at: Shared<'_>, liveness: &P) -> Result<Option<u32>, Refusal> {
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
            // A lock word that names the caller's own slot was left by its previous holder: only
            // this producer holds the slot's lock now.
            if seen != 0
                && (owner == self.index
                    || (round % ASK_EVERY == ASK_EVERY - 1 && !liveness.is_alive(owner)))
                && lock
                    .compare_exchange(seen, self.id, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            // M, like the owner's last release, and for everything that it did before it died: all stores of a
            // dead process are visible.
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
        #[cfg(all(test, not(loom)))]
        crate::steps::unlocked();
        at.lock().store(0, Ordering::Release); // M
    }
}

/// The result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// For each slot whose owner is dead and had left reservations open: the slot, and how many.
    pub swept: Vec<(u32, u64)>,
    /// The slot whose dead owner had left the lock taken.
    pub lock: Option<u32>,
}

/// Recovers a ring for a caller that is no producer of it and holds the lock byte after the last
/// slot. `epoch` is a number that no other such call has used.
///
/// # Errors
/// [`Refusal::Contended`] if the ring's lock is held by a live process.
pub fn recover<P: System>(at: Shared<'_>, epoch: u64, liveness: &P) -> Result<Recovered, Refusal> {
    let owner = Owner::new(at.slots.len() as u32, epoch);
    // If a successor also died, the newest figure may count a hole that it did not make.
    let counts = |index| slot::Losses::load(at, index).reclaimed.records;
    let slots = 0..at.slots.len() as u32;
    let old: Vec<u64> = slots.clone().map(counts).collect();
    let mut lock = owner.lock(at, liveness)?;
    owner.unlock(at);
    // Only slots with open reservations, because a system call for each of hundreds of slots is slow. Each iteration
    // ends reservations of one slot, and continues behind them.
    let mut from = at.ring.head();
    while let Some((record, slot)) = next_dead(at, liveness, from) {
        lock = lock.or(owner.lock(at, liveness)?);
        // Its slot may have another holder by now, which ends the reservations itself.
        if !liveness.is_alive(slot) {
            sweep(at, slot, record.pos);
        }
        owner.unlock(at);
        from = record.end();
    }
    // A producer may have died between the end of a record and its advance: nothing is open, but the record is not
    // published.
    fence(Ordering::SeqCst); // O
    advance(at);
    let swept = slots.zip(old).filter_map(|(index, old)| {
        let more = counts(index).saturating_sub(old);
        (more > 0).then_some((index, more))
    });
    Ok(Recovered { swept: swept.collect(), lock })
}
