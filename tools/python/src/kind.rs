//! Converts Python's paths, sizes, record types and string choices.

use perfring_producer::{Evict, Location, Policy, RecordType};
use perfring_types::read::parse_size;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use std::ffi::OsString;
use std::path::PathBuf;

/// A record's type: a number, or an object with an `id`.
pub(crate) struct Kind<'py>(pub(crate) RecordType, pub(crate) Option<Bound<'py, PyAny>>);

impl Kind<'_> {
    pub(crate) const BYTES: Self = Kind(RecordType::BYTES, None);
}

impl<'py> FromPyObject<'_, 'py> for Kind<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (number, of) = match given.extract::<u64>() {
            Ok(number) => (number, None),
            Err(_) => {
                let id = given.getattr("id").and_then(|id| id.extract()).map_err(|_| {
                    PyTypeError::new_err(
                        "a record's type is its number, or an object with an `id`: a RecordType, \
                         or a class made by perfring.record",
                    )
                })?;
                (id, Some(given.to_owned()))
            }
        };
        let known = u32::try_from(number).ok().and_then(RecordType::new);
        known.map(|kind| Kind(kind, of)).ok_or_else(|| {
            PyValueError::new_err(format!(
                "{number} cannot be a record's type: it is 9 (PERF_RECORD_SAMPLE), or from 64 to \
                 0xffffffff but for 0x50460000 to 0x5046ffff, which are the ring's"
            ))
        })
    }
}

/// The location of a ring: a `str`, `bytes` or `os.PathLike`; `shm:NAME` is a named segment.
pub(crate) struct At(pub(crate) Location);

impl<'py> FromPyObject<'_, 'py> for At {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = given.extract::<&str>() {
            return Ok(At(Location::from(text)));
        }
        Dir::extract(given).map(|path| At(Location::from(path.0.as_path())))
    }
}

/// The path of a directory: a `str`, `bytes` or `os.PathLike`.
pub(crate) struct Dir(pub(crate) PathBuf);

impl<'py> FromPyObject<'_, 'py> for Dir {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // `os.fsdecode` for bytes, and for text that is not valid UTF-8.
        let decoded = given.py().import("os")?.call_method1("fsdecode", (given,))?;
        decoded.extract().map(Dir)
    }
}

/// Converts a ring's location to a Python path.
pub(crate) fn shown(location: &Location) -> OsString {
    match location {
        Location::File(path) => path.clone().into_os_string(),
        Location::Segment(_) => location.to_string().into(),
    }
}

/// A number of bytes: an integer, or text that [`parse_size`] reads, such as `"64K"`.
pub(crate) struct Size(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = given.extract::<u64>() {
            return Ok(Size(bytes));
        }
        let Ok(text) = given.extract::<&str>() else {
            let wrong = format!(
                "{} is no size: give bytes, or text such as \"64K\", \"16M\" or \"1G\"",
                given.repr()?
            );
            return Err(match given.is_instance_of::<PyInt>() {
                true => PyValueError::new_err(wrong),
                false => PyTypeError::new_err(wrong),
            });
        };
        parse_size(text).map(Size).map_err(|wrong| PyValueError::new_err(wrong.to_string()))
    }
}

pub(crate) fn policy_of(given: &str) -> PyResult<Policy> {
    match given {
        "drop" => Ok(Policy::Drop),
        "overwrite" => Ok(Policy::Overwrite),
        other => Err(choice("policy", other, "\"drop\" or \"overwrite\"")),
    }
}

pub(crate) fn evict_of(given: &str) -> PyResult<Evict> {
    match given {
        "exact" => Ok(Evict::Exact),
        "half" => Ok(Evict::Half),
        other => Err(choice("evict", other, "\"exact\" or \"half\"")),
    }
}

/// Returns the error for a string that is none of the choices.
pub(crate) fn choice(name: &str, given: &str, choices: &str) -> PyErr {
    PyValueError::new_err(format!("{name} {given:?} is none: it is {choices}"))
}

/// Returns the default name of a producer or consumer: the script's, as the process's name is
/// `python3` for all.
pub(crate) fn program(py: Python<'_>) -> PyResult<String> {
    let argv: Vec<String> = py.import("sys")?.getattr("argv")?.extract().unwrap_or_default();
    let script = argv.first().map(std::path::Path::new).and_then(|path| path.file_name());
    let script = script.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(match script.as_str() {
        "" | "-c" | "-m" => "python".to_owned(),
        _ => script,
    })
}

/// Formats an id as `uuid.UUID` does.
pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*bytes).to_string()
}
