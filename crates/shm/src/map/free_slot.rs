//! The checks of a shared ring before a producer takes one of its slots.

use crate::file::error::AttachError;
use crate::file::open::RingFile;
use crate::map::mirror::Mirror;
use crate::sys::ofd_lock::ByteLock;
use perfring_ring::{LOCK_ROUNDS, OwnerInfo, Shared, System};
use std::time::Duration;

/// Refuses a ring whose lock a live producer has and keeps. This needs no look at a slot, and leaves no new owner in a
/// slot.
fn expect_lock(ring: &RingFile, at: Shared<'_>, liveness: &impl System) -> Result<(), AttachError> {
    for round in 0..LOCK_ROUNDS {
        if at.locked_by().is_none() {
            return Ok(());
        }
        liveness.relax(round);
    }
    match at.locked_by().filter(|slot| liveness.is_alive(*slot)) {
        Some(slot) => Err(ring.held_up(slot)),
        None => Ok(()),
    }
}

/// Takes a free slot, preferably a slot that was never held, so that the owner info of dead producers
/// stays visible as long as possible.
pub(super) fn take_slot(
    ring: &RingFile,
    map: &Mirror,
    liveness: &impl System,
    attach_wait: Duration,
) -> Result<(u32, ByteLock), AttachError> {
    if attach_wait.is_zero() {
        expect_lock(ring, map.shared(), liveness)?;
    }
    let fresh = |slot: &u32| OwnerInfo::read(&map.slots()[*slot as usize].holder).epoch == 0;
    let all = 0..ring.layout.slots;
    let mut taken = 0;
    let lock = ring.take_with(|| {
        for slot in all.clone().filter(fresh).chain(all.clone()) {
            let lock = ByteLock::take(&ring.file, ring.layout.slot_lock_byte(slot));
            if let Some(lock) = lock.map_err(|source| ring.io("locking a slot", source))? {
                taken = slot;
                return Ok(Some(lock));
            }
        }
        Ok(None)
    })?;
    match lock {
        Some(lock) => Ok((taken, lock)),
        None => {
            let location = ring.location.clone();
            let mut bytes = all.clone().map(|slot| (ring.layout.slot_lock_byte(slot), 1));
            let blocked = bytes.find_map(|byte| ring.read_locked(byte));
            Err(blocked.unwrap_or(AttachError::Slots { location, slots: ring.layout.slots }))
        }
    }
}
