//! The use of a ring's type table and of its metrics area.

use crate::owner::count;
use perfring_abi::TYPES_FIRST;
use perfring_consumer::{MetricsFill, Observer};
use perfring_types::read::TypeTable;

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

/// Says what is wrong with a metrics area: where it is damaged, and what it had no room for.
#[must_use]
pub fn trouble(fill: &MetricsFill) -> Option<String> {
    let damage = fill.damage.map(|damage| damage.to_string());
    let all: Vec<String> = damage.into_iter().chain(unmeasured(fill)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Says how many instruments a metrics area had no room for, and how many values others replaced; `None` if it had room for all.
#[must_use]
pub fn unmeasured(fill: &MetricsFill) -> Option<String> {
    let some = |number: u64| (number > 0).then(|| count(number, "instrument"));
    let refused = some(fill.refused).map(|some| format!("{some} found no room"));
    let replaced = some(fill.replaced).map(|some| format!("{some} of ended processes replaced"));
    let all: Vec<String> = refused.into_iter().chain(replaced).collect();
    (!all.is_empty()).then(|| all.join("; "))
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
