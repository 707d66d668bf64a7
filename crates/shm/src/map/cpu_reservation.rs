//! What a process has reserved in a ring per CPU.

use crate::map::cpu_slow::Slow;
use perfring_ring::Reserved;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The bytes of one record of a ring per CPU: write them, then commit, on any CPU. A dropped reservation
/// is discarded.
///
/// The bytes are what was there last, not zeros. Where other users may write the ring's file, they are private memory, and a commit
/// copies them to the ring: see [`Trust`](crate::Trust). Nothing younger in this ring is published while
/// it is open, and no sequence runs: keep it short. Not to be ended by a signal handler that interrupts
/// another call with this ring.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is discarded"]
pub struct CpuReservation<'a> {
    pub(super) slow: &'a Slow,
    pub(super) reserved: Reserved,
    pub(super) bytes: NonNull<[u8]>,
}

// SAFETY: the bytes are in a mapping that belongs to no thread, and nobody else has them.
unsafe impl Send for CpuReservation<'_> {}
// SAFETY: `&self` only reads them.
unsafe impl Sync for CpuReservation<'_> {}

impl CpuReservation<'_> {
    /// Commits the record. It is published as soon as nothing older in this ring is open.
    pub fn commit(self) {
        let len = self.reserved.len();
        self.commit_len(len);
    }

    /// Commits the first `len` bytes; the rest becomes a hole. If `len` exceeds the reservation,
    /// commits all of it.
    pub fn commit_len(self, len: usize) {
        // Not `drop`, which would discard.
        let this = ManuallyDrop::new(self);
        this.slow.end_reservation(|slow| slow.commit_loose(this.reserved, len));
    }

    /// Discards the reservation: readers skip the hole.
    pub fn discard(self) {}
}

impl Deref for CpuReservation<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as in `deref_mut`, for reading.
        unsafe { self.bytes.as_ref() }
    }
}

impl DerefMut for CpuReservation<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: in the mapping of the window, which lives longer. The reservation is open and this process's,
        // and no other overlaps it: see `shared_window`; and while one is open no sequence of this process runs
        // (`Place::held`). `&mut self` makes this the only slice of it. In a forked child it is private memory.
        unsafe { self.bytes.as_mut() }
    }
}

impl Drop for CpuReservation<'_> {
    fn drop(&mut self) {
        self.slow.end_reservation(|slow| slow.discard_loose(self.reserved));
    }
}
