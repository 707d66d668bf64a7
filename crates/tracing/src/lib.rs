//! A `tracing` layer that writes into a perfring.
#![forbid(unsafe_code)]

mod layer;
mod site;
mod spans;
mod visit;

pub use layer::PerfringLayer;
pub use perfring_telemetry::{Resource, Sink, SinkError, options};
