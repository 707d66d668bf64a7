//! The errors of a run.

use std::error::Error;
use std::io;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The arguments make no sense.
    #[error("{0}")]
    Usage(String),
    /// A file, a pipe or the output.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A system call.
    #[error("{what}: {source}")]
    System {
        /// The action that failed.
        what: &'static str,
        /// The kernel's error.
        source: nix::errno::Errno,
    },
    /// A message between two processes could not be decoded.
    #[error("message between the processes: {0}")]
    Message(#[from] serde_json::Error),
    /// A contestant was asked for something that it does not support.
    #[error("this contestant can't {0}")]
    Cannot(&'static str),
    /// A contestant failed.
    #[error("{contestant}: {source}")]
    Contestant {
        /// Its name.
        contestant: &'static str,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Something was damaged, lost, wrongly reported, or did not work: sentences.
    #[error("{0}")]
    Faults(String),
    /// A signal asked to end the run.
    #[error("interrupted")]
    Interrupted,
}

/// A result of the harness.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

/// Wraps an error of this contestant.
pub fn failed<E>(contestant: &'static str) -> impl Fn(E) -> BenchError
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    move |source| BenchError::Contestant { contestant, source: source.into() }
}

/// Wraps the error of a system call.
pub fn system(what: &'static str) -> impl Fn(nix::errno::Errno) -> BenchError {
    move |source| BenchError::System { what, source }
}
