//! The losses that a ring counts, and that its stream does not report yet.

use perfring_consumer::stat::{Count, ProducerTotals, Refused, Stat};
use perfring_consumer::{Cause, Location};

/// Returns the losses that a ring counts, that no marker reports, and that a reader has not returned, by cause. `told` is
/// what the reader has returned.
pub(crate) fn untold(
    location: &Location,
    uuid: &[u8; 16],
    told: Refused,
) -> impl Iterator<Item = (Cause, Count)> {
    let stat = Stat::read(location).ok().filter(|stat| stat.layout.uuid == *uuid);
    let totals = stat.and_then(|stat| stat.totals).map(|totals| totals.producer);
    let untold = totals.map(|ProducerTotals { refused, reported, .. }| {
        let (unmarked, unsaid) = (refused.since(reported), refused.since(told));
        unmarked.by_cause().into_iter().zip(unsaid.by_cause())
    });
    let least = |((cause, one), (_, other)): ((Cause, Count), (Cause, Count))| {
        let records = one.records.min(other.records);
        (cause, Count { records, bytes: one.bytes.min(other.bytes) })
    };
    untold.into_iter().flatten().map(least).filter(|(_, count)| count.records > 0)
}

/// Adds up such losses.
pub(crate) fn sum(untold: impl Iterator<Item = (Cause, Count)>) -> u64 {
    untold.map(|(_, count)| count.records).fold(0, u64::saturating_add)
}
