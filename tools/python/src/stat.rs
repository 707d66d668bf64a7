//! A ring's figures, by the names that `perfring stat --json` has.

use crate::errors;
use crate::kind::{At, shown};
use perfring_figures::agreed;
use perfring_figures::json::object;
use pyo3::prelude::*;
use pythonize::pythonize;

/// Returns the ring's figures as a `RingStat`: a dict with the names that ``perfring stat --json``
/// has.
///
/// Needs read permission only and does not disturb the ring's processes. Records that were
/// written, read, refused or lost are present as ``..._records`` and ``..._bytes``; `RingStat` has
/// all names. ``producer``, ``consumer`` and each of the ``slots`` of a shared ring name their
/// process, by ``name``, ``pid`` and ``state``: ``alive``, ``detached``, ``dead`` (it ended without
/// that: it was killed, or crashed) or ``free`` (there was none yet); ``uid`` is None of one that
/// has detached.
///
/// Raises:
///     BadRing: The file is no ring.
///     OSError: The system refused it.
///
/// Example:
///     >>> producer = perfring.Producer.create(tmp / "figures")
///     >>> producer.publish(b"one")
///     True
///     >>> stat = perfring.stat(tmp / "figures")
///     >>> stat["written_records"], stat["full_records"], stat["producer"]["alive"]
///     (1, 0, True)
#[pyfunction]
pub(crate) fn stat<'py>(py: Python<'py>, path: At) -> PyResult<Bound<'py, PyAny>> {
    let location = path.0;
    // It may retry for some 20 ms.
    let (stat, types) =
        py.detach(|| agreed::with_types(&location)).map_err(|error| errors::attach(py, &error))?;
    let figures = pythonize(py, &object(&location, &stat, Some(&types)))?;
    figures.set_item("ring", shown(&location))?; // also if it is not UTF-8
    Ok(figures)
}
