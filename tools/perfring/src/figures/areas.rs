//! The use of a ring's type table and of its metrics area, in words.

use crate::args::show_size;
use perfring_consumer::MetricsFill;
use perfring_figures::areas::{TypesUse, unmeasured};
use perfring_figures::owner::count;

/// Formats how full a type table is.
pub(crate) fn types_used(types: &TypesUse) -> String {
    let (number, used, size) = (types.count, types.used, show_size(types.size));
    format!("{}, {used} bytes of {size} used", count(number, "type"))
}

/// Formats how full a metrics area is, and what it has no room for.
pub(crate) fn metrics_used(metrics: &MetricsFill) -> String {
    let (used, size) = (metrics.used, show_size(metrics.size));
    let text = format!("{}, {used} bytes of {size} used", count(metrics.instruments, "instrument"));
    [Some(text), unmeasured(metrics)].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
