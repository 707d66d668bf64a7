//! Why a run failed.

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
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: nix::errno::Errno,
    },
    /// The other process ended too early; what it had to say went to standard error.
    #[error("the child process ended early: {0}")]
    ChildDied(ExitStatus),
    /// The two processes do not understand each other.
    #[error("message between the processes: {0}")]
    Message(#[from] serde_json::Error),
    /// A ring refused.
    #[error("{contestant}: {source}")]
    Contestant {
        /// Whose ring.
        contestant: &'static str,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Records were lost where none may be, or were not what was sent, or counts do not agree.
    /// Reported with the rest, after the table.
    #[error("{lost} records lost where producers wait, {bad} damaged or wrongly counted")]
    Damaged {
        /// Lost where producers wait for room.
        lost: u64,
        /// Not what the producer had written, or not counted as it should be.
        bad: u64,
    },
}
