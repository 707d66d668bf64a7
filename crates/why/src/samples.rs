//! Totals that a witness looks at from time to time: a total grows at the end of each wait, by all of the wait.

/// The limit of looks that are kept of each total.
const MOST: usize = 1 << 16;

/// Times that ended between two looks: a thread's waits for a CPU, a cgroup's throttling.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays(Vec<(u64, u64, u64)>);

impl Delays {
    pub(crate) fn add(&mut self, before: u64, time: u64, delay: u64) {
        if self.0.len() < MOST {
            self.0.push((before, time, delay));
        }
    }

    /// Returns how much of them is within a time, at least. A delay that ended before the time began may have been all
    /// before it, so only looks since then count; of the last one, all that may have come later is left out.
    pub(crate) fn within(&self, from: u64, until: u64) -> u64 {
        let first = self.0.partition_point(|(before, _, _)| *before < from);
        let inside = self.0[first..].iter().take_while(|(before, _, _)| *before < until);
        let least = |(_, time, delay): &(u64, u64, u64)| {
            let later = time.saturating_sub(until);
            delay.saturating_sub(later).min((*time).min(until).saturating_sub(from))
        };
        inside.map(least).fold(0, u64::saturating_add)
    }

    /// Returns how much of them is within a time, at least, if the total grows all the while: the growth between two looks was
    /// between these.
    pub(crate) fn during(&self, from: u64, until: u64) -> u64 {
        let first = self.0.partition_point(|(_, time, _)| *time <= from);
        let touching = self.0[first..].iter().take_while(|(before, _, _)| *before < until);
        let least = |(before, time, added): &(u64, u64, u64)| {
            let outside = from.saturating_sub(*before) + time.saturating_sub(until);
            let overlap = (*time).min(until).saturating_sub((*before).max(from));
            added.saturating_sub(outside).min(overlap)
        };
        touching.map(least).fold(0, u64::saturating_add)
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
        assert_eq!(delays.within(110, 150), 4, "the first look may have found what ended before");
        assert_eq!(delays.within(90, 115), 10, "5 of 15 may be later");
        assert_eq!((delays.within(140, 900), delays.within(500, 910)), (0, 387));
        assert_eq!(delays.within(890, 910), 20, "the rest was before");
        assert_eq!((delays.during(100, 120), delays.during(104, 125)), (15, 11), "4 may be before");
        assert_eq!((delays.during(0, 112), delays.during(130, 131)), (7, 0));
    }
}
