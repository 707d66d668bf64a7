//! Recovering a shared ring by whoever may write it and is no producer.

use crate::file::error::AttachError;
use crate::file::liveness::Kernel;
use crate::file::location::Location;
use crate::file::open::{Access, RingFile};
use crate::map::address_range::DataAccess;
use crate::map::mirror::Mirror;
use crate::sys::clock::now_ns;
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::{Producers, RECOVER_LOCK_BYTE};
use perfring_ring::{Recovered, Refusal};

/// Ends what dead producers of a shared ring left open, and frees its lock if a dead one holds it.
/// Records that waited behind are published. Of an exclusive ring there is nothing to recover: the
/// next producer goes on where the last one stopped.
///
/// # Errors
/// See [`AttachError`]; [`AttachError::HeldUp`] if the lock is held by a producer that lives.
pub fn recover(location: impl Into<Location>) -> Result<Recovered, AttachError> {
    let ring = RingFile::open(location.into(), Access::Write)?;
    if ring.layout.producers == Producers::One {
        return Ok(Recovered::default());
    }
    recover_file(&ring)
}

/// As [`recover`], of an open file. Nothing, if somebody else is at it.
pub(crate) fn recover_file(ring: &RingFile) -> Result<Recovered, AttachError> {
    let io = |source| ring.io("locking it to recover it", source);
    let Some(_lock) = ByteLock::take(&ring.file, RECOVER_LOCK_BYTE).map_err(io)? else {
        return Ok(Recovered::default());
    };
    let map = Mirror::map(ring, DataAccess::Write)?;
    let liveness = Kernel(ring.clone());
    // The time is an epoch that no other recovery of this ring had: they hold a lock in turn.
    let recovered = perfring_ring::recover(map.shared(), now_ns(), &liveness);
    futex::wake_if(map.ring().force_wake(), map.ring().wait_word());
    recovered.map_err(|refusal| match refusal {
        Refusal::Contended { slot } => ring.held_up(slot),
        _ => ring.corrupt(perfring_ring::Corrupt { pos: map.ring().head() }),
    })
}
