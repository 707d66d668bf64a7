//! Options of a loop that publishes many records of an exclusive producer.

use perfring_abi::RecordType;
use std::time::Duration;

/// How [`Producer::publish_each`](crate::Producer::publish_each) publishes each item.
#[derive(Clone, Copy, Debug)]
pub struct Each {
    /// The type of its record.
    pub kind: RecordType,
    /// The payload's length in bytes.
    pub len: usize,
    /// How many records are published at a time, by one store. Readers see none of them before it,
    /// and the positions' cache line stays with the producer. Some may be published earlier: where
    /// the ring is full, a record is refused, or the producer's totals are due, each 64 KiB or
    /// quarter of a ring. A sleeping consumer is woken once for each such batch.
    pub batch: u32,
    /// How long each waits for space in a full drop ring before it is refused.
    pub timeout: Duration,
}

impl Each {
    /// Returns options for records of this type and length, each published at once, or refused at
    /// once.
    #[must_use]
    pub const fn new(kind: RecordType, len: usize) -> Self {
        Each { kind, len, batch: 1, timeout: Duration::ZERO }
    }
}
