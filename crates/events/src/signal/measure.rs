//! Instruments and measured numbers.

/// An instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instrument<'a> {
    /// Its name: never empty.
    pub name: &'a str,
    /// Its unit in UCUM; empty if unknown.
    pub unit: &'a str,
    /// Its description; empty if none.
    pub description: &'a str,
}

/// A measured number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Int(i64),
    /// Any other number, or one beyond `i64`.
    Double(f64),
}

impl Number {
    /// Returns the nearest `f64`.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Double(value) => value,
        }
    }

    /// Returns the sum: a whole number as long as `i64` can hold it.
    ///
    /// ```
    /// use perfring_events::signal::Number;
    /// assert_eq!(Number::Int(2).plus(Number::Int(3)), Number::Int(5));
    /// assert_eq!(Number::Int(2).plus(Number::Double(0.5)), Number::Double(2.5));
    /// ```
    #[must_use]
    pub fn plus(self, other: Number) -> Number {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => match a.checked_add(b) {
                Some(sum) => Number::Int(sum),
                None => Number::Double(a as f64 + b as f64),
            },
            _ => Number::Double(self.as_f64() + other.as_f64()),
        }
    }
}

/// What a sum or a histogram counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Temporality {
    /// From the previous sample.
    Delta,
    /// From the start.
    Cumulative,
}

/// A histogram's counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// The number of measurements: the sum of the buckets, if there are any.
    pub count: u64,
    /// Their sum.
    pub sum: Option<f64>,
    /// The least measurement.
    pub min: Option<f64>,
    /// The greatest measurement.
    pub max: Option<f64>,
    /// The bounds between buckets, rising; a bucket includes its upper bound. Neither NaN nor
    /// infinite.
    pub bounds: Vec<f64>,
    /// Measurements in each bucket: one more than bounds, or empty.
    pub buckets: Vec<u64>,
}

/// The bounds for measurements that have none: those of OpenTelemetry's SDKs.
pub const DEFAULT_BOUNDS: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10000.0,
];

impl Buckets {
    /// Returns the counts of one measurement.
    ///
    /// ```
    /// use perfring_events::signal::Buckets;
    /// let one = Buckets::one(5.0, &[0.0, 5.0, 10.0]);
    /// assert_eq!((one.count, one.buckets), (1, vec![0, 1, 0, 0])); // its upper bound included
    /// ```
    #[must_use]
    pub fn one(value: f64, bounds: &[f64]) -> Self {
        let mut buckets = vec![0; bounds.len() + 1];
        if let Some(bucket) = buckets.get_mut(bounds.partition_point(|bound| *bound < value)) {
            *bucket = 1;
        }
        let (sum, min, max) = (Some(value), Some(value), Some(value));
        Buckets { count: 1, sum, min, max, bounds: bounds.to_vec(), buckets }
    }

    /// Adds other counts; returns `false`, and does nothing, if the bounds differ.
    pub fn add(&mut self, other: &Buckets) -> bool {
        if self.bounds != other.bounds || self.buckets.len() != other.buckets.len() {
            return false;
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.zip(other.sum).map(|(a, b)| a + b);
        self.min = self.min.zip(other.min).map(|(a, b)| a.min(b));
        self.max = self.max.zip(other.max).map(|(a, b)| a.max(b));
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to = to.saturating_add(*from);
        }
        true
    }
}
