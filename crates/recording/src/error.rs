//! Errors of reading a recording.

use std::fmt;
use std::io;
use thiserror::Error;

/// How many records the unreadable part held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// This many: the recording continues after the damage, to its end.
    Exactly(u64),
    /// At least this many.
    AtLeast(u64),
    /// An unknown number.
    Unknown,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Exactly(1) => f.write_str("1 record is missing"),
            Missing::Exactly(records) => write!(f, "{records} records are missing"),
            Missing::AtLeast(1) => f.write_str("at least 1 record is missing"),
            Missing::AtLeast(records) => write!(f, "at least {records} records are missing"),
            Missing::Unknown => f.write_str("an unknown number of records is missing"),
        }
    }
}

/// Says what follows the last complete block.
fn partial(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        1 => ", then came 1 byte of a block that is not whole".to_owned(),
        bytes => format!(", then came {bytes} bytes of a block that is not whole"),
    }
}

/// Why a block, or a frame, is invalid.
pub(super) struct Bad(pub(super) &'static str);

pub(super) const NO_FRAME: Bad = Bad("a frame is invalid");

/// Why a recording cannot be read any further. Everything that was read before is intact.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// An error of the system.
    #[error("the recording cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is something else.
    #[error("this is not a recording; `perfring record` makes them")]
    Other,
    /// A later program wrote it.
    #[error(
        "the recording has version {version}, and this program reads up to version 2: read it \
         with a newer perfring"
    )]
    Version {
        /// Its version.
        version: u32,
    },
    /// It is compressed, and this program was built without the feature `zstd`.
    #[error(
        "the recording is compressed, and this build has no zstd: `cargo install perfring-cli \
         --features full`"
    )]
    Compressed,
    /// It was written on a machine of the other byte order.
    #[error("the recording is from a machine of the other byte order: read it on such a machine")]
    Order,
    /// It ends in the middle.
    #[error(
        "the recording has no end: it was truncated, or is still being written; {read} records were \
         read{}; {missing}",
        partial(*bytes)
    )]
    Truncated {
        /// Records that were read.
        read: u64,
        /// Bytes after them, which are not a complete block.
        bytes: u64,
        /// How many records are missing.
        missing: Missing,
    },
    /// Its content was changed.
    #[error(
        "the recording is damaged at byte {at}: {what}; the {read} records before are intact, the \
         {bytes} bytes from there on were not read; {missing}"
    )]
    Damaged {
        /// The offset of the damage.
        at: u64,
        /// The problem.
        what: &'static str,
        /// Records that were read.
        read: u64,
        /// Bytes from there to the end of the file.
        bytes: u64,
        /// How many records are missing.
        missing: Missing,
    },
}
