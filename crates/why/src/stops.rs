//! When a process was stopped, as far as looks at it from time to time say.

/// The limit of looks that are kept of a process.
const MOST: usize = 1 << 20;

/// A look that found the process stopped, at a moment between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// The look before, whatever that found.
    before: u64,
    /// It found the process stopped after this time,
    from: u64,
    /// and before this one.
    until: u64,
}

/// The stops of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops {
    looks: Vec<Look>,
    /// Looks that found it running again.
    ends: Vec<u64>,
}

/// For how long a process was stopped, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// At least.
    pub(crate) surely: u64,
    /// At most, of waits in which it was found stopped.
    pub(crate) possibly: u64,
}

impl Stops {
    /// A look found it stopped.
    pub(crate) fn stopped(&mut self, before: u64, from: u64, until: u64) {
        if self.looks.len() < MOST {
            self.looks.push(Look { before, from, until });
        }
    }

    /// A look found it running again.
    pub(crate) fn continued(&mut self, time: u64) {
        if self.ends.len() < MOST {
            self.ends.push(time);
        }
    }

    /// Returns whether it was stopped at a time: the last look before it found it so, and the next one, too, if there was one.
    pub(crate) fn is_at(&self, time: u64) -> bool {
        let before = self.looks.iter().rev().find(|look| look.until <= time);
        let ends = |look: &Look| self.ends.iter().copied().find(|end| *end >= look.until);
        before.is_some_and(|look| match ends(look) {
            None => true,
            Some(end) => self.looks.iter().any(|next| next.from >= time && next.until <= end),
        })
    }

    /// Returns for how long it was stopped in a time in which it had no CPU. Two looks on either side of a moment at which it
    /// ran say nothing of the time between them, so only looks within this time count.
    pub(crate) fn within(&self, from: u64, until: u64) -> Stopped {
        let mut looks = self.looks.iter().filter(|look| look.from >= from && look.until <= until);
        let Some(first) = looks.next() else { return Stopped::default() };
        let last = looks.next_back().unwrap_or(first);
        let end = self.ends.iter().copied().find(|end| *end >= last.until);
        let latest = end.unwrap_or(until).min(until);
        Stopped {
            surely: last.from.saturating_sub(first.until),
            possibly: latest.saturating_sub(first.before.max(from)),
        }
    }
}

impl std::iter::Sum for Stopped {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Stopped::default(), |sum, part| Stopped {
            surely: sum.surely.saturating_add(part.surely),
            possibly: sum.possibly.saturating_add(part.possibly),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_lasts_from_one_look_to_another() {
        let mut stops = Stops::default();
        stops.stopped(10, 20, 21);
        stops.stopped(20, 50, 51);
        stops.stopped(50, 80, 81);
        stops.continued(90);
        let within = |from, until| {
            let Stopped { surely, possibly } = stops.within(from, until);
            (surely, possibly)
        };
        assert_eq!(within(0, 100), (59, 80));
        assert_eq!(within(15, 60), (29, 45));
        assert_eq!(within(15, 30), (0, 15), "one look");
        // No look found it stopped then.
        assert_eq!((within(0, 20), within(81, 100)), ((0, 0), (0, 0)));
    }
}
