//! Counters, gauges and histograms, whose values are words in a ring's file. [`Metrics`] registers and updates them.
//! [`Observer::metrics`](crate::Observer::metrics) samples them. `telemetry::meter` gives them OpenTelemetry's names.

#[doc(inline)]
pub use perfring_consumer::metrics::*;
#[doc(inline)]
pub use perfring_producer::metrics::*;
