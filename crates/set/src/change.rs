//! The changes in a followed directory.

use crate::entry::{NoRing, RingEntry};
use perfring_consumer::error::ClockError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A change in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A ring appeared. It can be attached to.
    Appeared(RingEntry),
    /// Another ring has this name now.
    Replaced {
        /// The ring that had it. Readers that are attached to it can read it to its end.
        before: RingEntry,
        /// The ring that has it.
        now: RingEntry,
    },
    /// A ring's file was removed. Readers that are attached to it can read it to its end.
    Vanished(RingEntry),
    /// An entry is not followed. Reported once, and again if the reason changes. It is the directory
    /// itself if that has too many entries.
    Refused(NoRing),
    /// An entry with this path was refused, and is there no more.
    Left(PathBuf),
}

perfring_producer::debug_by_display!(FollowError);

/// Why a directory cannot be followed.
#[derive(Error)]
#[non_exhaustive]
pub enum FollowError {
    /// A system call failed: no file descriptors are left.
    #[error("cannot follow {}: {step}: {source}", .dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// The step that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The clock of the timestamps is unknown here, so that nothing can be merged by time.
    #[error(transparent)]
    Clock(#[from] ClockError),
}
