//! Why there is no witness.

use perfring_consumer::ClockError;
use perfring_producer::{OpenError, ReserveError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a witness cannot begin.
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
}
