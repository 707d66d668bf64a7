//! The errors of a run.

use std::io;
use std::process::ExitStatus;

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
    /// The other process ended too early; its message went to standard error.
    #[error("the child process ended early: {0}")]
    ChildDied(ExitStatus),
    /// A message between the two processes could not be decoded.
    #[error("message between the processes: {0}")]
    Message(#[from] serde_json::Error),
    /// A ring returned an error.
    #[error("{contestant}: {source}")]
    Contestant {
        /// The ring's name.
        contestant: &'static str,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Records were lost where none may be, or differ from what was sent, or counts disagree.
    /// Reported with the rest, after the table.
    #[error("{lost} records lost where producers wait, {bad} damaged or wrongly counted")]
    Damaged {
        /// Lost where producers wait for room.
        lost: u64,
        /// Different from what the producer had written, or not counted as they should be.
        bad: u64,
    },
}
