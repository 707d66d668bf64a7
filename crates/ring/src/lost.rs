//! Losses.

use perfring_abi::Cause;

/// Records that a reader will not see, reported where they would have been in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The position in the stream at which the loss is reported.
    pub pos: u64,
    /// How many records; 0 with other `bytes` than 0 if their number is not known, as in an overwritten BPF map.
    pub records: u64,
    /// How many bytes of the ring they used or would have used, headers and padding included.
    pub bytes: u64,
    /// The reason why they are missing.
    pub cause: Cause,
    /// Whether the place in the stream is unknown: the reader has read everything before `pos`, and finds the loss in the
    /// producers' counters. The loss happened at some time before now. A later record may be older than the loss.
    pub at_end: bool,
}

/// Writes how much was lost and why, as a message for people.
impl core::fmt::Display for Lost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let plural = |count| if count == 1 { "" } else { "s" };
        let Lost { records, bytes, cause, at_end, .. } = *self;
        match records {
            0 if bytes > 0 => f.write_str("an unknown number of records")?,
            _ => write!(f, "{records} record{}", plural(records))?,
        }
        if bytes > 0 {
            write!(f, " ({bytes} byte{})", plural(bytes))?;
        }
        write!(f, " lost: {cause}{}", if at_end { " (at some time before now)" } else { "" })
    }
}
