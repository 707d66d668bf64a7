//! Why there is no evidence.

use perfring_consumer::{AttachError, ReadError, error::ClockError};
use perfring_producer::{OpenError, ReserveError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why there is no evidence.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WitnessError {
    /// There is no place for its ring.
    #[error("cannot create the witness's ring in {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Its ring cannot be created.
    #[error(transparent)]
    Ring(#[from] OpenError),
    /// Its ring does not take the types of its records.
    #[error(transparent)]
    Types(#[from] ReserveError),
    /// This process cannot read the timestamps' clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// Its ring cannot be opened.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Its ring cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
