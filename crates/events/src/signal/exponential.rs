//! Exponential histograms: buckets whose bounds are powers of one base.
//!
//! At scale `s` the base is `2^(2^-s)`. The bucket `i` has the values above `base^i`, up to and with `base^(i+1)`. A scale
//! that is lower by one joins two neighbours: the bucket `i` goes to the bucket `i >> 1`, and no bound moves.

use super::measure::Buckets;

/// The least scale: one bucket has half of all doubles of one sign.
pub(super) const SCALE_MIN: i32 = -10;
/// The greatest scale, at which a histogram begins: a bucket is then 0.000066 % wide.
pub const SCALE_MAX: i32 = 20;
/// The most buckets of one sign, as in OpenTelemetry's SDKs. A histogram of measurements between 1 ms and 1 min has the
/// scale 3 then: its buckets are 9 % wide.
pub const BUCKETS_MAX: usize = 160;
/// Bits of a double's fraction.
const FRACTION: u32 = 52;

/// A histogram whose buckets adapt to what was measured.
///
/// ```
/// use perfring_events::signal::Exponential;
/// let mut histogram = Exponential::one(0.1);
/// histogram.add(&Exponential::one(1.0));
/// assert_eq!((histogram.count, histogram.sum), (2, 1.1));
/// assert_eq!(histogram.positive.counts.iter().sum::<u64>(), 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    /// The scale, from -10 to 20.
    pub scale: i32,
    /// The number of measurements.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least measurement; infinite if there is none.
    pub min: f64,
    /// The greatest measurement; negative and infinite if there is none.
    pub max: f64,
    /// How many are zero, or at most [`Exponential::zero_threshold`].
    pub zero: u64,
    /// The greatest measurement that counts as zero.
    pub zero_threshold: f64,
    /// Those above zero.
    pub positive: Run,
    /// Those below zero, by their absolute values.
    pub negative: Run,
}

/// Counts of neighbouring buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The index of the first bucket.
    pub offset: i32,
    /// The counts; the first and the last are not zero.
    pub counts: Vec<u64>,
}

impl Default for Exponential {
    fn default() -> Self {
        Exponential {
            scale: SCALE_MAX,
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            zero: 0,
            zero_threshold: 0.0,
            positive: Run::default(),
            negative: Run::default(),
        }
    }
}

impl Exponential {
    /// Returns the histogram of one measurement; an empty one for what is no finite number.
    #[must_use]
    pub fn one(value: f64) -> Self {
        let mut this = Exponential::default();
        if !value.is_finite() {
            return this;
        }
        (this.count, this.sum, this.min, this.max) = (1, value, value, value);
        let bucket = |value| Run { offset: index(value, SCALE_MAX), counts: vec![1] };
        match value {
            value if value > 0.0 => this.positive = bucket(value),
            value if value < 0.0 => this.negative = bucket(-value),
            _ => this.zero = 1,
        }
        this
    }

    /// Adds another histogram, at a scale at which all fits.
    pub fn add(&mut self, other: &Exponential) {
        let mut scale = self.scale.min(other.scale);
        for (one, two) in [(&self.positive, &other.positive), (&self.negative, &other.negative)] {
            while one.joined(self.scale, two, other.scale, scale) > BUCKETS_MAX as i64 {
                scale = scale.saturating_sub(1);
            }
        }
        self.downscale(scale);
        let by = other.scale.saturating_sub(scale).unsigned_abs();
        self.positive.add(&other.positive, by);
        self.negative.add(&other.negative, by);
        self.count = self.count.saturating_add(other.count);
        self.zero = self.zero.saturating_add(other.zero);
        self.zero_threshold = self.zero_threshold.max(other.zero_threshold);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the counts in buckets of these bounds. A bucket in which a bound lies is counted above the bound, so what a
    /// count says is "at most" is true.
    ///
    /// ```
    /// use perfring_events::signal::Exponential;
    /// let mut histogram = Exponential::one(1.0);
    /// histogram.add(&Exponential::one(64.0));
    /// assert_eq!(histogram.to_buckets(&[1.0, 5.0]).buckets, [1, 0, 1]);
    /// ```
    #[must_use]
    pub fn to_buckets(&self, bounds: &[f64]) -> Buckets {
        let mut buckets = vec![0u64; bounds.len() + 1];
        let mut count = |most: f64, count: u64| {
            // What lies above the greatest measurement is empty.
            let most = most.min(self.max);
            if let Some(to) = buckets.get_mut(bounds.partition_point(|bound| *bound < most)) {
                *to = to.saturating_add(count);
            }
        };
        // The exponent of a bound is exact, and so is a bound that is a power of two.
        let bound = |index: i64| (index as f64 * 2f64.powi(-self.scale)).exp2();
        for (index, of) in (i64::from(self.positive.offset)..).zip(&self.positive.counts) {
            count(bound(index.saturating_add(1)), *of);
        }
        for (index, of) in (i64::from(self.negative.offset)..).zip(&self.negative.counts) {
            count(-bound(index), *of);
        }
        count(0.0, self.zero);
        let range = self.count > 0;
        let (min, max) = (range.then_some(self.min), range.then_some(self.max));
        Buckets {
            count: self.count,
            sum: Some(self.sum),
            min,
            max,
            bounds: bounds.to_vec(),
            buckets,
        }
    }

    /// Lowers the scale to this one, if it is greater.
    pub fn downscale(&mut self, scale: i32) {
        let by = self.scale.saturating_sub(scale).max(0).unsigned_abs();
        for run in [&mut self.positive, &mut self.negative] {
            let before = std::mem::take(run);
            run.add(&before, by);
        }
        self.scale = self.scale.min(scale);
    }
}

impl Run {
    /// Returns these counts without the zeros at both ends.
    pub(super) fn trimmed(offset: i32, mut counts: Vec<u64>) -> Self {
        let zeros = counts.iter().take_while(|count| **count == 0).count();
        counts.drain(..zeros);
        let end = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        counts.truncate(end);
        let first = i64::from(offset).saturating_add(zeros as i64);
        Run { offset: i32::try_from(first).unwrap_or(i32::MAX), counts }
    }

    /// Returns the first and the last index at a lower scale; `None` without buckets.
    fn ends(&self, by: i32) -> Option<(i64, i64)> {
        let last = i64::from(self.offset) + i64::try_from(self.counts.len()).ok()? - 1;
        let by = by.clamp(0, 63);
        (!self.counts.is_empty()).then_some((i64::from(self.offset) >> by, last >> by))
    }

    /// Returns how many buckets both need together at a scale.
    fn joined(&self, scale: i32, other: &Run, other_scale: i32, at: i32) -> i64 {
        let ends = [(self, scale), (other, other_scale)]
            .into_iter()
            .filter_map(|(run, of)| run.ends(of.saturating_sub(at)));
        let both = ends.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)));
        both.map_or(0, |(first, last)| last.saturating_sub(first).saturating_add(1))
    }

    /// Adds counts whose scale is greater by this.
    fn add(&mut self, other: &Run, by: u32) {
        let by = by.min(31);
        let shift = i32::try_from(by).unwrap_or(31);
        let Some((first, last)) = other.ends(shift) else { return };
        let (begin, end) = self.ends(0).unwrap_or((first, last));
        let (begin, end) = (begin.min(first), end.max(last));
        let len = |from: i64, to: i64| usize::try_from(to.saturating_sub(from)).unwrap_or(0);
        if !self.counts.is_empty() {
            let before = len(begin, self.offset.into());
            self.counts.splice(0..0, std::iter::repeat_n(0, before));
        }
        self.counts.resize(len(begin, end).saturating_add(1), 0);
        self.offset = i32::try_from(begin).unwrap_or(i32::MIN);
        for (index, count) in (i64::from(other.offset)..).zip(&other.counts) {
            if let Some(to) = self.counts.get_mut(len(begin, index >> by)) {
                *to = to.saturating_add(*count);
            }
        }
    }
}

/// Returns the index of the bucket of a positive finite number at a scale.
fn index(value: f64, scale: i32) -> i32 {
    // A subnormal number is made a normal one, exactly.
    let (value, less) = match value < f64::MIN_POSITIVE {
        true => (value * (1u64 << 54) as f64, 54),
        false => (value, 0),
    };
    let bits = value.to_bits();
    let exponent = (bits >> FRACTION) as i32 - 1023 - less;
    let fraction = bits & ((1 << FRACTION) - 1);
    // A bucket has its upper bound: a power of two is the last of the bucket before.
    let whole = if fraction == 0 { exponent - 1 } else { exponent };
    if scale <= 0 {
        return whole >> scale.unsigned_abs().min(31);
    }
    let buckets = 1i32 << scale.min(SCALE_MAX); // in a power of two
    let within = if fraction == 0 {
        buckets - 1
    } else {
        let mantissa = f64::from_bits(fraction | 1023 << FRACTION); // above 1, below 2
        let at = mantissa.log2() * f64::from(buckets);
        (at.ceil() as i32 - 1).clamp(0, buckets - 1)
    };
    whole * buckets + within
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the bound below a bucket, exact where `index / 2^scale` is whole.
    fn bound(index: i32, scale: i32) -> f64 {
        2f64.powf(f64::from(index) * 2f64.powi(-scale))
    }

    fn positive() -> impl Strategy<Value = f64> {
        let all = (1u64..0x7ff0_0000_0000_0000).prop_map(f64::from_bits); // subnormal ones, too
        prop_oneof![all, 1e-3..1e3f64, (-1074..1024i32).prop_map(|e| 2f64.powf(e.into()))]
    }

    proptest! {
        #[test]
        fn a_bucket_has_what_the_definition_says(value in positive(), scale in -10..=SCALE_MAX) {
            let at = index(value, scale);
            if scale <= 0 {
                // Exact, by whole exponents; beyond the range of doubles a bound is infinite or 0.
                prop_assert!(bound(at, scale) < value && value <= bound(at + 1, scale), "{at}");
            } else {
                // 2^-40 of a logarithm: more than the error of a double's, less than a bucket.
                let (log, width) = (value.log2(), 2f64.powi(-scale));
                let (low, high) = (f64::from(at) * width, f64::from(at + 1) * width);
                let error = 2f64.powi(-40);
                prop_assert!(low - error < log && log <= high + error, "{low} {log} {high}");
            }
            prop_assert_eq!(index(value, scale - 1), at >> 1, "a lower scale joins two");
        }

        #[test]
        fn a_sum_is_what_all_measurements_are(values in proptest::collection::vec(
            prop_oneof![positive(), positive().prop_map(|it| -it), Just(0.0), Just(-0.0)], 1..60)
        ) {
            let mut sum = Exponential::default();
            let (left, right) = values.split_at(values.len() / 2);
            let mut other = Exponential::default();
            left.iter().for_each(|value| sum.add(&Exponential::one(*value)));
            right.iter().for_each(|value| other.add(&Exponential::one(*value)));
            sum.add(&other);
            let mut wanted = std::collections::BTreeMap::<(bool, i32), u64>::new();
            for value in values.iter().filter(|value| **value != 0.0) {
                *wanted.entry((*value < 0.0, index(value.abs(), sum.scale))).or_default() += 1;
            }
            let mut found = std::collections::BTreeMap::new();
            for (sign, run) in [(false, &sum.positive), (true, &sum.negative)] {
                prop_assert!(run.counts.len() <= BUCKETS_MAX);
                prop_assert!(run.counts.first() != Some(&0) && run.counts.last() != Some(&0));
                for (at, count) in (run.offset..).zip(&run.counts).filter(|(_, count)| **count > 0) {
                    found.insert((sign, at), *count);
                }
            }
            prop_assert_eq!(found, wanted);
            let zeros = values.iter().filter(|value| **value == 0.0).count() as u64;
            prop_assert_eq!((sum.count, sum.zero), (values.len() as u64, zeros));
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert_eq!((sum.min, sum.max), (least, most));
            prop_assert!((-10..=SCALE_MAX).contains(&sum.scale));
        }
    }

    #[test]
    fn the_ends_of_doubles_have_their_buckets() {
        let tiny = f64::from_bits(1); // 2^-1074
        assert_eq!(index(1.0, 0), -1, "a bucket has its upper bound");
        assert_eq!((index(2.0, 0), index(1.5, 0)), (0, 0));
        assert_eq!((index(4.0, 1), index(4.000_001, 1)), (3, 4));
        assert_eq!(
            (index(tiny, 0), index(2.0 * tiny, 0), index(3.0 * tiny, 0)),
            (-1075, -1074, -1073)
        );
        assert_eq!(index(tiny, SCALE_MAX), -1075 * (1 << 20) + (1 << 20) - 1);
        assert_eq!(index(f64::MIN_POSITIVE, 0), -1023);
        assert_eq!(index(f64::MAX, 0), 1023);
        assert_eq!(index(f64::MAX, SCALE_MAX), 1024 * (1 << 20) - 1);
        let mut all = Exponential::one(tiny);
        all.add(&Exponential::one(f64::MAX));
        assert!(all.scale >= -4 && all.positive.counts.len() <= BUCKETS_MAX, "{all:?}");
        for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Exponential::one(none), Exponential::default());
        }
    }
}
