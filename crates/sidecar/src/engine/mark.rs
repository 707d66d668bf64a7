//! What an output lacked at some time.

use super::merges::RingId;
use std::time::Instant;

/// What an output lacked at some time.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) since: Instant,
    /// Rings, and the positions that it had to reach.
    pub(super) left: Vec<(RingId, u64)>,
}
