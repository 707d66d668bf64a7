//! Several records of a shared ring in one reservation.

use crate::reserve_error::ReserveError;
use perfring_abi::RecordType;
use perfring_ring::Refusal;
use perfring_shm::BatchReservation;

/// Space for several records of a shared ring, which are published at once when it is dropped.
///
/// While it is open, no younger record is published: keep it short. A forked child that inherits
/// one publishes nothing by it.
#[derive(Debug)]
#[must_use = "a batch is published when it is dropped"]
pub struct ReservedBatch<'a>(pub(crate) BatchReservation<'a>);

impl ReservedBatch<'_> {
    /// Adds one record of type [`RecordType::BYTES`].
    ///
    /// # Errors
    /// As for [`ReservedBatch::push_as`].
    #[inline]
    pub fn push(&mut self, payload: &[u8]) -> Result<(), ReserveError> {
        self.push_as(RecordType::BYTES, payload)
    }

    /// Adds one record of this type.
    ///
    /// # Errors
    /// [`ReserveError::BatchFull`] if there is no room for it in what was reserved. Nothing is counted, and the
    /// batch is as before: publish it, and reserve another one. [`ReserveError::Forked`] instead in a forked
    /// child.
    #[inline]
    pub fn push_as(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
        self.0.push(kind, payload).map_err(no_room)
    }

    /// Adds one record of `len` bytes, to be written in place. It is part of the batch as soon as this
    /// returns; its bytes are what the ring last held there. If a panic drops the batch before the next record is added, this
    /// one is not published: it may be half written.
    ///
    /// # Errors
    /// As for [`ReservedBatch::push_as`].
    #[inline]
    pub fn push_in_place(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<&mut [u8], ReserveError> {
        self.0.push_in_place(kind, len).map_err(no_room)
    }

    /// Returns how many records are in the batch.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.0.records()
    }

    /// Returns how many bytes are left, headers and padding included.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.left()
    }
}

fn no_room(refusal: Refusal) -> ReserveError {
    match refusal {
        Refusal::Full => ReserveError::BatchFull,
        _ => ReserveError::Forked,
    }
}
