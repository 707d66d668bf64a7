//! Many records in a loop of an exclusive producer's own.

use perfring_abi::RecordType;
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
