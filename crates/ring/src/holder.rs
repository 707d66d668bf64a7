//! The owner info of a seat or slot: hints for people. The file lock decides whether an owner is
//! alive.

use alloc::string::String;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Holder, NAME_WORDS, UID_DETACHED};

/// The present or last holder of a seat or slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerInfo {
    /// The number of holders so far, including this one; 0 for a seat without a holder.
    pub epoch: u64,
    /// `CLOCK_REALTIME` of the attach, ns.
    pub attached_ns: u64,
    /// Process id in the holder's own pid namespace.
    pub pid: u32,
    /// User id in the holder's own user namespace; [`UID_DETACHED`] after the holder has detached.
    pub uid: u32,
    /// The name given at attach.
    pub name: String,
}

impl OwnerInfo {
    /// Writes this to a seat that the caller has locked. The epoch continues from the last
    /// holder's, and is returned.
    pub fn sign(&self, seat: &Holder) -> u64 {
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
        epoch
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

    /// Returns the user; `None` if this holder has detached.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        (self.uid != UID_DETACHED).then_some(self.uid)
    }

    /// Returns the state of this holder. `is_held` says whether the seat's lock is held. Query the lock before you read the
    /// owner info, because a holder that detaches writes the owner info before it releases the lock.
    #[must_use]
    pub fn state(&self, is_held: bool) -> SeatState {
        match () {
            () if is_held => SeatState::Alive,
            () if self.epoch == 0 => SeatState::Free,
            () if self.user().is_none() => SeatState::Detached,
            () => SeatState::Dead,
        }
    }
}

/// Marks a seat's holder with this epoch as detached. This is the holder's last write. Does nothing if the seat has
/// another holder, because locks do not reach everywhere, or if the seat was not signed (epoch 0).
pub fn sign_off(seat: &Holder, epoch: u64) {
    // Relaxed: a process that finds the lock free sees everything that the holder wrote before.
    if epoch != 0 && seat.epoch.load(Ordering::Relaxed) == epoch {
        seat.uid.store(UID_DETACHED, Ordering::Relaxed);
    }
}

/// A seat of a ring as seen from outside: of a producer, of the consumer, or of a named consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat<F = ()> {
    /// Its number: a producer's slot, or the number of a named consumer's seat; else 0.
    pub number: u32,
    /// The state of its holder, or the end of the last holder. The kernel's locks decide it. A reader of the ring alone
    /// leaves [`SeatState::Free`] here.
    pub state: SeatState,
    /// The process that has the seat, or had it last: a hint.
    pub owner: OwnerInfo,
    /// The counts of its holder.
    pub figures: F,
}

impl<F> Seat<F> {
    /// Returns whether a live process holds it, according to the kernel's locks.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.state == SeatState::Alive
    }
}

/// The state of a seat's holder, by the kernel's lock and by the owner info. The greatest of several states needs
/// attention first, unless a holder is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeatState {
    /// No process has taken the seat yet.
    #[default]
    Free,
    /// The holder gave the seat up: it continues without the ring, or it ended by `exit(3)`.
    Detached,
    /// The holder ended without giving the seat up: it was killed or it crashed. A program in C, or with an earlier version
    /// of perfring, that exited while it was attached looks the same.
    Dead,
    /// The holder has the seat. It may be stopped.
    Alive,
}

impl SeatState {
    /// Returns the word of the glossary in `proto/ABI.md` for this state.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            SeatState::Free => "free",
            SeatState::Detached => "detached",
            SeatState::Dead => "dead",
            SeatState::Alive => "alive",
        }
    }
}
