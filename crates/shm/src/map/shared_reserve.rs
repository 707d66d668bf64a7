//! Reservations of a producer of a shared ring: for one record, or for a batch; and the sleep until there is space.

use crate::file::liveness::drop_dead_of;
use crate::map::batch_reservation::BatchReservation;
use crate::map::reservation::{Reservation, Reserves, SharedSpace};
use crate::map::shared_window::SharedWindow;
use crate::sys::futex;
use perfring_abi::RecordType;
use perfring_ring::{Claim, Refusal};
use std::time::Duration;

impl SharedWindow {
    /// Reserves space for one record, in place. A refusal is not counted. `now` returns the current time. `wait` returns the object
    /// that waits after each refusal, until the wait ends with the refusal that this returns.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn reserve<P, T, W>(
        &self,
        kind: RecordType,
        len: usize,
        now: impl Fn() -> u64,
        wait: impl FnOnce() -> W,
    ) -> Result<Reservation<'_, P, T>, Refusal>
    where
        P: for<'b> Reserves<Space<'b> = SharedSpace<'b>>,
        T: ?Sized,
        W: FnMut(Refusal) -> Result<(), Refusal>,
    {
        let claim = match self.claim(kind, len, &now) {
            Ok(claim) => claim,
            Err(refusal) => self.claim_after(refusal, kind, len, &now, wait())?,
        };
        // In one place: the compiler then knows the length where it is used.
        let (space, reserved) = (SharedSpace(&self.pair), claim.of(kind, len));
        // SAFETY: reserved for this producer just now.
        unsafe { space.0.map.zero_last_word(reserved.site(), len) };
        Ok(Reservation::new(space, reserved))
    }

    #[inline(always)]
    pub(super) fn claim(
        &self,
        kind: RecordType,
        len: usize,
        now: &impl Fn() -> u64,
    ) -> Result<Claim, Refusal> {
        let pair = &self.pair;
        if pair.children.forked() {
            return Err(Refusal::Forked);
        }
        let now = now();
        let mut writer = pair.writer.borrow_mut();
        Ok(writer.reserve(pair.at(), &pair.liveness, kind, len, now)?.into_claim())
    }

    /// Continues after a refusal of the first attempt, which is where the caller is.
    #[cold]
    #[inline(never)]
    fn claim_after(
        &self,
        mut refusal: Refusal,
        kind: RecordType,
        len: usize,
        now: &impl Fn() -> u64,
        mut wait: impl FnMut(Refusal) -> Result<(), Refusal>,
    ) -> Result<Claim, Refusal> {
        loop {
            wait(refusal)?;
            match self.claim(kind, len, now) {
                Ok(claim) => return Ok(claim),
                Err(again) => refusal = again,
            }
        }
    }

    /// Reserves space for records of `bytes` in all, headers, timestamps and padding included. A
    /// refusal is not counted. Does not wait for the lock.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub fn batch(&self, bytes: usize, now: u64) -> Result<BatchReservation<'_>, Refusal> {
        let pair = &self.pair;
        if pair.children.forked() {
            return Err(Refusal::Forked);
        }
        let mut writer = pair.writer.borrow_mut();
        let span = writer.reserve_span(pair.at(), &pair.liveness, bytes as u64, now)?;
        Ok(BatchReservation { pair, span, in_place: None })
    }

    /// Sleeps until the consumer has released enough for a record of `len` bytes, for at most
    /// `limit`. May return early, so the caller checks again.
    pub fn sleep_for_space(&self, len: usize, limit: Duration) {
        let target = self.space_target(len);
        drop_dead_of(&self.pair.ring, self.pair.at().ring());
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
