//! What an output lacked at some time.

use super::merges::RingId;
use super::place::Reached;
use std::time::Instant;

/// What an output lacked at some time.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) since: Instant,
    /// Rings, and how far it had to come in them.
    pub(super) left: Vec<(RingId, Reached)>,
}
