//! The native module under the Python package `perfring`, which is what users import.
//!
//! A file here is a class, or a few that belong together. What they promise is said where Python's
//! users look: in `python/perfring/`. All memory that Python sees without a copy goes through
//! `memory.rs`, the only file with unsafe code.
#![deny(unsafe_code)]

mod errors;
mod log;

use pyo3::prelude::*;

/// `perfring._native`.
#[pymodule(gil_used = false)]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::log::LogSink;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
