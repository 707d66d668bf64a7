//! Times for which something was so: when the kernel's switches are known, and when a process was stopped.

/// The limit of times that are kept; beyond it the last one grows.
const MOST: usize = 1 << 16;

/// Times in order, each with its end, of which the last may still last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    all: Vec<(u64, Option<u64>)>,
}

impl Times {
    /// Returns whether it is so now.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.all.last(), Some((_, None)))
    }

    /// It is so from now on.
    pub(crate) fn begin(&mut self, time: u64) {
        let full = self.all.len() >= MOST;
        match self.all.last_mut() {
            Some((_, None)) => {}
            Some((_, end)) if full => *end = None,
            _ => self.all.push((time, None)),
        }
    }

    /// It is so no more.
    pub(crate) fn end(&mut self, time: u64) {
        if let Some((from, end @ None)) = self.all.last_mut() {
            *end = Some(time.max(*from));
        }
    }

    /// It was so from then to then.
    pub(crate) fn add(&mut self, from: u64, until: u64) {
        let full = self.all.len() >= MOST;
        match self.all.last_mut() {
            Some((_, Some(end))) if full => *end = until.max(*end),
            _ => self.all.push((from, Some(until))),
        }
    }

    /// Returns when it was so last, unless it still is.
    pub(crate) fn last_end(&self) -> Option<u64> {
        self.all.last()?.1
    }

    /// Returns for how long it was so between two moments.
    pub(crate) fn within(&self, from: u64, until: u64) -> u64 {
        let part = |(begin, end): &(u64, Option<u64>)| {
            end.unwrap_or(u64::MAX).min(until).saturating_sub((*begin).max(from))
        };
        self.all.iter().map(part).fold(0, u64::saturating_add)
    }

    /// Returns whether it was so all the time between two moments.
    pub(crate) fn covers(&self, from: u64, until: u64) -> bool {
        self.all.iter().any(|(begin, end)| *begin <= from && end.is_none_or(|end| end >= until))
    }

    /// Returns whether it was so at any moment between two.
    pub(crate) fn touches(&self, from: u64, until: u64) -> bool {
        self.all.iter().any(|(begin, end)| *begin <= until && end.is_none_or(|end| end >= from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_what_is_asked_for() {
        let mut times = Times::default();
        times.end(5);
        times.begin(10);
        times.begin(12);
        times.end(20);
        times.begin(30);
        assert_eq!(times.within(0, 15), 5);
        assert_eq!(times.within(15, 40), 15);
        assert!(times.covers(12, 20) && !times.covers(12, 21) && times.covers(30, u64::MAX));
        assert!(times.touches(20, 25) && !times.touches(21, 29));
    }
}
