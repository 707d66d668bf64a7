//! Totals that a witness looks at from time to time.

/// The limit of looks that are kept of each total.
const MOST: usize = 1 << 16;

/// A total, and when it was that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals(Vec<(u64, u64)>);

impl Totals {
    pub(crate) fn add(&mut self, time: u64, total: u64) {
        if self.0.len() < MOST {
            self.0.push((time, total));
        }
    }

    /// Returns by how much it grew from the last look before a time to the first one after it.
    pub(crate) fn within(&self, from: u64, until: u64) -> u64 {
        let before = self.0.iter().rev().find(|(time, _)| *time <= from).or(self.0.first());
        let after = self.0.iter().find(|(time, _)| *time >= until).or(self.0.last());
        before.zip(after).map_or(0, |((_, from), (_, until))| until.saturating_sub(*from))
    }
}

/// Delays of a thread: for how long it had waited for a CPU when it got one, which was between two looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays(Vec<(u64, u64, u64)>);

impl Delays {
    pub(crate) fn add(&mut self, before: u64, time: u64, delay: u64) {
        if self.0.len() < MOST {
            self.0.push((before, time, delay));
        }
    }

    /// Returns how much of them is within a time, at most.
    pub(crate) fn within(&self, from: u64, until: u64) -> u64 {
        let touching = self.0.iter().filter(|(before, time, _)| *before < until && *time > from);
        let most = |(_, time, delay): &(u64, u64, u64)| {
            (*delay).min((*time).min(until).saturating_sub(from))
        };
        touching.map(most).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_ends_between_two_looks_and_began_before() {
        let mut delays = Delays::default();
        delays.add(100, 120, 15);
        delays.add(120, 140, 4);
        delays.add(900, 920, 397);
        assert_eq!(delays.within(0, 1_000), 416);
        assert_eq!((delays.within(110, 130), delays.within(118, 122)), (14, 6));
        assert_eq!((delays.within(140, 900), delays.within(500, 910)), (0, 397));
        assert_eq!(delays.within(800, 910), 110, "the rest was before");
    }
}
