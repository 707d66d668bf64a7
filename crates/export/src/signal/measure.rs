//! Numbers that were measured.

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instrument<'a> {
    /// Its name: never empty.
    pub name: &'a str,
    /// Its unit as UCUM has it, or nothing.
    pub unit: &'a str,
    /// What it measures, or nothing.
    pub description: &'a str,
}

/// A number that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole one.
    Int(i64),
    /// Any other, or one beyond `i64`.
    Double(f64),
}

impl Number {
    /// The nearest `f64`.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Double(value) => value,
        }
    }

    /// The sum: whole as long as `i64` can hold it.
    ///
    /// ```
    /// use perfring_export::signal::Number;
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
    /// From the sample before it.
    Delta,
    /// From the start.
    Cumulative,
}

/// A histogram's counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// How many measurements: the sum of the buckets, if there are any.
    pub count: u64,
    /// Their sum.
    pub sum: Option<f64>,
    /// The least of them.
    pub min: Option<f64>,
    /// The greatest of them.
    pub max: Option<f64>,
    /// Between buckets, rising; a bucket ends with its bound. Neither NaN nor infinite.
    pub bounds: Vec<f64>,
    /// Measurements in each bucket: one more than bounds, or nothing at all.
    pub buckets: Vec<u64>,
}

/// The bounds into which measurements are sorted that have none: those of OpenTelemetry's SDKs.
pub const DEFAULT_BOUNDS: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10000.0,
];

impl Buckets {
    /// One measurement, sorted in.
    ///
    /// ```
    /// use perfring_export::signal::Buckets;
    /// let one = Buckets::one(5.0, &[0.0, 5.0, 10.0]);
    /// assert_eq!((one.count, one.buckets), (1, vec![0, 1, 0, 0])); // a bucket ends with its bound
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

    /// Adds another's counts; `false`, and nothing done, if its bounds are others.
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
