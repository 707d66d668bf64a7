//! The owner info of a seat or slot: hints for people. The file lock decides whether an owner is
//! alive.

use alloc::string::String;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Holder, NAME_WORDS};

/// The present or last holder of a seat or slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerInfo {
    /// How many holders there were, this one included; 0 if there was none.
    pub epoch: u64,
    /// `CLOCK_REALTIME` of the attach, ns.
    pub attached_ns: u64,
    /// Process id in the holder's own pid namespace.
    pub pid: u32,
    /// User id in the holder's own user namespace.
    pub uid: u32,
    /// The name given at attach.
    pub name: String,
}

impl OwnerInfo {
    /// Writes this to a seat that the caller has locked. The epoch continues from the last
    /// holder's.
    pub fn sign(&self, seat: &Holder) {
        // Relaxed throughout: there is one writer at a time, ordered by the lock, and readers only
        // want a hint.
        let epoch = seat.epoch.load(Ordering::Relaxed).wrapping_add(1);
        let mut name = [0; NAME_WORDS * 8];
        let mut len = self.name.len().min(name.len());
        while !self.name.is_char_boundary(len) {
            len -= 1;
        }
        name[..len].copy_from_slice(&self.name.as_bytes()[..len]);
        for (to, from) in seat.name.iter().zip(name.as_chunks::<8>().0) {
            to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
        seat.attached_ns.store(self.attached_ns, Ordering::Relaxed);
        seat.pid.store(self.pid, Ordering::Relaxed);
        seat.uid.store(self.uid, Ordering::Relaxed);
        seat.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Reads the owner info of a seat.
    #[must_use]
    pub fn read(seat: &Holder) -> Self {
        // Relaxed throughout, like `sign`.
        let mut name = [0; NAME_WORDS * 8];
        for (to, from) in name.as_chunks_mut::<8>().0.iter_mut().zip(&seat.name) {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        OwnerInfo {
            epoch: seat.epoch.load(Ordering::Relaxed),
            attached_ns: seat.attached_ns.load(Ordering::Relaxed),
            pid: seat.pid.load(Ordering::Relaxed),
            uid: seat.uid.load(Ordering::Relaxed),
            name: String::from_utf8_lossy(&name[..len]).into_owned(),
        }
    }
}
