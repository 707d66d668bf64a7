//! The use of a ring's other areas: of its type table and of its metrics area.

use perfring_abi::TYPES_FIRST;
use perfring_consumer::{MetricValue, Observer};
use perfring_types::read::TypeTable;

/// How full a ring's type table and its metrics area are.
#[derive(Clone, Debug)]
pub struct Areas {
    /// The type table.
    pub types: TypesUse,
    /// The metrics area.
    pub metrics: MetricsUse,
}

/// How full a ring's type table is.
#[derive(Clone, Debug)]
pub struct TypesUse {
    /// The table's size in bytes; 0 if there is none.
    pub size: u64,
    /// Bytes up to the end of its last entry.
    pub used: u64,
    /// Types that can be used.
    pub count: u64,
    /// Parts that cannot be read.
    pub damage: Vec<String>,
}

/// How full a ring's metrics area is.
#[derive(Clone, Debug, Default)]
pub struct MetricsUse {
    /// The area's size in bytes; 0 if there is none.
    pub size: u64,
    /// Bytes up to the end of its last block.
    pub used: u64,
    /// Instruments that have values, each once for each process.
    pub count: u64,
    /// Instruments that found no room: what they should have measured is nowhere.
    pub refused: u64,
    /// Instruments of dead processes whose values were replaced for want of room.
    pub replaced: u64,
    /// The part that cannot be read.
    pub damage: Option<String>,
}

impl Areas {
    /// Reads what an observer sees.
    #[must_use]
    pub fn of(observer: &Observer) -> Self {
        Areas { types: TypesUse::of(observer), metrics: MetricsUse::of(observer) }
    }
}

impl MetricsUse {
    /// Reads the metrics area that an observer sees.
    #[must_use]
    pub fn of(observer: &Observer) -> Self {
        let size = observer.layout().metrics_size;
        let metrics = match observer.metrics() {
            Ok(metrics) => metrics,
            Err(error) => {
                return MetricsUse { size, damage: Some(error.to_string()), ..Self::default() };
            }
        };
        let measured =
            metrics.samples.iter().filter(|of| !matches!(of.value, MetricValue::Record(_)));
        MetricsUse {
            size,
            used: metrics.used,
            count: measured.count() as u64,
            refused: metrics.refused,
            replaced: metrics.dropped,
            damage: metrics.damage.map(|damage| damage.to_string()),
        }
    }
}

impl TypesUse {
    /// Reads the type table that an observer sees.
    #[must_use]
    pub fn of(observer: &Observer) -> Self {
        let types = observer.types();
        let table = TypeTable::from_words(types.words());
        let used = 8_u64.saturating_mul(types.words().len() as u64).saturating_add(TYPES_FIRST);
        let size = observer.layout().types_size;
        TypesUse {
            size,
            used: used.min(size),
            count: table.len() as u64,
            damage: table.damage().iter().map(ToString::to_string).collect(),
        }
    }

    /// Returns whether a type of usual size may no longer fit.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.size > 0 && self.used >= self.size / 10 * 9
    }
}
