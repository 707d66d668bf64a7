//! The native half of `perfring.RingSet`: a directory of rings.

use crate::errors;
use crate::kind::{self, Dir, Size, choice, evict_of, policy_of};
use crate::wait::Timeout;
use perfring_consumer::Layout;
use perfring_producer::{Options, Producers};
use perfring_set::{Access, Fate, PruneRule, Pruner, SetError, SetOptions, Verdict, list};
use pyo3::exceptions::PyPermissionError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// The native half of `perfring.RingSet`.
#[pyclass(frozen, subclass, module = "perfring._native")]
pub(crate) struct RingSet {
    set: perfring_set::RingSet,
    mode: u32,
    access: Access,
}

/// Converts an error of a set; where the message names a Rust option, it names Python's instead.
fn refused(py: Python<'_>, error: &SetError) -> PyErr {
    let path = match error {
        SetError::Foreign { path, .. } => path,
        SetError::Open { dir, .. } => dir,
        _ => return errors::set(py, error),
    };
    let text = error.to_string().replace("Access::Shared", "access=\"shared\"");
    // EPERM, although the system returned no error.
    PyPermissionError::new_err((1, text, path.display().to_string()))
}

/// Name, path, uuid, policy, whether it is shared, size, whether it has time.
type Row = (String, PathBuf, String, &'static str, bool, u64, bool);

/// The path of a file that is not a ring, and why.
type Others = Vec<(PathBuf, String)>;

/// Name, path, whether it is removed, why it is kept, bytes of the file.
type Pruned = (String, PathBuf, bool, String, u64);

#[pymethods]
impl RingSet {
    #[new]
    #[pyo3(signature = (dir=None, *, mode=0o700, access="private"))]
    fn new(py: Python<'_>, dir: Option<Dir>, mode: u32, access: &str) -> PyResult<Self> {
        let access = match access {
            "private" => Access::Private,
            "shared" => Access::Shared,
            other => return Err(choice("access", other, "\"private\" or \"shared\"")),
        };
        // Each ring's own options say whether it has timestamps.
        let ring = Options { time: false, ..Options::default() };
        let options = SetOptions { mode, access, ring };
        let set = match dir {
            None => perfring_set::RingSet::open_default_with(&options),
            Some(dir) => std::path::absolute(dir.0)
                .map_err(PyErr::from)
                .map(|dir| perfring_set::RingSet::open_with(dir, &options))?,
        };
        set.map(|set| RingSet { set, mode, access }).map_err(|error| refused(py, &error))
    }

    /// The arguments that make it again, except for the directory.
    #[getter]
    fn _reported(&self) -> (u32, &'static str) {
        let access = match self.access {
            Access::Private => "private",
            Access::Shared => "shared",
        };
        (self.mode, access)
    }

    /// Return the default directory.
    #[staticmethod]
    fn default_dir() -> PathBuf {
        perfring_set::RingSet::default_dir()
    }

    /// The directory.
    #[getter]
    fn dir(&self) -> PathBuf {
        self.set.dir().to_owned()
    }

    /// Returns the path of a ring of this name and shape, which is created if it is missing.
    #[expect(clippy::too_many_arguments, reason = "keywords, with names, in Python")]
    #[pyo3(signature = (name, *, size, policy, shared, slots, time, evict, mode, types_size, aux_size))]
    fn _ready(
        &self,
        py: Python<'_>,
        name: &str,
        size: Size,
        policy: &str,
        shared: bool,
        slots: u32,
        time: bool,
        evict: &str,
        mode: u32,
        types_size: Size,
        aux_size: Size,
    ) -> PyResult<PathBuf> {
        let options = Options {
            size: size.0,
            policy: policy_of(policy)?,
            evict: evict_of(evict)?,
            producers: if shared { Producers::Many } else { Producers::One },
            slots,
            types_size: types_size.0,
            aux_size: aux_size.0,
            time,
            mode,
            ..Options::default()
        };
        self.set.ring_path(name, &options).map_err(|error| refused(py, &error))
    }

    /// Returns the rings, and the files that are not rings with the reason.
    fn _list(&self, py: Python<'_>) -> PyResult<(Vec<Row>, Others)> {
        let (rings, others) =
            py.detach(|| list(self.set.dir())).map_err(|error| refused(py, &error))?;
        let row = |ring: perfring_set::RingEntry| {
            let Layout { uuid, policy, producers, data_size, time, .. } = ring.layout;
            let shared = producers == Producers::Many;
            (ring.name, ring.path, kind::uuid(&uuid), policy.name(), shared, data_size, time)
        };
        let others = others.into_iter().map(|other| (other.path, other.why));
        Ok((rings.into_iter().map(row).collect(), others.collect()))
    }

    /// Name, path, whether it is removed, why it is kept, bytes of the file.
    #[pyo3(signature = (*, dead_for, keep, max_bytes, flight_recorders, plan))]
    fn _prune(
        &self,
        py: Python<'_>,
        dead_for: Timeout,
        keep: usize,
        max_bytes: Option<Size>,
        flight_recorders: bool,
        plan: bool,
    ) -> PyResult<Vec<Pruned>> {
        let dead_for = dead_for.length();
        let max_bytes = max_bytes.map(|size| size.0);
        let rule = PruneRule { dead_for, keep, max_bytes, flight_recorders };
        let verdicts = py.detach(|| {
            let mut pruner = Pruner::new(self.set.dir(), rule);
            if plan { pruner.plan() } else { pruner.prune() }
        });
        let verdicts = verdicts.map_err(|error| refused(py, &error))?;
        let reported = |Verdict { ring, bytes, fate }| {
            let (goes, why) = match fate {
                Fate::Removed { .. } => (true, String::new()),
                Fate::Kept(kept) => (false, kept.to_string()),
                Fate::Failed(error) => (false, error.to_string()),
            };
            (ring.name, ring.path, goes, why, bytes)
        };
        Ok(verdicts.into_iter().map(reported).collect())
    }

    fn __repr__(&self) -> String {
        format!("<perfring.RingSet {}>", self.set.dir().display())
    }
}
