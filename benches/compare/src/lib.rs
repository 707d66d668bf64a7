//! perfring beside other ways to hand records from one process to another.
//!
//! Real processes on two cores, each contestant on its own fast path, every byte verified by the
//! receiver, in one run and taking turns, each sample with the distance of the cores before and
//! after it. See `ROWS.md` for what is reported.

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
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: nix::errno::Errno,
    },
    /// A contestant was asked for what it says it can't do.
    #[error("this contestant can't {0}")]
    Cannot(&'static str),
    /// A contestant failed.
    #[error("{contestant}: {source}")]
    Contestant {
        /// Which.
        contestant: &'static str,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something was damaged, lost, told wrongly, or did not work; told after the whole report.
    #[error("{0}")]
    Faults(String),
    /// A signal asked to end the run.
    #[error("interrupted")]
    Interrupted,
    /// Of the harness that is shared with `perfring bench`.
    #[error(transparent)]
    Bench(#[from] perfring_bench::BenchError),
    /// The two processes do not understand each other.
    #[error("message between the processes: {0}")]
    Message(#[from] serde_json::Error),
}
