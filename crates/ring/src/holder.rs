//! The owner info of a seat or slot: hints for people. The file lock decides whether an owner is
//! alive.

use alloc::string::String;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Holder, NAME_WORDS, UID_DETACHED};

/// The present or last holder of a seat or slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerInfo {
    /// How many holders there were, this one included; 0 if there was none.
    pub epoch: u64,
    /// `CLOCK_REALTIME` of the attach, ns.
    pub attached_ns: u64,
    /// Process id in the holder's own pid namespace.
    pub pid: u32,
    /// User id in the holder's own user namespace; [`UID_DETACHED`] once it has detached.
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

    /// Returns the state of this holder. `is_held` says whether the seat's lock is held: ask for that before you read the
    /// owner info, as a holder that detaches writes to it before the lock is free.
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

/// Says in a seat that the holder with this epoch detaches: the last thing that it writes. Does nothing if the seat
/// has another by now, as locks do not reach everywhere, or if it was not signed (0).
pub fn sign_off(seat: &Holder, epoch: u64) {
    // Relaxed: who finds the lock free sees what its holder wrote before.
    if epoch != 0 && seat.epoch.load(Ordering::Relaxed) == epoch {
        seat.uid.store(UID_DETACHED, Ordering::Relaxed);
    }
}

/// A seat of a ring as seen from outside: of a producer, of the consumer, or of a named consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat<F = ()> {
    /// Its number: a producer's slot, or the number of a named consumer's seat; else 0.
    pub number: u32,
    /// How its holder is, or how the last one ended. The kernel's locks say it: what reads only the ring leaves
    /// [`SeatState::Free`] here.
    pub state: SeatState,
    /// The process that has it, or had it last; hints.
    pub owner: OwnerInfo,
    /// What its holder has done.
    pub figures: F,
}

impl<F> Seat<F> {
    /// Returns whether a live process holds it, according to the kernel's locks.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.state == SeatState::Alive
    }
}

/// How the holder of a seat is, by the kernel's lock and by what it wrote to the ring. The greatest of several needs
/// attention first, unless one is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeatState {
    /// No process has taken the seat yet.
    #[default]
    Free,
    /// It gave the seat up: it continues without the ring, or it ended by `exit(3)`.
    Detached,
    /// It ended without giving the seat up: it was killed or it crashed. Or it is a program in C, or one with an earlier version of
    /// perfring, that exited while it was attached.
    Dead,
    /// It has the seat. It may be stopped.
    Alive,
}

impl SeatState {
    /// Returns the word for it, of the glossary in `proto/ABI.md`.
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
