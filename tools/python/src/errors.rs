//! Converts Rust's errors to Python's exceptions: an error of the system is an `OSError` of the
//! natural kind, a wrong argument is a `ValueError` or `TypeError`, and the rest are classes of
//! `perfring`.

use crate::kind::shown;
use perfring_consumer::{AttachError, ReadError};
use perfring_producer::{
    Location, OpenError, ReserveError, error::CreateError, metrics::MetricsError,
};
use perfring_set::SetError;
use pyo3::PyErrArguments;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::io;
use std::path::Path;

/// Returns a class of `perfring._errors`.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("perfring._errors").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

/// Returns an exception of a class of `perfring._errors`, constructed when it is raised.
pub(crate) fn named(py: Python<'_>, name: &str, args: impl PyErrArguments + 'static) -> PyErr {
    match class(py, name).and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, args),
        Err(error) => error,
    }
}

fn os(errno: i32, text: String, location: &Location) -> PyErr {
    PyOSError::new_err((errno, text, shown(location)))
}

/// Errors as they are in `linux/errno.h`: the same on all supported architectures.
mod errno {
    pub(super) const PERM: i32 = 1;
    pub(super) const NOENT: i32 = 2;
    pub(super) const IO: i32 = 5;
    pub(super) const ACCES: i32 = 13;
    pub(super) const EXIST: i32 = 17;
    pub(super) const NOTDIR: i32 = 20;
    pub(super) const ISDIR: i32 = 21;
    pub(super) const FBIG: i32 = 27;
    pub(super) const NOSPC: i32 = 28;
    pub(super) const ROFS: i32 = 30;
}

fn io(source: &io::Error, text: String, location: &Location) -> PyErr {
    // A sentence of perfring's own has the kind of the system's error.
    let of_kind = match source.kind() {
        io::ErrorKind::PermissionDenied => errno::PERM,
        io::ErrorKind::NotFound => errno::NOENT,
        io::ErrorKind::NotADirectory => errno::NOTDIR,
        io::ErrorKind::IsADirectory => errno::ISDIR,
        io::ErrorKind::ReadOnlyFilesystem => errno::ROFS,
        _ => errno::IO,
    };
    os(source.raw_os_error().unwrap_or(of_kind), text, location)
}

/// Converts the error of a ring that was not created.
pub(crate) fn create(py: Python<'_>, error: &CreateError) -> PyErr {
    let text = error.to_string();
    match error {
        CreateError::Exists { location } | CreateError::Link { location, .. } => {
            os(errno::EXIST, text, location)
        }
        CreateError::Permission { location, .. } => os(errno::ACCES, text, location),
        CreateError::NoSpace { location, .. } => os(errno::NOSPC, text, location),
        CreateError::FileSizeLimit { location, .. } => os(errno::FBIG, text, location),
        CreateError::Io { location, source, .. } => io(source, text, location),
        CreateError::Clock { .. } => named(py, "PerfringError", text),
        _ => PyValueError::new_err(text),
    }
}

/// Converts the error of an attach.
pub(crate) fn attach(py: Python<'_>, error: &AttachError) -> PyErr {
    let text = error.to_string();
    match error {
        AttachError::NotFound { location, .. } | AttachError::Removed { location } => {
            os(errno::NOENT, text, location)
        }
        AttachError::Permission { location, .. }
        | AttachError::NotReachable { location, .. }
        | AttachError::NotRemovable { location } => os(errno::ACCES, text, location),
        AttachError::ReadOnly { location } => os(errno::ROFS, text, location),
        AttachError::Io { location, source, .. } => io(source, text, location),
        AttachError::Corrupt { source: ReadError::Corrupt { pos }, .. } => {
            named(py, "Corrupt", (text, *pos))
        }
        AttachError::Corrupt { .. } => named(py, "Corrupt", text),
        AttachError::Truncated { .. } => named(py, "Truncated", text),
        AttachError::NoSpace { location } => os(errno::NOSPC, text, location),
        AttachError::Busy { .. }
        | AttachError::Slots { .. }
        | AttachError::Consumers { .. }
        | AttachError::HeldUp { .. }
        | AttachError::ReadLocked { .. } => named(py, "Busy", text),
        AttachError::Bad { .. }
        | AttachError::Kind { .. }
        | AttachError::PageSize { .. }
        | AttachError::TooLargeToCopy { .. } => named(py, "BadRing", text),
        // `Clock` and `UnderOverlay`; also an error that is new, until it is decided here.
        _ => named(py, "PerfringError", text),
    }
}

/// Converts the error of a ring that was neither opened nor created.
pub(crate) fn open(py: Python<'_>, error: &OpenError) -> PyErr {
    match error {
        OpenError::Create(error) => create(py, error),
        OpenError::Attach(error) => attach(py, error),
        OpenError::Differs { location, .. } => os(errno::EXIST, error.to_string(), location),
        OpenError::Owner { location, .. } | OpenError::Mode { location, .. } => {
            os(errno::PERM, error.to_string(), location)
        }
        _ => named(py, "PerfringError", error.to_string()),
    }
}

/// Converts the error of a metrics area, or of an instrument in it.
pub(crate) fn metrics(py: Python<'_>, error: &MetricsError) -> PyErr {
    let text = error.to_string();
    match error {
        MetricsError::NoArea { .. } => named(py, "BadRing", text),
        MetricsError::Full { .. } => named(py, "Full", (text, "full")),
        MetricsError::Damaged { damage, .. } => named(py, "Corrupt", (text, damage.at)),
        MetricsError::OtherKind { .. } | MetricsError::Type(_) => bad_type(py, text),
        MetricsError::Attach(error) => attach(py, error),
        MetricsError::Open(error) => open(py, error),
        _ => named(py, "PerfringError", text),
    }
}

/// Converts the error of a directory of rings, or of a ring in it.
pub(crate) fn set(py: Python<'_>, error: &SetError) -> PyErr {
    let text = error.to_string();
    let at = |path: &Path| Location::from(path);
    match error {
        SetError::Dir { dir, source, .. } => io(source, text, &at(dir)),
        SetError::NoDirectory { dir } => os(errno::NOTDIR, text, &at(dir)),
        SetError::Foreign { path, .. } => os(errno::PERM, text, &at(path)),
        SetError::Open { dir, .. } => os(errno::PERM, text, &at(dir)),
        SetError::Shapes { path } => os(errno::EXIST, text, &at(path)),
        SetError::Name { .. } => PyValueError::new_err(text),
        SetError::Create(error) => create(py, error),
        SetError::Attach(error) => attach(py, error),
        _ => named(py, "PerfringError", text),
    }
}

/// Returns the exception for a record or a type that is not as it should be.
pub(crate) fn bad_type(py: Python<'_>, what: impl PyErrArguments + 'static) -> PyErr {
    named(py, "BadType", what)
}

/// Converts the error of a reader that cannot go on.
pub(crate) fn read(py: Python<'_>, error: ReadError) -> PyErr {
    let text = error.to_string();
    match error {
        ReadError::Corrupt { pos } => named(py, "Corrupt", (text, pos)),
        ReadError::Truncated => named(py, "Truncated", text),
        ReadError::NoSpace => PyOSError::new_err((errno::NOSPC, text)),
        ReadError::OutOfMemory { .. } => PyMemoryError::new_err(text),
        ReadError::Removed => named(py, "RingRemoved", text),
        _ => named(py, "PerfringError", text),
    }
}

/// Converts the error of a record that was refused.
pub(crate) fn reserve(py: Python<'_>, error: ReserveError) -> PyErr {
    let text = error.to_string();
    let name = match error {
        ReserveError::Full => return named(py, "Full", (text, "full")),
        ReserveError::Contended { .. } => return named(py, "Full", (text, "contended")),
        ReserveError::Pending { .. } => return named(py, "Full", (text, "pending")),
        ReserveError::Corrupt { tail } => return named(py, "Corrupt", (text, tail)),
        ReserveError::NoSpace => return PyOSError::new_err((errno::NOSPC, text)),
        ReserveError::Truncated => "Truncated",
        ReserveError::TooLarge { .. } => "TooLarge",
        ReserveError::Type(_) => "BadType",
        ReserveError::Forked => "Forked",
        ReserveError::Replaced => "Busy",
        ReserveError::Detached => "RingRemoved",
        _ => "PerfringError",
    };
    named(py, name, text)
}
