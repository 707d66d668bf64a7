//! What was written, read, refused and lost.

use crate::failure::Failure;
use perfring_consumer::{Count, Layout, Location, Policy, Producers, RingTotals, Stat};

/// The figures. Those of a ring in use are each of their own moment: a few more looks often find
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

/// Whether a producer is attached.
pub(crate) fn is_fed(stat: &Stat) -> bool {
    stat.producer.alive || stat.producers.iter().any(|member| member.alive)
}

/// The ring's own equation: what was written is gone or still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) written: Count,
    /// Drop: released by the consumer. Overwrite: overwritten.
    pub(crate) gone: Count,
    /// What [`Balance::gone`] is called.
    pub(crate) how: &'static str,
    pub(crate) present: Count,
}

impl Balance {
    pub(crate) fn of(policy: Policy, totals: &RingTotals) -> Self {
        let (gone, how) = match policy {
            Policy::Drop => (totals.consumer.read, "read"),
            Policy::Overwrite => (totals.overwritten, "overwritten"),
        };
        Balance { written: totals.producer.written, gone, how, present: totals.present }
    }

    pub(crate) fn holds(&self) -> bool {
        self.gone.plus(self.present) == self.written
    }
}

/// The counts that say something on a ring of this kind.
pub(crate) fn counts(layout: &Layout, totals: &RingTotals) -> Vec<(&'static str, Count)> {
    let producer = &totals.producer;
    let shared = layout.producers == Producers::Many;
    let mut counts = vec![("written", producer.written)];
    if layout.policy == Policy::Overwrite {
        counts.push(("overwritten", totals.overwritten));
    }
    counts.push(("still there", totals.present));
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
    counts.push(("untold", totals.unreported()));
    counts.push(("discarded", producer.discarded));
    if shared {
        counts.push(("reclaimed", producer.reclaimed));
        counts.push(("stranded", totals.stranded));
    }
    counts
}
