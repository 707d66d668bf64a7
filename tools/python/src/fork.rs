//! Forked children: using an inherited object is an error, which is returned before taking a lock
//! that a thread of the parent may have held.

use crate::errors;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A process, among those that are forks of one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Self {
        Process(GENERATION.load(Ordering::Relaxed))
    }

    pub(crate) fn is_this(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }

    pub(crate) fn check(self, py: Python<'_>) -> PyResult<()> {
        if self.is_this() {
            return Ok(());
        }
        Err(errors::named(
            py,
            "Forked",
            "this process was forked from the one that attached: attach again here, or start it by \
             multiprocessing's \"spawn\" and hand it the path",
        ))
    }
}

/// Called in every forked child, by `os.register_at_fork`.
#[pyfunction]
pub(crate) fn _forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
