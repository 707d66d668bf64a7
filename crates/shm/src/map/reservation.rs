//! A reservation: the space of one record in any kind of ring, and the producer that ends it.

use crate::map::shared_pair::SharedPair;
use crate::map::write_window::WriteWindow;
use bytemuck::Pod;
use perfring_abi::RecordType;
use perfring_ring::{Claim, End, Refusal, Reserved, Wake};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// One record in the ring of a `P`, as bytes or as a plain struct `T`: write it, then commit. A dropped reservation is discarded.
///
/// The bytes have the previous content of their place, not zeros. If other users may write the ring's file, they are private
/// memory, and a commit copies them to the ring: see [`Trust`](crate::Trust).
///
/// ```
/// # use perfring_shm::{Reservation, Reserves};
/// struct Request<'a, P: Reserves> {
///     record: Option<Reservation<'a, P>>, // committed when the request has ended
/// }
/// ```
///
/// In a ring with many producers nothing younger is published while a reservation is open: keep it short. The thread that made
/// a reservation of a shared ring ends it. Any thread, on any CPU, may end a reservation of a ring per CPU, but not
/// in a signal handler that interrupts another call with this ring.
#[must_use = "a reservation that is dropped is discarded"]
pub struct Reservation<'a, P: Reserves, T: ?Sized = [u8]> {
    space: P::Space<'a>,
    reserved: Reserved,
    of: PhantomData<T>,
}

/// A producer whose records can be written in place.
pub trait Reserves {
    /// The place of its reservations, which also ends them.
    type Space<'a>: Space;
}

/// The place of a reservation, which also ends it.
///
/// # Safety
/// While a reservation is open, and until the space's borrow ends, [`Space::bytes`] returns its bytes, which no other
/// reservation has and no other process writes.
pub unsafe trait Space {
    /// Returns the bytes of an open reservation.
    fn bytes(&self, reserved: &Reserved) -> NonNull<[u8]>;

    /// Commits and publishes the first `len` bytes, or all if there are fewer.
    fn end(&mut self, reserved: Reserved, len: usize);

    /// Makes it a hole.
    fn discard(&mut self, reserved: Reserved);
}

impl<'a, P: Reserves, T: ?Sized> Reservation<'a, P, T> {
    #[inline(always)]
    pub(super) fn new(space: P::Space<'a>, reserved: Reserved) -> Self {
        Reservation { space, reserved, of: PhantomData }
    }

    /// Commits the record. It is published as soon as nothing older is open.
    #[inline(always)]
    pub fn commit(self) {
        let len = self.reserved.len();
        self.end(len);
    }

    #[inline(always)]
    fn end(self, len: usize) {
        // Not `drop`, which would discard.
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it has not ended, and it ends here: nothing uses `this` again.
        let reserved = unsafe { this.spend() };
        this.space.end(reserved, len);
    }

    /// Discards the reservation: readers skip the hole.
    #[inline]
    pub fn discard(self) {}

    /// Takes out the token, which only the end of the reservation does: there must be no second one.
    ///
    /// # Safety
    /// The reservation has not ended, and is not used after this.
    #[inline(always)]
    unsafe fn spend(&mut self) -> Reserved {
        // SAFETY: the field is a valid value. The caller promises that nothing reads it again, and a token needs no drop.
        unsafe { std::ptr::read(&raw const self.reserved) }
    }

    /// Returns the position of the record in the stream.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.reserved.pos()
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`, for reading: `&self` keeps every `&mut` away.
        unsafe { self.space.bytes(&self.reserved).as_ref() }
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the reservation has not ended, which takes `self`, and `&mut self` makes this the only slice of it. That
        // nobody else writes there is what the space promises. Observers may read it meanwhile, by atomic loads of their own
        // mapping, and throw away what they read. A process that breaks the protocol could write there only if it may write
        // the file: where another user may, and nobody has promised that none does, the bytes are this process's own (`Loan`).
        unsafe { self.space.bytes(&self.reserved).as_mut() }
    }
}

impl<P: Reserves> Reservation<'_, P> {
    /// Commits the first `len` bytes; the rest of the space is freed, or becomes a hole. If `len` exceeds the reservation,
    /// commits all of it.
    #[inline(always)]
    pub fn commit_len(self, len: usize) {
        self.end(len);
    }
}

impl<P: Reserves> Deref for Reservation<'_, P> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl<P: Reserves> DerefMut for Reservation<'_, P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl<P: Reserves, T: Pod> Deref for Reservation<'_, P, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        bytemuck::from_bytes(self.bytes()) // reserved for one, and aligned to eight
    }
}

impl<P: Reserves, T: Pod> DerefMut for Reservation<'_, P, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        bytemuck::from_bytes_mut(self.bytes_mut())
    }
}

impl<P: Reserves, T: ?Sized> Drop for Reservation<'_, P, T> {
    fn drop(&mut self) {
        // SAFETY: a commit does not drop it, so it has not ended; nothing comes after a drop.
        let reserved = unsafe { self.spend() };
        self.space.discard(reserved);
    }
}

impl<P: Reserves, T: ?Sized> fmt::Debug for Reservation<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("pos", &self.pos())
            .field("len", &self.reserved.len())
            .finish()
    }
}

/// A ring with one producer.
#[derive(Debug)]
pub struct ExclusiveSpace<'a> {
    window: &'a mut WriteWindow,
    end: End,
}

// SAFETY: only the window's writer makes reservations, and the window is borrowed until this one ends: it is the only open
// one of this mapping. No other process writes there: the space was free (D) or evicted (E), and the lock on the slot keeps
// every other producer out.
unsafe impl Space for ExclusiveSpace<'_> {
    #[inline(always)]
    fn bytes(&self, reserved: &Reserved) -> NonNull<[u8]> {
        self.window.map.open_bytes(reserved.site(), reserved.len())
    }

    #[inline(always)]
    fn end(&mut self, reserved: Reserved, len: usize) {
        let len = len.min(reserved.len());
        // SAFETY: the reservation is this window's open one, and no slice of it is left: the reservation would be borrowed.
        unsafe { self.window.map.settle(reserved.site(), len) };
        if len < reserved.len() {
            // SAFETY: as above.
            unsafe { self.window.map.zero_padding(reserved.site(), len) };
        }
        self.window.end(reserved.settled(), len, self.end);
    }

    // Out of the way of the code for a commit, at whose panics it stands.
    #[cold]
    #[inline(never)]
    fn discard(&mut self, reserved: Reserved) {
        self.window.writer.discard(self.window.attached.map.ring(), reserved.settled());
        if let End::Publish(wake) = self.end {
            self.window.publish(wake);
        }
    }
}

impl WriteWindow {
    /// Reserves space for one record, in place. A refusal is not counted. `now` is as in [`WriteWindow::put`]. After the first
    /// refusal, `wait` returns a closure, which is called after each refusal and waits. Its error ends the attempts.
    ///
    /// # Errors
    /// The errors of `wait` and of its closure.
    #[inline(always)]
    pub fn reserve<P, T, W, E>(
        &mut self,
        kind: RecordType,
        len: usize,
        end: End,
        mut now: impl FnMut(&mut Self) -> u64,
        wait: impl FnOnce(&mut Self, Refusal) -> Result<W, E>,
    ) -> Result<Reservation<'_, P, T>, E>
    where
        P: for<'b> Reserves<Space<'b> = ExclusiveSpace<'b>>,
        T: ?Sized,
        W: FnMut(&mut Self, Refusal) -> Result<(), E>,
    {
        let claim = match self.claim(kind, len, &mut now) {
            Ok(claim) => claim,
            Err(refusal) => {
                let wait = wait(self, refusal)?;
                self.claim_after(refusal, kind, len, now, wait)?
            }
        };
        // In one place: the compiler then knows the length where it is used.
        let reserved = claim.of(kind, len);
        // SAFETY: this mapping's writer just made the reservation.
        unsafe { self.map.zero_last_word(reserved.site(), len) };
        Ok(Reservation::new(ExclusiveSpace { window: self, end }, reserved))
    }

    /// Continues after a refusal of the first attempt, which is where the caller is.
    #[cold]
    #[inline(never)]
    fn claim_after<E>(
        &mut self,
        mut refusal: Refusal,
        kind: RecordType,
        len: usize,
        mut now: impl FnMut(&mut Self) -> u64,
        mut wait: impl FnMut(&mut Self, Refusal) -> Result<(), E>,
    ) -> Result<Claim, E> {
        loop {
            wait(self, refusal)?;
            match self.claim(kind, len, &mut now) {
                Ok(claim) => return Ok(claim),
                Err(again) => refusal = again,
            }
        }
    }
}

/// A ring that several processes write.
#[derive(Debug)]
pub struct SharedSpace<'a>(pub(super) &'a SharedPair);

// SAFETY: the reservation is this producer's, and no other overlaps it: see `shared_window`. In a forked child the mapping is
// private memory.
unsafe impl Space for SharedSpace<'_> {
    #[inline(always)]
    fn bytes(&self, reserved: &Reserved) -> NonNull<[u8]> {
        self.0.map.open_bytes(reserved.site(), reserved.len())
    }

    #[inline(always)]
    fn end(&mut self, reserved: Reserved, len: usize) {
        self.0.end(reserved, len);
    }

    // Out of the way of the code for a commit, at whose panics it stands.
    #[cold]
    #[inline(never)]
    fn discard(&mut self, reserved: Reserved) {
        let pair = self.0;
        if pair.children.forked() {
            return;
        }
        let wake = pair.writer.borrow_mut().discard(pair.at(), &pair.liveness, reserved.settled());
        pair.owed(wake);
    }
}

impl SharedPair {
    // Not always inlined: it contains a whole commit.
    #[inline]
    fn end(&self, reserved: Reserved, len: usize) {
        if reserved.site().is_elsewhere() {
            return self.end_elsewhere(reserved, len);
        }
        self.end_here(reserved, len);
    }

    /// Separate from the hot path, which contains nothing of it.
    #[cold]
    #[inline(never)]
    fn end_elsewhere(&self, reserved: Reserved, len: usize) {
        if !self.children.forked() {
            let len = len.min(reserved.len());
            // SAFETY: the reservation is open and this producer's; no slice of it is left.
            unsafe { self.map.settle(reserved.site(), len) };
        }
        self.end_here(reserved.settled(), len);
    }

    #[inline(always)]
    fn end_here(&self, reserved: Reserved, len: usize) {
        if self.children.forked() {
            return;
        }
        let len = len.min(reserved.len());
        if len < reserved.len() {
            // SAFETY: the reservation is open and this producer's; no slice of it is left.
            unsafe { self.map.zero_padding(reserved.site(), len) };
        }
        let at = self.at();
        let mut writer = self.writer.borrow_mut();
        let owed = writer.commit(at, &self.liveness, reserved, len, Wake::Auto);
        drop(writer);
        self.owed(owed);
    }
}
