//! The recovery of a ring by somebody who is no producer of it.

use crate::reserve::Refusal;
use crate::shared::owner::Owner;
use crate::shared::slot;
use crate::shared::sweep::{advance, next_dead, sweep};
use crate::view::{Peers, Shared};
use perfring_abi::atomic::{Ordering, fence};

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// For each slot whose owner is dead and had left reservations open: the slot, and how many.
    pub swept: alloc::vec::Vec<(u32, u64)>,
    /// The slot whose dead owner had left the lock taken.
    pub lock: Option<u32>,
}

/// Recovers a ring for somebody who is no producer of it, and who holds the lock of the place after
/// the last slot. `epoch` is a number that no other such call has had.
///
/// # Errors
/// [`Refusal::Contended`] if the ring's lock is held by somebody who lives.
pub fn recover<P: Peers>(at: Shared<'_>, epoch: u64, peers: &P) -> Result<Recovered, Refusal> {
    let owner = Owner::new(at.slots.len() as u32, epoch);
    // Of a dead heir the newest figure may be of a hole that it did not come to make.
    let counts = |index| slot::Losses::load(at, index).reclaimed.records;
    let slots = 0..at.slots.len() as u32;
    let old: alloc::vec::Vec<u64> = slots.clone().map(counts).collect();
    let lock = owner.lock(at, peers)?;
    // Only slots with something open: asking the system for each of hundreds is slow.
    // Each turn ends all that one of them left open.
    for _ in 0..at.slots.len() {
        let Some(slot) = next_dead(at, peers) else { break };
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
