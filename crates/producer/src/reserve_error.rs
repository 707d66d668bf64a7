//! Why a ring does not take a record or a type.

use perfring_ring::{ReadError, Refusal};
use perfring_shm::Forked;
use perfring_types::ENTRY_MAX;
use thiserror::Error;

perfring_abi::debug_by_display!(ReserveError, TypeError);

/// Why a record was not taken. Small and `Copy`, as it is on the fast path.
///
/// Each refusal is counted by cause, and reported in the stream before the next record that fits, unless the
/// variant says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// A drop ring is full: the consumer is behind. This is an outcome rather than a fault.
    #[error("the ring is full")]
    Full,
    /// The record is larger than a ring of this size can hold.
    #[error("a payload of {len} bytes is too large: this ring takes at most {max}")]
    TooLarge {
        /// The payload's length.
        len: usize,
        /// The longest that the ring takes.
        max: usize,
    },
    /// A live producer held the lock of a shared ring for longer than others wait for it. `perfring stat`
    /// shows which.
    #[error("the ring's lock is held by the producer in slot {slot}")]
    Contended {
        /// The slot of that producer.
        slot: u32,
    },
    /// A shared ring has no room because an older reservation of a live producer is still open.
    /// `perfring stat` shows which.
    #[error("the ring waits for a reservation of the producer in slot {slot} to end")]
    Pending {
        /// The slot of that producer.
        slot: u32,
    },
    /// A batch of a shared ring has no room left for the record. Nothing is counted.
    #[error("the batch has no room for the record: publish it, and reserve another one")]
    BatchFull,
    /// The record's type is not in the ring's table and could not be put there. Nothing is counted.
    #[error(transparent)]
    Type(TypeError),
    /// The value cannot be archived, so there is no record. Nothing is counted.
    #[cfg(feature = "rkyv")]
    #[error(transparent)]
    Archive(#[from] perfring_types::ArchiveError),
    /// This process is a forked child of the one that attached. Nothing is counted.
    #[error("{}", perfring_shm::Forked)]
    Forked,
    /// Another process has attached as the ring's one producer, and this one noticed: it has not seen this
    /// one's lock. No further record of this producer is taken. Nothing is counted.
    #[error(
        "another producer has attached to this ring beside this one, which stops: the file is opened through \
         two paths, of an overlay, or on a file system whose locks do not reach the other; `perfring doctor` says"
    )]
    Replaced,
    /// The thread runs on a CPU whose ring could not be made or attached to. Counted by
    /// [`CpuProducer::lost_without_ring`](crate::CpuProducer::lost_without_ring).
    #[error("the ring of CPU {cpu} could not be made or attached to: `attach_to` says why")]
    NoRing {
        /// The CPU's number.
        cpu: u32,
    },
    /// The ring's file was removed, replaced or cut off, and what writes there has not attached to another one. Returned by
    /// sinks of telemetry, which count it.
    #[error(
        "the ring's file was removed, replaced or cut off, and the sink could not attach again: `Sink::check` says why"
    )]
    Detached,
    /// The ring's file was truncated while it was in use. Nothing of it is counted: what this producer publishes reaches no
    /// reader. A ring may take some more records before that is found out.
    #[error("{}", ReadError::Truncated)]
    Truncated,
    /// The file system could not provide a page of the ring's file: see [`ReadError::NoSpace`]. As for
    /// [`ReserveError::Truncated`], what this producer publishes reaches no reader.
    #[error("{}", ReadError::NoSpace)]
    NoSpace,
    /// A position in the ring is invalid: no producer or consumer can have written it.
    #[error(
        "data_tail is {tail}, which is no valid position: another program has corrupted the ring"
    )]
    Corrupt {
        /// The value of `data_tail`.
        tail: u64,
    },
}

impl ReserveError {
    /// Returns the error for what only another program can have done to a ring, or a truncation of its file: `cut_off` says
    /// that.
    #[cold]
    pub(crate) fn damaged(self, cut_off: Option<ReadError>) -> Self {
        match cut_off {
            Some(ReadError::NoSpace) => ReserveError::NoSpace,
            Some(_) => ReserveError::Truncated,
            None => self,
        }
    }

    /// Returns the error for the refusal of a payload of `len` bytes. `cut_off` is asked why the mapping is no longer the
    /// file's.
    #[inline]
    pub(crate) fn of(
        refusal: Refusal,
        len: usize,
        cut_off: impl FnOnce() -> Option<ReadError>,
    ) -> Self {
        match refusal {
            Refusal::Full => ReserveError::Full,
            Refusal::TooLarge { max } => ReserveError::TooLarge { len, max },
            Refusal::Contended { slot } => ReserveError::Contended { slot },
            Refusal::Pending { slot } => ReserveError::Pending { slot },
            Refusal::Forked => ReserveError::Forked,
            Refusal::Replaced => ReserveError::Replaced,
            Refusal::Corrupt { tail } => ReserveError::Corrupt { tail }.damaged(cut_off()),
        }
    }
}

impl From<Forked> for ReserveError {
    fn from(Forked: Forked) -> Self {
        ReserveError::Forked
    }
}

/// Why a type could not be registered. The table is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The ring was made without a type table.
    #[error(
        "this ring has no type table: make it with types_size above 0 (`perfring create --types-size`)"
    )]
    NoTable,
    /// The table has no room for the entry.
    #[error(
        "the type table is full: the entry takes {needed} bytes and {left} are left; make the ring \
         with a larger one (`perfring create --types-size`)"
    )]
    Full {
        /// Bytes of the entry.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// The entry is longer than readers accept.
    #[error("the type's entry takes {len} bytes, and at most {ENTRY_MAX} can be: shorten its help")]
    TooLong {
        /// Bytes of the entry.
        len: usize,
    },
    /// Another type has the same number.
    #[error(
        "record type {id} is taken in this ring by a type with another name or layout: give one of \
         them another id, or raise its version"
    )]
    Taken {
        /// The number.
        id: u32,
    },
    /// Another process holds the table's lock for longer than a registration takes. Also in a signal handler that
    /// has interrupted its thread while that registered a type for rings per CPU.
    #[error("another process holds the type table's lock and does not release it: try again")]
    Busy,
    /// An entry of the table is invalid.
    #[error("the type table is damaged {at} bytes after its first entry: nothing can be added")]
    Damaged {
        /// Its offset in bytes after the first entry.
        at: u64,
    },
    /// The system refused the table's lock.
    #[error("the type table cannot be locked: {}", std::io::Error::from_raw_os_error(*.errno))]
    Lock {
        /// The system's error number.
        errno: i32,
    },
}
