//! What a record has between its header and its payload.

use crate::numbers::{TIMESTAMP_LEN, WRITER_LEN};
use core::num::NonZeroU32;

/// What each record of a ring has before its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lead {
    /// Nothing.
    #[default]
    None,
    /// A timestamp.
    Time,
    /// A timestamp, and a [`WriterId`].
    SampleId,
}

impl Lead {
    /// Returns what records have in a ring with timestamps, and with writers beside them, or not.
    #[must_use]
    #[inline]
    pub const fn of(time: bool, sample_id: bool) -> Self {
        match (time, sample_id) {
            (false, _) => Lead::None,
            (true, false) => Lead::Time,
            (true, true) => Lead::SampleId,
        }
    }

    /// Returns its length in bytes.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "0 is one of three lengths")]
    pub const fn len(self) -> usize {
        match self {
            Lead::None => 0,
            Lead::Time => TIMESTAMP_LEN as usize,
            Lead::SampleId => (TIMESTAMP_LEN + WRITER_LEN) as usize,
        }
    }
}

/// The thread that wrote a record, as it was numbered in its own pid namespace: perf's
/// `PERF_SAMPLE_TID`.
///
/// ```
/// use perfring_abi::WriterId;
/// let writer = WriterId::from_word(7 << 32 | 5).unwrap();
/// assert_eq!((writer.pid.get(), writer.tid), (5, 7));
/// assert_eq!(writer.to_word(), 7 << 32 | 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Kept and copied as one word: a copy of two halves that were just stored would wait for both.
#[repr(align(8))]
pub struct WriterId {
    /// Its process.
    pub pid: NonZeroU32,
    /// The thread.
    pub tid: u32,
}

impl WriterId {
    /// Returns the writer that a word of a record names: `pid` in its low half, as perf's `u32 pid, tid` is
    /// read on a little-endian machine. `None` if there is no such process.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    #[inline(always)]
    pub const fn from_word(word: u64) -> Option<Self> {
        match NonZeroU32::new(word as u32) {
            Some(pid) => Some(WriterId { pid, tid: (word >> 32) as u32 }),
            None => None,
        }
    }

    /// Returns the word of a record that names it.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub const fn to_word(self) -> u64 {
        (self.tid as u64) << 32 | self.pid.get() as u64
    }
}
