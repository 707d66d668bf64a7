//! Rings of records of a witness, while their files have names.

use crate::error::WitnessError;
use perfring_consumer::Location;
use perfring_producer::{Options, Policy};
use perfring_why::witness::NAME;
use std::path::Path;
use tempfile::TempDir;

/// Bytes of a witness's ring.
pub(crate) const SIZE: u64 = 4 << 20;

/// A ring whose file loses its name when this is dropped.
#[derive(Debug)]
pub struct NamedRing {
    location: Location,
    _dir: TempDir,
}

impl NamedRing {
    /// Makes a place for it.
    pub(crate) fn new() -> Result<Self, WitnessError> {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::Builder::new().prefix("perfring-why-").tempdir_in(&home);
        let dir = dir.map_err(|source| WitnessError::Directory { path: home, source })?;
        Ok(NamedRing { location: Location::from(dir.path().join(NAME)), _dir: dir })
    }

    /// Returns the options for it.
    pub(crate) fn options() -> Options {
        Options { size: SIZE, time: true, policy: Policy::Overwrite, ..Options::default() }
    }

    /// Returns where it is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }
}
