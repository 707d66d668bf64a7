//! Reserved structs.

use perfring_shm::{Reservation, Reserves};
use perfring_types::PodRecord;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Records are placed at multiples of eight bytes.
pub(crate) const fn check<T: PodRecord>() {
    assert!(
        align_of::<T>() <= 8,
        "this record's alignment is above 8, and records stand at multiples of 8"
    );
}

/// A plain struct in the ring, reserved by a `P` and not yet committed: see [`Producer::reserve_pod`](crate::Producer::reserve_pod). Dropping it discards
/// it.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is discarded"]
pub struct PodReservation<'a, T, P: Reserves> {
    bytes: Reservation<'a, P>,
    of: PhantomData<T>,
}

impl<'a, T: PodRecord, P: Reserves> PodReservation<'a, T, P> {
    /// Takes a reservation of the struct's length.
    #[inline(always)]
    pub(crate) fn of(bytes: Reservation<'a, P>) -> Self {
        PodReservation { bytes, of: PhantomData }
    }

    /// Publishes the record.
    #[inline(always)]
    pub fn commit(self) {
        self.bytes.commit();
    }

    /// Gives the space back.
    pub fn discard(self) {
        self.bytes.discard();
    }
}

impl<T: PodRecord, P: Reserves> Deref for PodReservation<'_, T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        bytemuck::from_bytes(&self.bytes) // reserved for one, and aligned to eight
    }
}

impl<T: PodRecord, P: Reserves> DerefMut for PodReservation<'_, T, P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        bytemuck::from_bytes_mut(&mut self.bytes)
    }
}
