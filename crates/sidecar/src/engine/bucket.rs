//! The limit of a rate.

/// A bucket of tokens, of which each record takes one: it fills at a rate, up to the burst.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Of a record, in ns times the records of a period.
    cost: u64,
    per_ns: u64,
    most: u64,
    left: u64,
    /// Up to when it was filled: the greatest time so far.
    until: u64,
}

impl Bucket {
    /// Creates a full bucket that lets `records` pass in each `period` ns, and up to `burst` at once.
    pub(super) fn new(records: u32, period: u64, burst: u32) -> Self {
        let most = period.saturating_mul(burst.into());
        Bucket { cost: period, per_ns: records.into(), most, left: most, until: 0 }
    }

    /// Returns whether a record of this time passes.
    #[inline]
    pub(super) fn takes(&mut self, time: u64) -> bool {
        let passed = time.saturating_sub(self.until);
        self.until = self.until.max(time);
        self.left = self.left.saturating_add(passed.saturating_mul(self.per_ns)).min(self.most);
        let takes = self.left >= self.cost;
        self.left -= if takes { self.cost } else { 0 };
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_lets_pass_what_the_rate_and_the_burst_allow_and_no_less(
            records in 1..2000u32,
            period in 1..5_000_000_000u64,
            burst in 1..50u32,
            steps in prop::collection::vec((0..400_000_000u64, prop::bool::weighted(0.1)), 1..300),
        ) {
            let mut bucket = Bucket::new(records, period, burst);
            // The plain model: exact fractions of tokens, with the period as the denominator.
            let (n, period, full) = (u128::from(records), u128::from(period), u128::from(burst));
            let (mut now, mut newest, mut tokens) = (1u64 << 40, 0u64, full * period);
            for (step, back) in steps {
                now = if back { now - step.min(now) } else { now + step };
                tokens = (tokens + u128::from(now.saturating_sub(newest)) * n).min(full * period);
                newest = newest.max(now);
                let passes = tokens >= period;
                if passes {
                    tokens -= period;
                }
                prop_assert_eq!(bucket.takes(now), passes);
            }
        }

        #[test]
        fn no_time_that_a_ring_claims_overflows_it(times in prop::collection::vec(any::<u64>(), 1..50), records: u32, period in 1..3_600_000_000_001u64, burst: u32) {
            let mut bucket = Bucket::new(records, period, burst);
            let passed = times.iter().filter(|time| bucket.takes(**time)).count();
            prop_assert!(burst > 0 || passed == 0);
        }
    }
}
