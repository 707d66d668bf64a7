//! The tests of telemetry: what programs report, by each way, is what rings hold.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod every_field;
#[cfg(all(feature = "log", feature = "metrics"))]
mod metrics_and_log;
mod one_producer;
mod priority;
mod removed;
