//! The system calls that the algorithm of shared rings needs: liveness, pauses and the clock.

use crate::file::open::{RingFile, SeatId};
use crate::sys::clock::now_ns;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::JOIN_LOCK_BYTE;
use perfring_ring::{Ring, System, drop_dead, slowest_seats};

/// Rounds in which a waiting producer spins. After that it yields, because the lock's holder may be a
/// thread that was preempted for the waiting producer.
const SPIN_ROUNDS: u32 = 16;

/// `PAUSE` instructions of the first round, some 0.4 µs. The core that has the lock's cache line
/// then publishes some dozen records in a row: the throughput of two producers rises as the line
/// changes cores less often (`benches/NOTES.md` has the figures).
const PAUSES: u32 = 16;

/// Asks the kernel which slots of one ring are locked by a live process.
#[derive(Clone, Debug)]
pub(crate) struct FileLocks(pub(crate) RingFile);

impl System for FileLocks {
    fn is_alive(&self, slot: u32) -> bool {
        // An invalid slot means that the ring is corrupt, so nothing is taken over. If the query fails, nothing is
        // taken over either: a file system without such locks has no shared rings. VERIFICATION.md's "The
        // dead that look alive" has both.
        slot > self.0.layout.slots || self.0.is_held(SeatId::Producer(slot)).unwrap_or(true)
    }

    #[inline]
    fn relax(&self, round: u32) {
        if round < SPIN_ROUNDS {
            for _ in 0..(PAUSES << (round / 2).min(2)) {
                std::hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
    }

    fn drop_dead(&self, ring: Ring<'_>) -> bool {
        drop_dead_of(&self.0, ring)
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

/// Returns whether the producer in a slot is dead, according to the kernel.
pub(crate) fn is_dead(ring: &RingFile) -> impl Fn(u32) -> bool + use<> {
    let liveness = FileLocks(ring.clone());
    move |slot| !liveness.is_alive(slot)
}

/// Drops dead consumers from the awaited consumers, if the slowest is dead. Returns whether there
/// were any. Does nothing while another process joins or drops consumers: then the next call does it.
pub(crate) fn drop_dead_of(ring: &RingFile, at: Ring<'_>) -> bool {
    let is_dead = |seat| !ring.is_held(SeatId::Named(seat)).unwrap_or(true);
    if ring.layout.consumers == 0 || !slowest_seats(at).any(is_dead) {
        return false;
    }
    match ByteLock::take(&ring.file, JOIN_LOCK_BYTE) {
        Ok(Some(_joining)) => drop_dead(at, is_dead),
        _ => false,
    }
}
