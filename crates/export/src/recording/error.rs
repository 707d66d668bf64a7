//! What can be wrong with a recording.

use std::fmt;
use std::io;
use thiserror::Error;

/// How many records stood in what cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// So many: the recording goes on after the damage, to its end.
    Exactly(u64),
    /// So many, as far as can be seen.
    AtLeast(u64),
    /// Nobody can tell.
    Unknown,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Exactly(1) => f.write_str("1 record is missing"),
            Missing::Exactly(records) => write!(f, "{records} records are missing"),
            Missing::AtLeast(1) => f.write_str("at least 1 record is missing"),
            Missing::AtLeast(records) => write!(f, "at least {records} records are missing"),
            Missing::Unknown => f.write_str("how many records are missing cannot be told"),
        }
    }
}

/// Why a recording cannot be read, or not on. What was read before is whole.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system's error.
    #[error("the recording cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is something else.
    #[error("this is no recording: it does not begin as one; `perfring record` makes them")]
    Other,
    /// A later program wrote it.
    #[error(
        "the recording has version {version}, and this program reads version 1: read it with a \
         newer perfring"
    )]
    Version {
        /// Its version.
        version: u32,
    },
    /// It was written on a machine whose numbers have their bytes in the other order.
    #[error("the recording is of a machine of the other byte order: read it on such a machine")]
    Order,
    /// It ends in the middle.
    #[error(
        "the recording has no end: it was cut off, or is still being written; {read} records were \
         read, then came {bytes} bytes of a block that is not whole; {missing}"
    )]
    Truncated {
        /// Records that were read.
        read: u64,
        /// Bytes after them, which are no whole block.
        bytes: u64,
        /// How many records are missing.
        missing: Missing,
    },
    /// Something wrote into it.
    #[error(
        "the recording is damaged at byte {at}: {what}; the {read} records before are whole, the \
         {bytes} bytes from there on were not read; {missing}"
    )]
    Damaged {
        /// Where.
        at: u64,
        /// What is wrong.
        what: &'static str,
        /// Records that were read.
        read: u64,
        /// Bytes from there to the end of the file.
        bytes: u64,
        /// How many records are missing.
        missing: Missing,
    },
}
