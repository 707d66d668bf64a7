//! Records of an exclusive producer that are published together.

use crate::errors::ReserveError;
use crate::exclusive_producer::Producer;
use crate::space::{now, put, refuse, reserve};
use crate::timestamp::Clock;
use perfring_abi::RecordType;
use perfring_ring::{Refusal, Wake};
use perfring_shm::{End, MachineClock, Reservation, WriteWindow};

/// Records that are held back until the batch ends, and then published by one store of
/// `data_head`.
///
/// A batch of up to an eighth of the ring, or 32 KiB, is published in one piece. A longer one may
/// be published in parts, as may one in a ring that overwrites by halves.
#[derive(Debug)]
#[must_use = "a batch is published when it is dropped"]
pub struct Batch<'a> {
    pub(crate) window: &'a mut WriteWindow,
    pub(crate) clock: &'a mut Clock<MachineClock>,
}

impl Batch<'_> {
    /// Adds one record of type [`RecordType::BYTES`].
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn push(&mut self, payload: &[u8]) -> Result<(), ReserveError> {
        self.push_as(RecordType::BYTES, payload)
    }

    /// Adds one record of this type.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn push_as(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
        put(self.window, self.clock, kind, payload, End::Hold)
    }

    /// Adds one record of this type. Returns `false`, and counts nothing, if the ring is full. For
    /// a caller that has an alternative. What the batch holds back is not published by that: end the batch, and a consumer
    /// can make room.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn offer(&mut self, kind: RecordType, payload: &[u8]) -> Result<bool, ReserveError> {
        match self.window.put(kind, payload, End::Hold, |window| now(window, self.clock)) {
            Ok(()) => Ok(true),
            Err(Refusal::Full) => Ok(false),
            Err(refusal) => Err(refuse(self.window, refusal, payload.len())),
        }
    }

    /// Reserves space for one record of the batch, in place.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline(always)]
    pub fn reserve(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<Reservation<'_, Producer>, ReserveError> {
        reserve(self.window, self.clock, kind, len, End::Hold)
    }

    /// Publishes the batch.
    pub fn publish(self) {}
}

impl Drop for Batch<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.window.publish(Wake::Auto);
    }
}
