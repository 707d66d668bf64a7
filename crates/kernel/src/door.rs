//! The door of `tests/fuzz`: a real kernel writes no hostile records, so they come from elsewhere.

use crate::decode::{What, decode};
use crate::event::EventKind;
use perfring_consumer::{Cause, RecordType};
use perfring_ring::KernelFrame;

/// What a record of the kernel's was decoded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A record of this type, whose payload was written.
    Record(RecordType),
    /// So many were lost.
    Lost(u64, Cause),
}

/// What a [`KernelRing`](crate::KernelRing) makes of a record: its time and what it is.
pub fn decoded(
    frame: &KernelFrame,
    body: &[u64],
    event: EventKind,
    payload: &mut Vec<u8>,
) -> Option<(u64, Decoded)> {
    let (time, what) = decode(frame, body, event, payload)?;
    let what = match what {
        What::Record(kind) => Decoded::Record(kind),
        What::Lost(records, cause) => Decoded::Lost(records, cause),
    };
    Some((time, what))
}
