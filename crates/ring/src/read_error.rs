//! The reason why a reader cannot continue.

use crate::record::Corrupt;
use core::fmt;

/// The reason why nothing can be read. Everything that was read before is good.
///
/// An empty ring is no error, and neither are lost records: they are items.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The ring holds bytes at `pos` that no producer writes. Every further read returns this error again.
    Corrupt {
        /// The position in the stream.
        pos: u64,
    },
    /// The ring's file was truncated while it was mapped. The file is no longer a ring.
    Truncated,
    /// The file system could not provide a page of the ring's file, although the file was not truncated: the file has holes
    /// and the file system is full, or its device failed. Attach again once there is room.
    NoSpace,
    /// There is no memory for a copy of the next payload. The record is not passed: a later read
    /// returns it.
    OutOfMemory {
        /// The payload's length in bytes.
        bytes: u64,
    },
    /// The ring's file was removed or replaced, and everything in it has been
    /// read. Attach again to read the ring that has the name now.
    Removed,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Corrupt { pos } => Corrupt { pos: *pos }.fmt(f),
            ReadError::Truncated => f.write_str(
                "the ring's file was truncated while it was in use: it is no ring any more, remove it",
            ),
            ReadError::NoSpace => f.write_str(
                "the file system could not provide a page of the ring's file: it is full, or its device failed; free some \
                 space, and attach again",
            ),
            ReadError::OutOfMemory { bytes } => {
                write!(f, "no memory for a copy of {bytes} bytes: free some, and read again")
            }
            ReadError::Removed => f.write_str(
                "the ring was removed or replaced, and everything in it has been read: attach again",
            ),
        }
    }
}

/// Shows the sentence, because `main() -> Result` prints this.
impl fmt::Debug for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for ReadError {}

impl From<Corrupt> for ReadError {
    #[inline]
    fn from(Corrupt { pos }: Corrupt) -> Self {
        ReadError::Corrupt { pos }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn an_error_s_debug_is_its_sentence() {
        for error in [
            ReadError::Corrupt { pos: 8 },
            ReadError::Truncated,
            ReadError::NoSpace,
            ReadError::OutOfMemory { bytes: 9 },
            ReadError::Removed,
        ] {
            assert_eq!(format!("{error:?}"), format!("{error}"));
        }
    }

    #[test]
    fn an_error_is_no_larger_than_a_position_and_a_tag() {
        assert_eq!(size_of::<ReadError>(), 16);
    }
}
