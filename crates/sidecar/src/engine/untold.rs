//! What an output lacks of a ring, or has beyond the others.

use perfring_consumer::{
    Cause,
    stat::{Count, Refused},
};
use perfring_export::{Loss, LossCause};

/// What an output was not given of one ring.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    pub(super) busy: Option<Loss>,
    /// Losses of the ring itself among them, and what rules left out: one of each cause.
    pub(super) others: Vec<Loss>,
}

/// What an output was given of a ring beyond where the others are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// Up to this position,
    pub(super) pos: u64,
    /// so many records and bytes,
    pub(super) count: Count,
    /// and these losses.
    pub(super) told: Refused,
}

/// Returns whether it is a loss that a ring's producers count.
pub(super) fn is_refused(loss: &Loss) -> bool {
    matches!(loss.cause, LossCause::Ring(cause) if Cause::REFUSED.contains(&cause))
}

impl Ahead {
    /// Notes that others are given so much of that, too.
    pub(super) fn pass(&mut self, records: u64, bytes: u64) {
        self.count.records = self.count.records.saturating_sub(records);
        self.count.bytes = self.count.bytes.saturating_sub(bytes);
    }
}

impl Unreported {
    /// Adds a loss of the ring, or of a rule.
    pub(super) fn add(&mut self, loss: &Loss) {
        match self.others.iter_mut().find(|sum| sum.cause == loss.cause) {
            Some(sum) => {
                *sum = Loss {
                    records: sum.records.saturating_add(loss.records),
                    bytes: sum.bytes.saturating_add(loss.bytes),
                    ..*loss
                };
            }
            None => self.others.push(*loss),
        }
    }
}
