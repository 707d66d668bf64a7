//! Options of CTF traces.

use perfring_events::Terms;
use serde::Deserialize;
use std::path::PathBuf;

/// A version of the Common Trace Format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// CTF 1.8, for `babeltrace2` and Trace Compass.
    #[default]
    V1_8,
    /// CTF 2, for `babeltrace2` from 2.1 on.
    V2,
}

/// Options of a [`Ctf`](super::Ctf).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CtfOptions {
    /// The directory of the trace.
    pub path: PathBuf,
    /// Whether an existing trace of perfring's may be overwritten. Default no.
    #[serde(default)]
    pub overwrite: bool,
    /// The version, by the kind of output. Default 1.8.
    #[serde(skip)]
    pub version: Version,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

impl CtfOptions {
    /// Creates options with all defaults.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        CtfOptions {
            path: path.into(),
            overwrite: false,
            version: Version::default(),
            terms: Terms::default(),
        }
    }
}
