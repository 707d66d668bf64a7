//! Reservations of the exclusive producer.

use crate::map::write_window::{End, Forked, TimeKeeper, WriteWindow};
use perfring_abi::RecordType;
use perfring_ring::{Denied, Refusal, Reserved, Wake, Writer};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

impl WriteWindow {
    /// Reserves space for one record, in place. A refusal is not counted.
    ///
    /// # Errors
    /// What `refused` makes of a refusal; [`Forked`].
    #[inline(always)]
    pub fn reserve_or<E: From<Forked>>(
        &mut self,
        kind: RecordType,
        len: usize,
        end: End,
        now: impl FnOnce(TimeKeeper<'_>) -> u64,
        refused: impl FnOnce(&mut Self, Refusal) -> E,
    ) -> Result<Reservation<'_>, E> {
        if self.forked() {
            return Err(Forked.into());
        }
        match self.try_reserve(kind, len, now) {
            Ok(reserved) => {
                // SAFETY: this mapping's writer just made the reservation.
                unsafe { self.map.zero_last_word(&reserved) };
                Ok(Reservation { window: self, reserved, end })
            }
            Err(refusal) => Err(refused(self, refusal)),
        }
    }

    /// Reserves space as [`WriteWindow::reserve_or`] does, and counts refusals as
    /// [`WriteWindow::put_or_count`] does.
    ///
    /// # Errors
    /// As of [`WriteWindow::reserve_or`]; [`Refusal::Full`].
    #[inline(always)]
    pub fn reserve_or_count<E: From<Forked> + From<Refusal>>(
        &mut self,
        kind: RecordType,
        len: usize,
        end: End,
        now: impl FnOnce(TimeKeeper<'_>) -> u64,
        refused: impl FnOnce(&mut Self, Refusal) -> E,
    ) -> Result<Reservation<'_>, E> {
        if self.forked() {
            return Err(Forked.into());
        }
        let Self { map, writer, .. } = self;
        let now = |writer: &mut Writer| now(TimeKeeper { map, writer });
        match writer.reserve_or_count(map.ring(), kind, len, now) {
            Ok(reserved) => {
                // SAFETY: this mapping's writer just made the reservation.
                unsafe { self.map.zero_last_word(&reserved) };
                Ok(Reservation { window: self, reserved, end })
            }
            Err(Denied::FullAgain) => Err(Refusal::Full.into()),
            Err(Denied::Uncounted(refusal)) => Err(refused(self, refusal)),
        }
    }

    /// Reserves space for one record, and retries until `wait` returns an error.
    ///
    /// # Errors
    /// What `wait` returns; [`Forked`].
    #[inline(always)]
    pub fn reserve_when<E: From<Forked>>(
        &mut self,
        kind: RecordType,
        len: usize,
        end: End,
        mut now: impl FnMut(TimeKeeper<'_>) -> u64,
        mut wait: impl FnMut(&mut Self, Refusal) -> Result<(), E>,
    ) -> Result<Reservation<'_>, E> {
        if self.forked() {
            return Err(Forked.into());
        }
        let reserved = loop {
            // Here and not in `wait`: the compiler then knows the reservation where it is used.
            match self.try_reserve(kind, len, &mut now) {
                Ok(reserved) => break reserved,
                Err(refusal) => wait(self, refusal)?,
            }
        };
        // SAFETY: this mapping's writer just made the reservation.
        unsafe { self.map.zero_last_word(&reserved) };
        Ok(Reservation { window: self, reserved, end })
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
        self.commit_with(Wake::Auto);
    }

    /// Commits and publishes the record, choosing whether to wake a sleeping consumer. In a batch
    /// the batch decides.
    #[inline(always)]
    pub fn commit_with(self, wake: Wake) {
        let len = self.reserved.len();
        self.end(len, wake);
    }

    /// Commits and publishes the first `len` bytes; the rest of the space is freed. If `len`
    /// exceeds the reservation, commits all of it.
    #[inline(always)]
    pub fn commit_len(self, len: usize) {
        self.end(len, Wake::Auto);
    }

    /// Discards the reservation: readers skip the hole.
    #[inline]
    pub fn discard(self) {}

    /// The position of the record in the stream.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.reserved.pos()
    }

    /// Of a record of this window: what is to be committed by [`WriteWindow::end`], or is left behind
    /// without a trace.
    pub(super) fn into_reserved(self, of: *const WriteWindow) -> Reserved {
        let this = ManuallyDrop::new(self);
        assert!(std::ptr::eq(of, this.window), "a reservation of another ring");
        this.reserved
    }

    #[inline(always)]
    fn end(self, len: usize, wake: Wake) {
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
        let end = match this.end {
            End::Publish(_) => End::Publish(wake),
            End::Hold => End::Hold,
        };
        this.window.end(reserved, len, end);
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
