//! Log records, spans, metrics and resources in a perfring, named and numbered as OpenTelemetry
//! does, so that a sidecar can forward them and a dump is read without the program.
#![forbid(unsafe_code)]

mod ids;
mod local;
pub mod names;
mod resource;
mod severity;
mod signals;
mod sink;
mod value;

pub use ids::{SpanId, TraceId};
pub use perfring_producer as producer;
pub use perfring_producer::types;
pub use resource::Resource;
pub use severity::{Severity, SpanKind, Status, Temporality};
pub use signals::{
    Attributes, COMMON, FIRST, Gauge, Histogram, Log, Signal, SpanEnd, SpanStart, Sum,
};
pub use sink::{Sink, SinkError, options};
pub use value::Value;
