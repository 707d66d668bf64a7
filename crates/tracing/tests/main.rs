//! The tests of the layer.
#![allow(clippy::duplicate_mod, reason = "modules that are compiled for each shape")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use common::Shape;

/// What the layers of the modules below write to.
const SHAPE: Shape = Shape::Ring;

/// Modules that are compiled once more, for rings per CPU.
#[path = "."]
mod cpus {
    use crate::common::Shape;
    const SHAPE: Shape = Shape::Cpus;

    mod alone;
    mod events_and_spans;
    mod panics;
    mod removed;
    mod whatever_happens;
}

mod alone;
mod common;
mod crash;
mod events_and_spans;
mod panics;
mod quiet;
mod removed;
mod whatever_happens;
