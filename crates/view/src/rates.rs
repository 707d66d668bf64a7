//! Rates between two polls of a ring.

use perfring_consumer::stat::Count;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Rates since an earlier poll.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    since: Option<Counts>,
    /// Records and bytes a second.
    pub(crate) written: Option<(f64, f64)>,
    pub(crate) read: Option<(f64, f64)>,
    /// Records a second.
    pub(crate) lost: f64,
    pub(crate) read_by: HashMap<u32, f64>,
}

/// What a poll has counted.
#[derive(Debug)]
pub(crate) struct Counts {
    /// When the poll began.
    pub(crate) at: Instant,
    /// When the ring was read: later, where the machine is busy or rings are many.
    pub(crate) read_at: Instant,
    pub(crate) written: Count,
    pub(crate) read: Count,
    pub(crate) lost: u64,
    /// Records that each consumer had read, by its seat.
    pub(crate) read_by: HashMap<u32, u64>,
}

impl Rates {
    /// Computes the rates again if the span has passed since the last time.
    pub(crate) fn renew(&mut self, now: Counts, span: Duration) {
        let Some(then) = &self.since else { return self.since = Some(now) };
        let seconds = now.read_at.duration_since(then.read_at).as_secs_f64();
        if seconds <= 0.0 || now.at.duration_since(then.at) < span {
            return;
        }
        let rate = |now: Count, then: Count| {
            let count = now.since(then);
            Some((count.records as f64 / seconds, count.bytes as f64 / seconds))
        };
        self.written = rate(now.written, then.written);
        self.read = rate(now.read, then.read);
        self.lost = now.lost.saturating_sub(then.lost) as f64 / seconds;
        let of = |(seat, read): (&u32, &u64)| {
            let before = then.read_by.get(seat)?;
            Some((*seat, read.saturating_sub(*before) as f64 / seconds))
        };
        self.read_by = now.read_by.iter().filter_map(of).collect();
        self.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_the_time_between_the_moments_of_reading() {
        let start = Instant::now();
        let counts = |at, read_at, records| Counts {
            at: start + Duration::from_millis(at),
            read_at: start + Duration::from_millis(read_at),
            written: Count { records, bytes: 8 * records },
            read: Count::default(),
            lost: records,
            read_by: HashMap::new(),
        };
        let mut rates = Rates::default();
        for (at, late, records) in [(0, 0, 0), (1000, 250, 125), (2000, 0, 200)] {
            rates.renew(counts(at, at + late, records), Duration::from_secs(1));
            let known = (at > 0).then_some((100.0, 800.0));
            assert_eq!(rates.written, known, "100 a second, also where a poll reads late");
        }
    }
}
