//! Options of CTF traces.

use perfring_events::Terms;
use serde::Deserialize;
use std::path::PathBuf;

/// Options of a [`Ctf`](super::Ctf).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CtfOptions {
    /// The directory of the trace.
    pub path: PathBuf,
    /// Whether an existing trace of perfring's may be overwritten. Default no.
    #[serde(default)]
    pub overwrite: bool,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

impl CtfOptions {
    /// Creates options with all defaults.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        CtfOptions { path: path.into(), overwrite: false, terms: Terms::default() }
    }
}
