//! Recorders for the `metrics` crate (feature `metrics`): [`MeterRecorder`] keeps sums and histograms in memory that readers
//! sample, and [`RingRecorder`] publishes each measurement.

mod known;
mod meter_recorder;
mod ring_recorder;

pub use meter_recorder::MeterRecorder;
pub use ring_recorder::RingRecorder;
