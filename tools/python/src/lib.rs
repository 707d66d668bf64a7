//! The native module under the Python package `perfring`, which is what users import.
//!
//! Each file has a class, or a few that belong together. The documentation for users is in
//! `python/perfring/`. All memory that Python sees without a copy goes through `memory`, the only
//! module with unsafe code.
#![deny(unsafe_code)]

mod batch;
mod consumer;
mod errors;
mod fork;
mod kind;
mod locks;
mod log;
mod lost;
mod measured;
mod memory;
mod merge;
mod meter;
mod missing;
mod pins;
mod producer;
mod reader;
mod record;
mod reservation;
mod runs;
mod sender;
mod set;
mod snapshot;
mod source;
mod spaces;
mod spare;
mod stat;
mod types;
mod wait;

use pyo3::prelude::*;

/// `perfring._native`.
// `memory::held` counts references, which the GIL keeps as they are meanwhile.
#[pymodule(gil_used = true)]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::{
        batch::Batch,
        consumer::{Consumer, Observer},
        fork::_forked,
        log::{LogSink, direct::Direct},
        lost::Lost,
        measured::metrics,
        merge::{Merge, Merged, RingFailed, RingGone},
        meter::{Counter, Gauge, Histogram, Meter, UpDownCounter},
        producer::Producer,
        record::Record,
        reservation::{ProducerBatch, Reservation},
        set::RingSet,
        snapshot::Snapshot,
        stat::stat,
        types::{_describe, _from_entry, RecordType, TypeTable},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // A truncated ring file raises an exception and does not kill the interpreter.
        perfring_consumer::install_sigbus_handler()?;
        // Before there are threads, most likely.
        perfring_consumer::register_process();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("BYTES", perfring_producer::RecordType::BYTES.get())
    }
}
