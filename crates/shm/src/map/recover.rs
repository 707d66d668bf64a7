//! Recovery of a shared ring by any process that may write it.

use crate::file::error::AttachError;
use crate::file::liveness::{FileLocks, drop_dead_of};
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile};
use crate::file::trust::Trust;
use crate::map::address_range::DataAccess;
use crate::map::mirror::Mirror;
use crate::sys::clock::now_ns;
use crate::sys::fork::{self, NoFork, NotForChildren};
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::{Producers, RECOVER_LOCK_BYTE};
use perfring_ring::{Recovered, Refusal};

/// Ends the reservations of a shared ring's dead producers, and frees its lock if a dead producer holds
/// it. Records that waited behind them are published. An exclusive ring needs no recovery: the next
/// producer continues where the last producer stopped. Producers no longer wait for dead named consumers.
///
/// # Errors
/// See [`AttachError`]; [`AttachError::HeldUp`] if a live producer holds the lock.
pub fn recover(location: impl Into<Location>) -> Result<Recovered, AttachError> {
    let location = location.into();
    let opening = fork::hold_off();
    let ring = RingFile::open(location, FileAccess::Write)?;
    Trust::Auto.guards_mapping(&ring)?;
    if ring.layout.consumers != 0 {
        drop_dead_of(&ring, Mirror::map(&ring, DataAccess::Write)?.ring());
    }
    if ring.layout.producers == Producers::One {
        return Ok(Recovered::default());
    }
    recover_with(&ring, opening)
}

/// Recovers an open file. Does nothing if another process is recovering it; fails if a process that may
/// only read the file prevents it.
pub(crate) fn recover_file(ring: &RingFile) -> Result<Recovered, AttachError> {
    recover_with(ring, fork::hold_off())
}

fn recover_with(ring: &RingFile, opening: NoFork) -> Result<Recovered, AttachError> {
    let map = Mirror::map(ring, DataAccess::Write)?;
    // Before the lock is taken: a child forked in between would keep it.
    let _children = NotForChildren::new(map.ranges(), &ring.file);
    drop(opening);
    let io = |source| ring.io("locking it to recover it", source);
    let Some(_lock) = ByteLock::take(&ring.file, RECOVER_LOCK_BYTE).map_err(io)? else {
        return ring.read_locked((RECOVER_LOCK_BYTE, 1)).map_or(Ok(Recovered::default()), Err);
    };
    let liveness = FileLocks(ring.clone());
    // The time serves as an epoch that no other recovery of this ring had: recoveries hold a lock
    // in turn.
    let recovered = perfring_ring::recover(map.shared(), now_ns(), &liveness);
    futex::rouse(map.ring());
    if let Some(error) = map.guard.cut_off() {
        return Err(ring.corrupt(error));
    }
    recovered.map_err(|refusal| match refusal {
        Refusal::Contended { slot } => ring.held_up(slot),
        _ => ring.corrupt(perfring_ring::Corrupt { pos: map.ring().head() }),
    })
}
