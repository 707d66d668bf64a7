//! The witness's own ring, while its file has a name.

use crate::error::WitnessError;
use perfring_consumer::Location;
use perfring_producer::{Options, Policy, Producer};
use perfring_why::witness::{NAME, schemas};
use std::path::Path;
use tempfile::TempDir;

/// Bytes of the witness's ring.
const SIZE: u64 = 4 << 20;

/// The witness's ring, whose file loses its name when this is dropped.
#[derive(Debug)]
pub struct NamedRing {
    location: Location,
    _dir: TempDir,
}

impl NamedRing {
    pub(crate) fn create() -> Result<(Self, Producer), WitnessError> {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::Builder::new().prefix("perfring-why-").tempdir_in(&home);
        let dir = dir.map_err(|source| WitnessError::Directory { path: home, source })?;
        let location = Location::from(dir.path().join(NAME));
        let policy = Policy::Overwrite;
        let options = Options { size: SIZE, time: true, policy, ..Options::default() };
        let mut producer = Producer::create(&location, &options)?;
        for schema in schemas() {
            producer.register(&schema)?;
        }
        Ok((NamedRing { location, _dir: dir }, producer))
    }

    /// Returns where it is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }
}
