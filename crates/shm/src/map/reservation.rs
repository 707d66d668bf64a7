//! Reservations of the exclusive producer.

use crate::map::write_window::{End, WriteWindow};
use perfring_abi::RecordType;
use perfring_ring::{Refusal, Reserved, Wake};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

impl WriteWindow {
    /// Reserves space for one record, in place. A refusal is not counted. `now` is as in [`WriteWindow::put`].
    ///
    /// # Errors
    /// What `refused` makes of a refusal.
    #[inline(always)]
    pub fn reserve<E>(
        &mut self,
        kind: RecordType,
        len: usize,
        end: End,
        now: impl FnOnce(&mut Self) -> u64,
        refused: impl FnOnce(&mut Self, Refusal) -> E,
    ) -> Result<Reservation<'_>, E> {
        match self.reserve_bytes(kind, len, now) {
            Ok(reserved) => Ok(self.open(reserved, end)),
            Err(refusal) => Err(refused(self, refusal)),
        }
    }

    /// Reserves space for one record, in place, and attempts it again until `wait` returns an error.
    ///
    /// # Errors
    /// What `wait` returns.
    #[inline(always)]
    pub fn reserve_when<E>(
        &mut self,
        kind: RecordType,
        len: usize,
        end: End,
        mut now: impl FnMut(&mut Self) -> u64,
        mut wait: impl FnMut(&mut Self, Refusal) -> Result<(), E>,
    ) -> Result<Reservation<'_>, E> {
        loop {
            // Here and not in `wait`: the compiler then knows the reservation where it is used.
            match self.reserve_bytes(kind, len, &mut now) {
                Ok(reserved) => return Ok(self.open(reserved, end)),
                Err(refusal) => wait(self, refusal)?,
            }
        }
    }

    #[inline(always)]
    fn open(&mut self, reserved: Reserved, end: End) -> Reservation<'_> {
        // SAFETY: `reserve_bytes` just made the reservation, by this mapping's writer.
        unsafe { self.map.zero_last_word(&reserved) };
        Reservation { window: self, reserved, end }
    }
}

/// The bytes of one record, in the ring: write them, then commit. A dropped reservation is
/// discarded.
///
/// The bytes are what was there last, not zeros. Where other users may write the ring's file, they are private memory,
/// and a commit copies them to the ring: see [`Trust`](crate::Trust).
#[derive(Debug)]
#[must_use = "a reservation that is dropped is discarded"]
pub struct Reservation<'a> {
    pub(super) window: &'a mut WriteWindow,
    pub(super) reserved: Reserved,
    pub(super) end: End,
}

impl Reservation<'_> {
    /// Commits and publishes the record.
    #[inline(always)]
    pub fn commit(self) {
        let len = self.reserved.len();
        self.commit_len(len);
    }

    /// Commits and publishes the first `len` bytes; the rest of the space is freed. If `len`
    /// exceeds the reservation, commits all of it.
    #[inline(always)]
    pub fn commit_len(self, len: usize) {
        // Not `drop`, which would discard.
        let mut this = ManuallyDrop::new(self);
        let reserved = this.reserved;
        let len = len.min(reserved.len());
        // SAFETY: the reservation is this window's open one, and no slice of it is left: `self`
        // would be borrowed.
        let reserved = unsafe { this.window.map.settle(reserved, len) };
        if len < reserved.len() {
            // SAFETY: as above.
            unsafe { this.window.map.zero_padding(&reserved, len) };
        }
        let end = this.end;
        this.window.end(reserved, len, end);
    }

    /// Discards the reservation: readers skip the hole.
    #[inline]
    pub fn discard(self) {}

    /// The position of the record in the stream.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.reserved.pos()
    }
}

impl Deref for Reservation<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: as in `deref_mut`, for reading: `&self` keeps every `&mut` away.
        unsafe { self.window.map.open_bytes(&self.reserved).as_ref() }
    }
}

impl DerefMut for Reservation<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: only the window's writer made the reservation, it has not ended, and the window is
        // borrowed for as long as it lives: it is the only open one of this mapping, and `&mut self`
        // makes this the only slice of it. No other process writes there: the space was free (D) or
        // evicted (E), and the lock on the slot keeps every other producer out. Observers may read it
        // meanwhile, by atomic loads of their own mapping, and throw away what they read. A process
        // that breaks the protocol could write there only if it may write the file: where another user
        // may, and nobody has promised that none does, the bytes are this process's own (`Loan`).
        unsafe { self.window.map.open_bytes(&self.reserved).as_mut() }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let window = &mut *self.window;
        window.writer.discard(window.map.ring(), self.reserved.settled());
        if self.end != End::Hold {
            window.publish(Wake::Auto);
        }
    }
}
