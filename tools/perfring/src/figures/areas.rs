//! The use of a ring's type table and of its metrics area, in words.

use crate::args::show_size;
use perfring_consumer::metrics::MetricsFill;
use perfring_figures::areas::TypesUse;
use perfring_figures::owner::count;

/// Formats how full a type table is.
pub(crate) fn types_used(types: &TypesUse) -> String {
    let (number, used, size) = (types.count, types.used, show_size(types.size));
    format!("{}, {used} bytes of {size} used", count(number, "type"))
}

/// Formats how full a metrics area is, what it has no room for, and where it is damaged.
pub(crate) fn metrics_used(metrics: &MetricsFill) -> String {
    let (used, size) = (metrics.used, show_size(metrics.size));
    let before = if metrics.damage.is_some() { " before the damage" } else { "" };
    let count = count(metrics.instruments, "instrument");
    let text = format!("{count}{before}, {used} bytes of {size} used");
    [Some(text), metrics.trouble()].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
