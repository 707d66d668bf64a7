//! The kinds of a block's values, and the places of its words.

use super::buckets::Buckets;

/// The kind of a block's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// A sum that only grows, of whole numbers.
    CounterU64,
    /// A sum that only grows.
    CounterF64,
    /// A sum that grows and shrinks, of whole numbers.
    UpDownI64,
    /// A sum that grows and shrinks.
    UpDownF64,
    /// The last value, a whole number.
    GaugeI64,
    /// The last value.
    GaugeF64,
    /// Counts of measurements in exponential buckets.
    Histogram(Buckets),
    /// The payload of a record that does not change, of so many bytes: the resource of the block's process.
    Record(u32),
}

/// Words of a block's first line.
pub(super) const HEAD: usize = 0;
pub(super) const SIZE: usize = 1;
pub(super) const OWNER: usize = 2;
pub(super) const PID: usize = 3;
pub(super) const START: usize = 4;
pub(super) const SHAPE: usize = 5;
pub(super) const REFUSED: usize = 6;
/// Words of a line, and of a block before its values.
pub(super) const LINE: usize = (perfring_abi::METRICS_ALIGN / 8) as usize;
/// The most stripes of a block.
pub(super) const STRIPES_MAX: u32 = 128;

impl MetricKind {
    /// Returns whether its values count from a time on.
    #[must_use]
    pub const fn is_cumulative(self) -> bool {
        matches!(
            self,
            MetricKind::CounterU64
                | MetricKind::CounterF64
                | MetricKind::UpDownI64
                | MetricKind::UpDownF64
                | MetricKind::Histogram(_)
        )
    }

    /// Returns its number in a block's first word.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            MetricKind::CounterU64 => 1,
            MetricKind::CounterF64 => 2,
            MetricKind::UpDownI64 => 3,
            MetricKind::UpDownF64 => 4,
            MetricKind::GaugeI64 => 5,
            MetricKind::GaugeF64 => 6,
            MetricKind::Histogram(_) => 7,
            MetricKind::Record(_) => 8,
        }
    }

    /// Returns the word with the details of the kind that the code lacks.
    pub(super) fn shape(self) -> u64 {
        match self {
            MetricKind::Histogram(buckets) => buckets.to_word(),
            MetricKind::Record(len) => len.into(),
            _ => 0,
        }
    }

    pub(super) fn from_words(code: u64, shape: u64) -> Option<Self> {
        let kind = match code {
            1 => MetricKind::CounterU64,
            2 => MetricKind::CounterF64,
            3 => MetricKind::UpDownI64,
            4 => MetricKind::UpDownF64,
            5 => MetricKind::GaugeI64,
            6 => MetricKind::GaugeF64,
            7 => MetricKind::Histogram(Buckets::from_word(shape)?),
            8 => MetricKind::Record(u32::try_from(shape).ok()?),
            _ => return None,
        };
        Some(kind)
    }

    /// Returns the words of one stripe: whole lines.
    pub(super) const fn stripe(self) -> usize {
        match self {
            MetricKind::Histogram(buckets) => LINE + buckets.count().next_multiple_of(LINE),
            MetricKind::Record(len) => (len as usize).div_ceil(8).next_multiple_of(LINE),
            _ => LINE,
        }
    }
}
