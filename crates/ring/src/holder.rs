//! Who holds, or last held, a place: hints for people. Liveness is the lock's to tell.

use alloc::string::String;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Holder, NAME_WORDS};

/// A holder's signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerInfo {
    /// How many have held the place, this one included; 0 if nobody ever did.
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
    /// Signs for a place that the caller has locked. The epoch is counted on from the last holder's.
    pub fn sign(&self, place: &Holder) {
        // Relaxed throughout: one writer at a time, whom the lock orders, and readers who want a
        // hint.
        let epoch = place.epoch.load(Ordering::Relaxed).wrapping_add(1);
        let mut name = [0; NAME_WORDS * 8];
        let mut len = self.name.len().min(name.len());
        while !self.name.is_char_boundary(len) {
            len -= 1;
        }
        name[..len].copy_from_slice(&self.name.as_bytes()[..len]);
        for (to, from) in place.name.iter().zip(name.as_chunks::<8>().0) {
            to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
        place.attached_ns.store(self.attached_ns, Ordering::Relaxed);
        place.pid.store(self.pid, Ordering::Relaxed);
        place.uid.store(self.uid, Ordering::Relaxed);
        place.epoch.store(epoch, Ordering::Relaxed);
    }

    /// What stands at a place.
    #[must_use]
    pub fn read(place: &Holder) -> Self {
        // Relaxed throughout, as in `sign`.
        let mut name = [0; NAME_WORDS * 8];
        for (to, from) in name.as_chunks_mut::<8>().0.iter_mut().zip(&place.name) {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        OwnerInfo {
            epoch: place.epoch.load(Ordering::Relaxed),
            attached_ns: place.attached_ns.load(Ordering::Relaxed),
            pid: place.pid.load(Ordering::Relaxed),
            uid: place.uid.load(Ordering::Relaxed),
            name: String::from_utf8_lossy(&name[..len]).into_owned(),
        }
    }
}
