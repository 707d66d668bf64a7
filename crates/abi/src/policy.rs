//! What a ring's creator chooses, and why a record may be missing: each with its number in the
//! file.

use core::fmt;

/// Implements the conversion between choices of a ring's creator and their numbers in the file.
macro_rules! codes {
    ($of:ident: $($choice:ident = $code:literal),+) => {
        impl $of {
            /// Returns the choice's number in the file.
            #[must_use]
            pub const fn code(self) -> u32 {
                match self {
                    $($of::$choice => $code),+
                }
            }

            /// Returns the choice with this number, if there is one.
            #[must_use]
            pub const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some($of::$choice),)+
                    _ => None,
                }
            }
        }
    };
}
codes!(Policy: Drop = 0, Overwrite = 1);
codes!(Producers: One = 1, Many = 2, Cpu = 3);
codes!(Evict: Exact = 0, Half = 1);
codes!(Report: InStream = 0, CountersOnly = 1);

/// What a full ring does with a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Refuses it and counts the loss: a lossless stream while the consumer keeps up.
    Drop,
    /// Makes room by overwriting the oldest records: a flight recorder.
    Overwrite,
}

impl Policy {
    /// Returns `drop` or `overwrite`, as the command line spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Drop => "drop",
            Policy::Overwrite => "overwrite",
        }
    }
}

/// How many producers a ring takes at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Producers {
    /// One, with plain stores: the fast path.
    #[default]
    One,
    /// As many as the ring has slots, in any processes, in one order.
    Many,
    /// As many, on one CPU: a ring of a directory that has one for each. They publish by plain stores,
    /// in restartable sequences.
    Cpu,
}

impl Producers {
    /// Returns `one`, `many` or `cpu`, as the command line spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Producers::One => "one",
            Producers::Many => "many",
            Producers::Cpu => "cpu",
        }
    }
}

/// How an overwrite ring makes room.
///
/// The coarse variant is Yan Zheng's and Peter Zijlstra's for perf ("Update event buffer tail when
/// overwriting old events", 2013 and 2015): remember a record boundary once half the buffer has
/// been filled, and jump the tail there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Evict {
    /// Evicts just as many of the oldest records as the new one needs.
    #[default]
    Exact,
    /// Evicts about half the ring at a time: cheaper per record. With records that are small
    /// relative to the ring, it holds between three eighths and all of its size. A shared ring evicts
    /// up to 64 records more than the new one needs, as other producers wait meanwhile.
    Half,
}

/// Where losses are reported, besides the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Report {
    /// As a `PERF_RECORD_LOST` before the next record that fits, as perf does.
    #[default]
    InStream,
    /// Only in the counters, as the BPF ring buffer does: positions are then identical to its.
    CountersOnly,
}

/// Why a record that a producer offered is not in the stream. The number is stored in the `id` of a
/// `PERF_RECORD_LOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A drop ring had no room.
    Full,
    /// The record is larger than the ring or than a 16-bit size can take.
    TooLarge,
    /// An observer, or the consumer of an overwrite ring, was too slow: it was lapped.
    Lapped,
    /// A shared ring's lock was held for longer than a producer waits for it.
    Contended,
    /// A shared ring had no room because an older reservation was still open.
    Pending,
    /// A `PERF_RECORD_LOST` of another writer: its `id` is not one of perfring's.
    Foreign,
}

impl Cause {
    /// The causes for which a producer's record is refused, in the order in which losses are
    /// reported and counted.
    pub const REFUSED: [Cause; 4] =
        [Cause::Full, Cause::TooLarge, Cause::Contended, Cause::Pending];

    /// Returns the number in the `id` field of a `PERF_RECORD_LOST`.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            Cause::Full => 1,
            Cause::TooLarge => 2,
            Cause::Lapped => 3,
            Cause::Contended => 4,
            Cause::Pending => 5,
            Cause::Foreign => 0,
        }
    }

    /// Returns the cause that an `id` stands for.
    #[must_use]
    pub const fn from_code(id: u64) -> Self {
        match id {
            1 => Cause::Full,
            2 => Cause::TooLarge,
            3 => Cause::Lapped,
            4 => Cause::Contended,
            5 => Cause::Pending,
            _ => Cause::Foreign,
        }
    }

    /// Returns one word for tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Full => "full",
            Cause::TooLarge => "too_large",
            Cause::Lapped => "lapped",
            Cause::Contended => "contended",
            Cause::Pending => "pending",
            Cause::Foreign => "foreign",
        }
    }
}

/// A clause that says why records were lost.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Full => "the ring was full",
            Cause::TooLarge => "too large for the ring",
            Cause::Lapped => "overwritten before they were read",
            Cause::Contended => "the ring's lock was held for too long",
            Cause::Pending => "an older reservation was still open",
            Cause::Foreign => "reported by another program",
        })
    }
}
