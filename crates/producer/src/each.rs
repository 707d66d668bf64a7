//! Many records in a loop of an exclusive producer's own.

use crate::errors::ReserveError;
use crate::space::{reserve, reserve_timeout};
use crate::stamp::Clock;
use perfring_abi::RecordType;
use perfring_shm::{End, MachineClock, Reservation, WriteWindow};
use std::time::Duration;

/// What [`Producer::publish_each`](crate::Producer::publish_each) makes of each item.
#[derive(Clone, Copy, Debug)]
pub struct Each {
    /// The type of its record.
    pub kind: RecordType,
    /// The payload's length in bytes.
    pub len: usize,
    /// How many records are published at a time, by one store. In between readers see none of them,
    /// and the positions' cache line stays with the producer. Some may be published earlier: where the
    /// ring is full, a record is refused, or the producer's book is due, each 64 KiB or quarter of a
    /// ring. A consumer that sleeps is woken for each lot.
    pub batch: u32,
    /// How long each waits for space in a full drop ring before it is refused.
    pub timeout: Duration,
}

impl Each {
    /// Records of this type and length, each published at once and refused at once.
    #[must_use]
    pub const fn new(kind: RecordType, len: usize) -> Self {
        Each { kind, len, batch: 1, timeout: Duration::ZERO }
    }
}

/// Publishes a record for each item, which `fill` writes in its place. Returns how many were published: the
/// others were refused, and are counted as such.
#[inline(always)]
pub(crate) fn publish_each<I: IntoIterator>(
    window: &mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    each: Each,
    items: I,
    fill: impl FnMut(I::Item, &mut [u8]),
) -> u64 {
    let Each { kind, len, batch, .. } = each;
    perfring_shm::publish_each(window, kind, len, batch, items, fill, |window| {
        reserve_slowly(window, clock, &each)
    })
}

#[cold]
#[inline(never)]
fn reserve_slowly<'w>(
    window: &'w mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    each: &Each,
) -> Result<Reservation<'w>, ReserveError> {
    let Each { kind, len, timeout, .. } = *each;
    if timeout.is_zero() {
        reserve(window, clock, kind, len, End::Hold)
    } else {
        reserve_timeout(window, clock, kind, len, timeout)
    }
}
