//! The use of a ring's type table, in words.

use crate::args::show_size;
use perfring_figures::owner::count;
use perfring_figures::types_use::TypesUse;

/// Formats how full it is.
pub(crate) fn used(types: &TypesUse) -> String {
    let (number, used, size) = (types.count, types.used, show_size(types.size));
    format!("{}, {used} bytes of {size} used", count(number, "type"))
}
