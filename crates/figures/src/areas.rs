//! The use of a ring's type table.

use perfring_abi::TYPES_FIRST;
use perfring_consumer::Observer;
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
