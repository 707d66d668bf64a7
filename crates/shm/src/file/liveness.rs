//! What the algorithm of shared rings asks of the system.

use crate::file::open::{RingFile, Seat};
use crate::sys::clock::now_ns;
use perfring_ring::Liveness;

/// Rounds in which a waiting producer spins; after that it lets others run, as the holder of the
/// lock may be one that had to stop for it.
const SPIN_ROUNDS: u32 = 16;

/// `PAUSE` instructions of the first of them, some 0.4 µs. Whoever has the lock's line then
/// publishes some dozen records in a row: two producers move the more, the seldomer the line changes
/// hands (`benches/NOTES.md` has the figures).
const PAUSES: u32 = 16;

/// Asks the kernel who holds the locks on the slots of one ring.
#[derive(Clone, Debug)]
pub(crate) struct Kernel(pub(crate) RingFile);

impl Liveness for Kernel {
    fn is_alive(&self, slot: u32) -> bool {
        // No such slot: somebody damages the ring. Nobody is robbed for that; nor if asking fails, as a
        // file system without such locks has no shared rings.
        slot > self.0.layout.slots || self.0.is_held(Seat::Producer(slot)).unwrap_or(true)
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

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

/// Whether the producer in a slot is dead, as the kernel says.
pub(crate) fn is_dead(ring: &RingFile) -> impl Fn(u32) -> bool + use<> {
    let liveness = Kernel(ring.clone());
    move |slot| !liveness.is_alive(slot)
}
