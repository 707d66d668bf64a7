//! The tests of telemetry: what programs report, by each way, is what rings hold.
#![allow(clippy::duplicate_mod, reason = "modules that are compiled for each shape")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use shape::Shape;

/// What the sinks of the modules below write to.
const SHAPE: Shape = Shape::Ring;

/// Modules that are compiled once more, for rings per CPU.
#[path = "."]
mod cpus {
    use crate::shape::Shape;
    const SHAPE: Shape = Shape::Cpus;

    mod every_field;
    mod priority;
    mod removed;
}

mod every_field;
#[cfg(all(feature = "log", feature = "metrics"))]
mod metrics_and_log;
mod one_producer;
mod per_cpu;
mod priority;
mod removed;
mod shape;
