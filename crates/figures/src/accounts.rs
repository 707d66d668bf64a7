//! What was written, read, refused and lost.

use crate::named::slowest_pos;
use perfring_consumer::{
    Layout, Policy, Producers,
    stat::{Count, RingTotals, Stat},
};

/// Returns whether a producer is attached.
pub fn is_fed(stat: &Stat) -> bool {
    stat.producer.is_alive() || stat.producers.iter().any(|member| member.is_alive())
}

/// How full an area of a ring is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fill {
    /// Bytes in use.
    pub used: u64,
    /// Bytes in all.
    pub size: u64,
}

impl Fill {
    /// The fill of the data area: up to what the slowest consumer has released, whether or not a producer
    /// has moved the tail there.
    pub fn of_data(stat: &Stat, totals: &RingTotals) -> Self {
        let tail = slowest_pos(stat).unwrap_or(0).max(totals.tail);
        Fill::of(stat.layout.data_size, tail, totals.head)
    }

    /// The fill of an area of `size` bytes between two positions.
    pub fn of(size: u64, tail: u64, head: u64) -> Self {
        Fill { used: head.saturating_sub(tail), size }
    }

    /// Returns how much of it is in use, from 0 to 100.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.used as f64 * 100.0 / self.size.max(1) as f64
    }

    /// Returns the percentage with so many digits after the point, rounded down: only a full area has 100%.
    #[must_use]
    pub fn rounded(self, digits: u8) -> f64 {
        let unit = 10f64.powi(digits.into());
        (self.percent() * unit).floor() / unit
    }

    /// Formats the rounded percentage.
    ///
    /// ```
    /// use perfring_figures::accounts::Fill;
    /// let almost = Fill { used: 65520, size: 65536 };
    /// assert_eq!([almost.text(0), almost.text(1)], ["99%", "99.9%"]);
    /// ```
    #[must_use]
    pub fn text(self, digits: u8) -> String {
        format!("{:.*}%", usize::from(digits), self.rounded(digits))
    }
}

/// The ring's own equation: what was written is either freed or present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Everything that was published.
    pub written: Count,
    /// Drop: released by the consumer. Overwrite: overwritten.
    pub freed: Count,
    /// The name of [`Balance::freed`].
    pub how: &'static str,
    /// What is in the ring.
    pub present: Count,
}

impl Balance {
    /// Takes the terms from a ring's totals.
    #[must_use]
    pub fn of(policy: Policy, totals: &RingTotals) -> Self {
        let (freed, how) = match policy {
            Policy::Drop => (totals.consumer.read, "read"),
            Policy::Overwrite => (totals.overwritten, "overwritten"),
        };
        Balance { written: totals.producer.written, freed, how, present: totals.present }
    }

    /// Returns whether the two sides are equal.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.freed.plus(self.present) == self.written
    }
}

/// Returns the counts that apply to a ring of this kind.
pub fn counts(layout: &Layout, totals: &RingTotals) -> Vec<(&'static str, Count)> {
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
pub fn sums<'a>(rings: impl Iterator<Item = &'a Stat>) -> Vec<(&'static str, Count)> {
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
