//! Reservations of a producer of a shared ring: for one record, or for a batch; and the wait for their space.

use crate::file::liveness::drop_dead_of;
use crate::map::shared_reservation::{BatchReservation, SharedReservation};
use crate::map::shared_window::SharedWindow;
use crate::sys::futex;
use perfring_abi::RecordType;
use perfring_ring::{Liveness, Refusal, Wake};
use std::time::Duration;

impl SharedWindow {
    /// Publishes a record whose payload is copied without the ring's lock.
    #[inline(never)]
    pub(super) fn publish_long<P: Liveness>(
        &self,
        liveness: &P,
        kind: RecordType,
        payload: &[u8],
        wake: Wake,
        now: u64,
    ) -> Result<(), Refusal> {
        let (pair, len) = (&self.pair, payload.len());
        let reserved =
            pair.writer.borrow_mut().try_reserve_to_fill(pair.at(), liveness, kind, len, now)?;
        // SAFETY: reserved for this producer just now, of the payload's length, and there is no slice of it.
        unsafe { pair.map.fill_open(&reserved, payload) };
        SharedReservation { pair, reserved }.commit_with(wake);
        Ok(())
    }

    /// Reserves space for one record, in place. A refusal is not counted.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub fn reserve(
        &self,
        kind: RecordType,
        len: usize,
        now: impl FnOnce() -> u64,
    ) -> Result<SharedReservation<'_>, Refusal> {
        self.reserve_by(&self.pair.patient, kind, len, now)
    }

    /// Like [`SharedWindow::reserve`], and does not wait for the lock.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve(
        &self,
        kind: RecordType,
        len: usize,
        now: impl FnOnce() -> u64,
    ) -> Result<SharedReservation<'_>, Refusal> {
        self.reserve_by(&self.pair.liveness, kind, len, now)
    }

    #[inline(always)]
    fn reserve_by<P: Liveness>(
        &self,
        liveness: &P,
        kind: RecordType,
        len: usize,
        now: impl FnOnce() -> u64,
    ) -> Result<SharedReservation<'_>, Refusal> {
        let pair = &self.pair;
        if pair.children.forked() {
            return Err(Refusal::Forked);
        }
        let (at, now) = (pair.at(), now());
        let reserved = pair.writer.borrow_mut().try_reserve(at, liveness, kind, len, now)?;
        // SAFETY: reserved for this producer just now.
        unsafe { pair.map.zero_last_word(&reserved) };
        Ok(SharedReservation { pair, reserved })
    }

    /// Reserves space for records of `bytes` in all, headers, timestamps and padding included. A
    /// refusal is not counted.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub fn batch(
        &self,
        bytes: usize,
        now: impl FnOnce() -> u64,
    ) -> Result<BatchReservation<'_>, Refusal> {
        self.batch_by(&self.pair.patient, bytes, now)
    }

    /// Like [`SharedWindow::batch`], and does not wait for the lock.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub fn try_batch(
        &self,
        bytes: usize,
        now: impl FnOnce() -> u64,
    ) -> Result<BatchReservation<'_>, Refusal> {
        self.batch_by(&self.pair.liveness, bytes, now)
    }

    #[inline(always)]
    fn batch_by<P: Liveness>(
        &self,
        liveness: &P,
        bytes: usize,
        now: impl FnOnce() -> u64,
    ) -> Result<BatchReservation<'_>, Refusal> {
        let pair = &self.pair;
        if pair.children.forked() {
            return Err(Refusal::Forked);
        }
        let (at, now, bytes) = (pair.at(), now(), bytes as u64);
        let span = pair.writer.borrow_mut().try_reserve_span(at, liveness, bytes, now)?;
        Ok(BatchReservation { pair, span, wake: Wake::Auto, in_place: None })
    }

    /// Sleeps until the consumer has released enough for a record of `len` bytes, for at most
    /// `limit`. May return early, so the caller checks again.
    pub fn sleep_for_space(&self, len: usize, limit: Duration) {
        let target = self.space_target(len);
        drop_dead_of(&self.ring, self.pair.at().ring());
        futex::sleep_for_space(self.pair.at().ring(), target, limit);
    }

    /// Has the consumer read, and returns the tail that would let a record of `len` bytes in.
    pub(super) fn space_target(&self, len: usize) -> u64 {
        self.pair.map.guard.look();
        let at = self.pair.at();
        // A consumer that sleeps for a watermark would not release space.
        self.pair.owed(at.ring().force_wake());
        self.pair.writer.borrow().tail_for(at, len)
    }
}
