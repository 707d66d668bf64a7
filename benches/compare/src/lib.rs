//! perfring beside other means of transferring records from one process to another.
//!
//! Real processes on two cores, each contestant on its own fast path, every byte verified by the
//! receiver, in one run and taking turns, each sample with the distance of the cores before and
//! after it. `ROWS.md` describes the report.

pub mod absences;
pub mod case;
pub mod child;
pub mod conductor;
pub mod contest;
pub mod contestant;
pub mod duty;
pub mod entrants;
pub mod machine;
pub mod notes;
pub mod options;
pub mod part;
pub mod places;
pub mod player;
pub mod report;
pub mod rows;
pub mod run;
pub mod sample;
pub mod scaling;
pub mod stage;
pub mod summary;
pub mod table;
pub mod words;
pub mod workload;

use std::io;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
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
    /// A contestant was asked for something that it does not support.
    #[error("this contestant can't {0}")]
    Cannot(&'static str),
    /// A contestant failed.
    #[error("{contestant}: {source}")]
    Contestant {
        /// Its name.
        contestant: &'static str,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something was damaged, lost, wrongly reported, or did not work; returned after the whole
    /// report.
    #[error("{0}")]
    Faults(String),
    /// A signal asked to end the run.
    #[error("interrupted")]
    Interrupted,
    /// An error of the harness that is shared with `perfring bench`.
    #[error(transparent)]
    Bench(#[from] perfring_bench::BenchError),
    /// A message between the two processes could not be decoded.
    #[error("message between the processes: {0}")]
    Message(#[from] serde_json::Error),
}
