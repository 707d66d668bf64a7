//! The perfring file layout: every offset, the record word, and the checks that a reader makes
//! before it trusts a file.
//!
//! The first 1,088 bytes of a ring file are Linux's `struct perf_event_mmap_page`
//! (`include/uapi/linux/perf_event.h`, a copy is in `proto/upstream/`); perfring's own fields
//! follow from byte 1,152 on. `proto/ABI.md` is this crate in prose and `proto/perfring.h` in C;
//! a test holds the three together.
//!
//! This is the only crate that knows a byte offset. It holds no algorithm: `perfring-ring` has the
//! orderings, `perfring-shm` the mappings.
//!
//! ```
//! use perfring_abi::{RecordType, RecordWord, record_size};
//!
//! let kind = RecordType::new(4096).unwrap();
//! let word = RecordWord::of(kind, 5);
//! assert_eq!(record_size(5), 16); // 8 for the header, 5 of payload, 3 of padding
//! assert_eq!((word.size(), word.payload_len()), (16, Some(5)));
//! ```
#![no_std]
#![forbid(unsafe_code)]

pub mod atomic;
mod check;
mod live;
mod page;
mod record;

pub use check::{BadRing, Layout};
pub use live::{
    ANCHOR, ANCHORS, AuxLine, CONSUMER_BOOK, Header, Holder, LEDGER, Latch, MARK_AHEAD, NAME_WORDS,
    PRODUCER_BOOK, PerfTime, SLOT_BASE, SLOT_LOSSES, SLOT_WRITTEN, SharedLine, Slot, SpaceLine,
    TAIL_MARK, TimeLine, WaitLine, anchor, consumer_book, ledger, producer_book, slot_losses,
};
pub use page::{FIELDS, Field, HeaderPage};
pub use record::{
    AUX_SIZE, HEADER_LEN, Hole, LOST_SIZE, MISC_PAD, RECORD_ALIGN, RecordType, RecordWord,
    SIZE_MAX, aux_record, range_size, record_size,
};

/// `b"perfring"`, as the file's own byte order reads it: written last, checked first.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"perfring");
/// The layout's version. A change that an old reader survives raises this alone.
pub const ABI_VERSION: u32 = 1;
/// The oldest version whose readers understand this layout.
pub const ABI_COMPAT: u32 = 1;
/// What the `endian` field holds, in the writer's byte order.
pub const ENDIAN_MARK: u32 = 0x0102_0304;
/// Bit of `features_required`: every record that an application publishes begins with a stamp.
pub const FEATURE_TIME: u64 = 1;
/// Bit of `features_required`: there is an AUX area, which holds the payloads that are too long for
/// the data area.
pub const FEATURE_AUX: u64 = 2;
/// Feature bits that a reader must understand to read the ring, and that this code does.
pub const FEATURES_REQUIRED_KNOWN: u64 = FEATURE_TIME | FEATURE_AUX;
/// What `time_clock` holds in a timed ring: `CLOCK_BOOTTIME`, by the kernel's number.
pub const TIME_CLOCK: u32 = 7;
/// Bytes of a record's stamp, before its payload.
pub const STAMP_LEN: u32 = 8;
/// The smallest data area: one 4 KiB page.
pub const DATA_SIZE_MIN: u64 = 4096;
/// The largest data area: 1 TiB.
pub const DATA_SIZE_MAX: u64 = 1 << 40;
/// The smallest AUX area: 64 KiB.
pub const AUX_SIZE_MIN: u64 = 64 << 10;
/// The largest AUX area: 1 TiB.
pub const AUX_SIZE_MAX: u64 = 1 << 40;
/// A range of the AUX area begins and ends at a multiple of this.
pub const RANGE_ALIGN: u64 = 64;
/// Bytes of one producer slot.
pub const SLOT_SIZE: u64 = 1024;
/// The most producer slots that a ring can have.
pub const SLOTS_MAX: u32 = 4096;
/// Producer slots of a shared ring, unless its maker asks for another number.
pub const SLOTS_DEFAULT: u32 = 64;
/// The largest type table: 16 MiB.
pub const TYPES_SIZE_MAX: u64 = 16 << 20;
/// Bytes of a type table, unless the maker asks for another number.
pub const TYPES_SIZE_DEFAULT: u64 = 64 << 10;
/// Where the first entry of a type table begins: after the line with `types_used`.
pub const TYPES_FIRST: u64 = 64;
/// The byte of the ring file whose open-file-description lock the consumer holds.
pub const CONSUMER_LOCK_BYTE: u64 = page::offsets::CONSUMER;
/// The byte of the ring file whose open-file-description lock they hold who recover a ring without
/// being a producer of it.
pub const RECOVER_LOCK_BYTE: u64 = page::offsets::SHARED + 248;
/// The `capabilities` of a real perf page without hardware counters: only
/// `cap_bit0_is_deprecated`.
pub const PERF_CAPABILITIES: u64 = 2;
/// The bit of `capabilities` that says that `time_shift`, `time_mult` and `time_zero` turn the
/// processor's counter into the stamps' clock: `cap_user_time_zero`.
pub const PERF_CAP_TIME_ZERO: u64 = 1 << 4;
/// The `size` field of a real perf page: the header up to `__reserved`.
pub const PERF_HEADER_SIZE: u32 = 96;

/// What a full ring does with a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Refuse it and count the loss: a lossless stream while the consumer keeps up.
    Drop,
    /// Make room by overwriting the oldest records: a flight recorder.
    Overwrite,
}

impl Policy {
    /// The policy's number in the file.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Policy::Drop => 0,
            Policy::Overwrite => 1,
        }
    }

    /// The policy with this number, if there is one.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Policy::Drop),
            1 => Some(Policy::Overwrite),
            _ => None,
        }
    }

    /// `drop` or `overwrite`, as the command line spells it.
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
    /// One, with plain stores: the fast way.
    #[default]
    One,
    /// As many as the ring has slots, in any processes, in one order.
    Many,
}

impl Producers {
    /// The number in the file.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Producers::One => 1,
            Producers::Many => 2,
        }
    }

    /// What this number stands for.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Producers::One),
            2 => Some(Producers::Many),
            _ => None,
        }
    }

    /// `one` or `many`, as the command line spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Producers::One => "one",
            Producers::Many => "many",
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
    /// Just as many of the oldest records as the new one needs.
    #[default]
    Exact,
    /// About half the ring at a time: cheaper per record. With records that are small beside the
    /// ring, it holds between three eighths and all of its size.
    Half,
}

impl Evict {
    /// The variant's number in the file.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Evict::Exact => 0,
            Evict::Half => 1,
        }
    }

    /// The variant with this number, if there is one.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Evict::Exact),
            1 => Some(Evict::Half),
            _ => None,
        }
    }
}

/// Where a loss is told besides the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tell {
    /// As a `PERF_RECORD_LOST` before the next record that fits, as perf does.
    #[default]
    InStream,
    /// In the counters alone, as the BPF ring buffer does: positions are then exactly its.
    CountersOnly,
}

impl Tell {
    /// The choice's number in the file.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Tell::InStream => 0,
            Tell::CountersOnly => 1,
        }
    }

    /// The choice with this number, if there is one.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Tell::InStream),
            1 => Some(Tell::CountersOnly),
            _ => None,
        }
    }
}

/// Why a record that a producer offered is not in the stream. The number stands in the `id` of a
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
    /// A `PERF_RECORD_LOST` that another writer made: its `id` is not one of ours.
    Foreign,
}

impl Cause {
    /// Why a producer's record is refused, in the order in which losses are told and counted.
    pub const REFUSED: [Cause; 4] =
        [Cause::Full, Cause::TooLarge, Cause::Contended, Cause::Pending];

    /// The number in the `id` field of a `PERF_RECORD_LOST`.
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

    /// The cause that an `id` stands for.
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

    /// One word for tables and JSON.
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
