//! What was written, read, refused and lost.

use crate::failure::Failure;
use crate::named::slowest_pos;
use perfring_consumer::{Count, Layout, Location, Policy, Producers, RingTotals, Stat};

/// Reads the figures. Those of a ring in use are not of one moment: a few more attempts often find
/// them in agreement.
pub(crate) fn read(location: &Location) -> Result<Stat, Failure> {
    const POLLS: u32 = 20;
    let mut stat = Stat::read(location)?;
    for _ in 1..POLLS {
        match &stat.totals {
            Some(totals) if !Balance::of(stat.layout.policy, totals).holds() => {}
            _ => break,
        }
        stat = Stat::read(location)?;
    }
    Ok(stat)
}

/// Returns whether a producer is attached.
pub(crate) fn is_fed(stat: &Stat) -> bool {
    stat.producer.alive || stat.producers.iter().any(|member| member.alive)
}

/// How full an area of a ring is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fill {
    pub(crate) used: u64,
    pub(crate) size: u64,
}

impl Fill {
    /// The fill of the data area: up to what the slowest consumer has released, whether or not a producer
    /// has moved the tail there.
    pub(crate) fn of_data(stat: &Stat, totals: &RingTotals) -> Self {
        let tail = slowest_pos(stat).unwrap_or(0).max(totals.tail);
        Fill::of(stat.layout.data_size, tail, totals.head)
    }

    /// The fill of an area of `size` bytes between two positions.
    pub(crate) fn of(size: u64, tail: u64, head: u64) -> Self {
        Fill { used: head.saturating_sub(tail), size }
    }

    pub(crate) fn percent(self) -> f64 {
        self.used as f64 * 100.0 / self.size.max(1) as f64
    }
}

/// The ring's own equation: what was written is either freed or present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) written: Count,
    /// Drop: released by the consumer. Overwrite: overwritten.
    pub(crate) freed: Count,
    /// The name of [`Balance::freed`].
    pub(crate) how: &'static str,
    pub(crate) present: Count,
}

impl Balance {
    pub(crate) fn of(policy: Policy, totals: &RingTotals) -> Self {
        let (freed, how) = match policy {
            Policy::Drop => (totals.consumer.read, "read"),
            Policy::Overwrite => (totals.overwritten, "overwritten"),
        };
        Balance { written: totals.producer.written, freed, how, present: totals.present }
    }

    pub(crate) fn holds(&self) -> bool {
        self.freed.plus(self.present) == self.written
    }
}

/// Returns the counts that apply to a ring of this kind.
pub(crate) fn counts(layout: &Layout, totals: &RingTotals) -> Vec<(&'static str, Count)> {
    let producer = &totals.producer;
    let shared = layout.producers != Producers::One;
    let mut counts = vec![("written", producer.written)];
    if layout.policy == Policy::Overwrite {
        counts.push(("overwritten", totals.overwritten));
    }
    counts.push(("present", totals.present));
    counts.push(("read", totals.consumer.read));
    if layout.policy == Policy::Overwrite {
        counts.push(("lapped", totals.consumer.lapped));
    }
    if layout.policy == Policy::Drop {
        counts.push(("full", producer.refused.full));
    }
    counts.push(("too_large", producer.refused.too_large));
    if shared {
        counts.push(("contended", producer.refused.contended));
        counts.push(("pending", producer.refused.pending));
    }
    counts.push(("unreported", totals.unreported()));
    counts.push(("discarded", producer.discarded));
    if shared {
        counts.push(("reclaimed", producer.reclaimed));
        counts.push(("stranded", totals.stranded));
    }
    counts
}

/// The counts of several rings together, in the order of their first ring. A ring whose totals are damaged has none.
pub(crate) fn sums<'a>(rings: impl Iterator<Item = &'a Stat>) -> Vec<(&'static str, Count)> {
    let mut sums: Vec<(&'static str, Count)> = Vec::new();
    let totals = rings.filter_map(|stat| Some((&stat.layout, stat.totals.as_ref()?)));
    for (name, count) in totals.flat_map(|(layout, totals)| counts(layout, totals)) {
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.plus(count),
            None => sums.push((name, count)),
        }
    }
    sums
}
