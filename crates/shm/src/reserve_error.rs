//! Why a record is not taken.

use crate::types::TypeError;
use perfring_ring::Refusal;
use thiserror::Error;

/// Why a record was not taken. Small and `Copy`: it is on the way of every record.
///
/// Each is counted, by cause, and told in the stream before the next record that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// A drop ring is full. An outcome rather than a fault: the consumer is behind.
    #[error("the ring is full")]
    Full,
    /// No ring of this size can hold the record.
    #[error("a payload of {len} bytes is too large: this ring takes at most {max}")]
    TooLarge {
        /// The payload's length.
        len: usize,
        /// The longest that the ring takes.
        max: usize,
    },
    /// The lock of a shared ring was held for longer than a producer waits for it, by one that
    /// lives. `perfring stat` says who that is.
    #[error("the ring's lock is held by the producer in slot {slot}")]
    Contended {
        /// Its slot.
        slot: u32,
    },
    /// A shared ring has no room because an older reservation is still open, and its producer
    /// lives. `perfring stat` says who that is.
    #[error("the ring waits for a reservation of the producer in slot {slot} to end")]
    Pending {
        /// Its slot.
        slot: u32,
    },
    /// The record's type is not in the ring's table and could not be put there. Nothing is counted.
    #[error(transparent)]
    Type(TypeError),
    /// This process is a forked child of the one that attached. Nothing is counted.
    #[error("this process was forked from the one that attached: attach anew")]
    Forked,
    /// The positions are such as no producer and consumer leave.
    #[error("data_tail is {tail}, where nobody of ours can have put it: somebody damages the ring")]
    Corrupt {
        /// What it says.
        tail: u64,
    },
}

impl From<Refusal> for ReserveError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => ReserveError::Full,
            Refusal::TooLarge { len, max } => ReserveError::TooLarge { len, max },
            Refusal::Contended { slot } => ReserveError::Contended { slot },
            Refusal::Pending { slot } => ReserveError::Pending { slot },
            Refusal::Corrupt { tail } => ReserveError::Corrupt { tail },
        }
    }
}
