//! The built-in record types.

mod log;
mod metric;
mod record;
mod span;

pub use log::Log;
pub use metric::{Exponential, Gauge, Histogram, Sum};
pub use record::{Attributes, COMMON, FIRST, Signal};
pub use span::{SpanEnd, SpanStart};

use record::*;

/// All built-in types: a sink registers them when it attaches.
pub(crate) const ALL: [Schema<'static>; 7] = [
    Log::SCHEMA,
    SpanStart::SCHEMA,
    SpanEnd::SCHEMA,
    Gauge::SCHEMA,
    Sum::SCHEMA,
    Histogram::SCHEMA,
    RESOURCE,
];

fields! {
    RESOURCE_FIELDS:
    RESOURCE_START = ns(names::START_TIME, "what its sums count from: the same in all its resources"),
}

/// The record type of a [`Resource`](crate::Resource).
pub(crate) const RESOURCE: Schema<'static> = schema(
    "perfring.Resource",
    Class::Resource,
    "what the process is whose records have this process.pid, from here on",
    RESOURCE_FIELDS,
);

/// Writes the first field of a resource's record.
pub(crate) fn started(at: u64, writer: &mut TaggedWriter<'_>) {
    writer.u64(RESOURCE_START, at);
}
