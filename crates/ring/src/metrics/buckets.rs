//! The buckets of an exponential histogram: OpenTelemetry's base-2 scale, at a scale and in a range that do not change.
//!
//! At scale `s` the base is `2^(2^-s)`. The bucket `i` has the values above `base^i`, up to and with `base^(i+1)`.

/// The greatest scale: a bucket is then 4.4 % wide.
const SCALE_MAX: u8 = 4;
/// Bits of a double's fraction.
const FRACTION: u32 = 52;
/// The most buckets of a histogram.
const BUCKETS_MAX: i32 = 4096;

/// The fractions of `2^(i/16)`, rounded down. All but the first are irrational, so a fraction is above the bound if, and only
/// if, it is above this.
const BOUNDS: [u64; 16] = [
    0,
    0x0_b558_6cf9_890f,
    0x1_72b8_3c7d_517a,
    0x2_387a_6e75_6238,
    0x3_06fe_0a31_b715,
    0x3_dea6_4c12_3422,
    0x4_bfda_d536_2a27,
    0x5_ab07_dd48_5429,
    0x6_a09e_667f_3bcc,
    0x7_a114_73eb_0186,
    0x8_ace5_422a_a0db,
    0x9_c491_82a3_f090,
    0xa_e89f_995a_d3ad,
    0xc_199b_dd85_529c,
    0xd_5818_dcfb_a487,
    0xe_a4af_a2a4_90d9,
];

/// For each 32nd of a power of two: the number of bounds below it, and the bound in it, or else a number that no fraction
/// exceeds. A 32nd is narrower than the narrowest bucket, so it has at most one bound.
const STEPS: [(u8, u64); 32] = {
    let mut steps = [(0, u64::MAX); 32];
    let mut step = 0;
    while step < 32 {
        let (begin, end) = ((step as u64) << (FRACTION - 5), (step as u64 + 1) << (FRACTION - 5));
        let mut bound = 0;
        while bound < 16 {
            if BOUNDS[bound] < begin {
                steps[step].0 += 1;
            } else if BOUNDS[bound] < end {
                steps[step].1 = BOUNDS[bound];
            }
            bound += 1;
        }
        step += 1;
    }
    steps
};

/// Where a histogram counts a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// Zero, or too small for the first bucket: at most [`Buckets::zero_threshold`].
    Zero,
    /// The number of the bucket, counted from the first. The last bucket also has everything above it.
    At(usize),
    /// Nowhere: the measurement is negative, infinite or not a number.
    Refused,
}

/// The scale and the range of a histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buckets {
    scale: u8,
    first: i32,
    count: u16,
}

impl Default for Buckets {
    /// Buckets that are 9 % wide (scale 3), from `2^-30` (0.93 ns, in seconds) to `2^50`: 640 of them.
    fn default() -> Self {
        Buckets { scale: 3, first: -30 * 8, count: 80 * 8 }
    }
}

impl Buckets {
    /// Creates the buckets of a scale from 0 to 4 that have all values above `2^least`, up to and with `2^most`. `None` for
    /// another scale, for a range that doubles do not have, and for more than 4,096 buckets.
    ///
    /// ```
    /// use perfring_ring::Buckets;
    /// let narrow = Buckets::new(4, -10, 10).unwrap(); // 4.4 % wide, from a thousandth to a thousand
    /// assert_eq!(narrow.count(), 320);
    /// assert_eq!(Buckets::new(5, -10, 10), None);
    /// ```
    #[must_use]
    pub const fn new(scale: u8, least: i32, most: i32) -> Option<Self> {
        if scale > SCALE_MAX || least >= most || least < -1022 || most > 1024 {
            return None;
        }
        let count = (most - least) << scale;
        if count > BUCKETS_MAX {
            return None;
        }
        Some(Buckets { scale, first: least << scale, count: count as u16 })
    }

    /// Returns the scale.
    #[must_use]
    pub const fn scale(&self) -> u8 {
        self.scale
    }

    /// Returns the index of the first bucket at that scale: OpenTelemetry's offset.
    #[must_use]
    pub const fn first(&self) -> i32 {
        self.first
    }

    /// Returns how many buckets there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the greatest value that counts as zero.
    #[must_use]
    pub fn zero_threshold(&self) -> f64 {
        // A normal power of two, by `new` and `from_word`.
        f64::from_bits((((self.first >> self.scale) + 1023) as u64 & 0x7ff) << FRACTION)
    }

    /// Returns where a measurement is counted.
    #[must_use]
    #[inline]
    pub fn bucket(&self, value: f64) -> Bucket {
        let bits = value.to_bits();
        // Also -0.0, negative numbers and NaN: their sign or their exponent is out of range.
        if bits >= 0x7ff << FRACTION {
            return if value == 0.0 { Bucket::Zero } else { Bucket::Refused };
        }
        let exponent = (bits >> FRACTION) as i32 - 1023; // a subnormal number is below every range
        let fraction = bits & ((1 << FRACTION) - 1);
        let (below, bound) = STEPS[(fraction >> (FRACTION - 5)) as usize];
        let fine = (exponent << SCALE_MAX) + i32::from(below) + i32::from(fraction > bound) - 1;
        // A lower scale joins two neighbours.
        let at = (fine >> (SCALE_MAX - self.scale)) - self.first;
        match usize::try_from(at) {
            Ok(at) => Bucket::At(at.min(self.count as usize - 1)),
            Err(_) => Bucket::Zero,
        }
    }

    /// Returns the word for these buckets in a block.
    pub(super) fn to_word(self) -> u64 {
        u64::from(self.scale)
            | u64::from(self.count) << 16
            | u64::from(self.first.cast_unsigned()) << 32
    }

    /// Reads the word of a block; `None` for buckets that no histogram has.
    pub(super) fn from_word(word: u64) -> Option<Self> {
        let (scale, count, first) = (word as u8, (word >> 16) as u16, (word >> 32) as u32);
        let first = first.cast_signed();
        let of_power = |index: i32| {
            (index & ((1 << scale.min(SCALE_MAX)) - 1) == 0)
                .then_some(index >> scale.min(SCALE_MAX))
        };
        let (least, most) = (of_power(first)?, of_power(first.checked_add(count.into())?)?);
        let buckets = Buckets::new(scale, least, most)?;
        (buckets.to_word() == word).then_some(buckets)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]
mod tests {
    use super::*;

    fn all(scale: u8) -> Buckets {
        Buckets::new(
            scale,
            if scale == 4 { -128 } else { -200 },
            if scale == 4 { 128 } else { 200 },
        )
        .unwrap()
    }

    fn index(scale: u8, value: f64) -> i32 {
        match all(scale).bucket(value) {
            Bucket::At(at) => all(scale).first() + at as i32,
            other => panic!("{value} is {other:?}"),
        }
    }

    #[test]
    fn a_power_of_two_is_the_last_of_its_bucket() {
        for scale in 0..=SCALE_MAX {
            for exponent in -100..100 {
                let value = f64::from_bits(((exponent + 1023) as u64) << FRACTION);
                assert_eq!(index(scale, value), (exponent << scale) - 1, "{scale} {value}");
                assert_eq!(index(scale, value.next_up()), exponent << scale);
                assert_eq!(index(scale, value.next_down()), (exponent << scale) - 1);
            }
        }
    }

    #[test]
    fn bounds_are_where_the_definition_has_them() {
        // Between the fractions that are just at and just above a bound, for each of them.
        for (at, bound) in BOUNDS.into_iter().enumerate().skip(1) {
            let value = |fraction: u64| f64::from_bits(fraction | 1023 << FRACTION);
            assert_eq!(index(4, value(bound)), at as i32 - 1);
            assert_eq!(index(4, value(bound + 1)), at as i32);
        }
    }

    #[test]
    fn a_lower_scale_joins_two() {
        let mut bits = 0x3f50_0000_0000_0000u64;
        while bits < 0x40a0_0000_0000_0000 {
            let value = f64::from_bits(bits);
            for scale in 1..=SCALE_MAX {
                assert_eq!(index(scale - 1, value), index(scale, value) >> 1, "{value}");
            }
            bits += 0x0000_0971_3a5f_1c93;
        }
    }

    #[test]
    fn what_is_out_of_range_is_zero_or_in_the_last_bucket_or_refused() {
        let narrow = Buckets::new(2, -3, 5).unwrap();
        assert_eq!((narrow.count(), narrow.first(), narrow.zero_threshold()), (32, -12, 0.125));
        for value in [0.0, -0.0, 0.125, 1e-300, f64::from_bits(1), f64::MIN_POSITIVE] {
            assert_eq!(narrow.bucket(value), Bucket::Zero, "{value}");
        }
        assert_eq!(narrow.bucket(0.125f64.next_up()), Bucket::At(0));
        for value in [32.0, 33.0, f64::MAX] {
            assert_eq!(narrow.bucket(value), Bucket::At(31), "{value}");
        }
        for value in
            [-1.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::from_bits(1)]
        {
            assert_eq!(narrow.bucket(value), Bucket::Refused, "{value}");
        }
        let whole = Buckets::new(0, -1022, 1024).unwrap();
        assert_eq!(whole.bucket(f64::MAX), Bucket::At(2045));
        assert_eq!(whole.zero_threshold(), f64::MIN_POSITIVE);
    }

    #[test]
    fn no_word_of_a_hostile_file_is_other_buckets() {
        for buckets in [Buckets::default(), all(4), all(0), Buckets::new(1, -1022, 1024).unwrap()] {
            assert_eq!(Buckets::from_word(buckets.to_word()), Some(buckets));
            for bit in 0..64 {
                let word = buckets.to_word() ^ 1 << bit;
                if let Some(other) = Buckets::from_word(word) {
                    assert_eq!(other.to_word(), word);
                    assert!(other.count() >= 1 && other.count() <= BUCKETS_MAX as usize);
                    assert!(other.zero_threshold() >= f64::MIN_POSITIVE);
                }
            }
        }
        for word in [0, u64::MAX, 1 << 16, 5 | 32 << 16, u64::from(u32::MAX) << 32 | 16 << 16] {
            let _ = Buckets::from_word(word);
        }
    }
}
