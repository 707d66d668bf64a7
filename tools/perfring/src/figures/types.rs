//! The use of a ring's type table.

use crate::args::show_size;
use crate::failure::Failure;
use crate::records::shapes::Shapes;
use perfring_abi::TYPES_FIRST;
use perfring_consumer::{Location, Observer, Start};
use perfring_view::owner::count;

#[derive(Clone, Debug)]
pub(crate) struct TypesUse {
    /// The table's size in bytes; 0 if there is none.
    pub(crate) size: u64,
    /// Bytes up to the end of its last entry.
    pub(crate) used: u64,
    /// Types that can be used.
    pub(crate) count: u64,
    /// Parts that cannot be read.
    pub(crate) damage: Vec<String>,
}

impl TypesUse {
    pub(crate) fn read(location: &Location) -> Result<Self, Failure> {
        let observer = Observer::open(location, Start::Oldest)?;
        let types = observer.types();
        let used = TYPES_FIRST + 8 * types.words().len() as u64;
        let shapes = Shapes::of(types, observer.anchors());
        let size = observer.layout().types_size;
        Ok(TypesUse {
            size,
            used: used.min(size),
            count: shapes.table().len() as u64,
            damage: shapes.damage().iter().map(ToString::to_string).collect(),
        })
    }

    /// Returns whether a type of usual size may no longer fit.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.size > 0 && self.used >= self.size / 10 * 9
    }

    /// Formats how full it is.
    pub(crate) fn used(&self) -> String {
        let (number, used, size) = (self.count, self.used, show_size(self.size));
        format!("{}, {used} of {size} used", count(number, "type"))
    }
}
