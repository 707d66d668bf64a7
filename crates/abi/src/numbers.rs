//! The layout's numbers: versions, feature bits, sizes and limits.

use crate::page::offsets;
use crate::words::{TAIL_LINES, TAIL_WORDS};

/// `b"perfring"` in the file's own byte order: written last, checked first.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"perfring");
/// The layout's version. A change that old readers can ignore raises only this.
pub const ABI_VERSION: u32 = 1;
/// The oldest version whose readers understand this layout.
pub const ABI_COMPAT: u32 = 1;
/// The value of the `endian` field, in the writer's byte order.
pub const ENDIAN_MARK: u32 = 0x0102_0304;
/// Bit of `features_required`: every record that an application publishes begins with a timestamp.
pub const FEATURE_TIME: u64 = 1;
/// Bit of `features_required`: there is an AUX area, which holds the payloads that are too long for
/// the data area.
pub const FEATURE_AUX: u64 = 2;
/// Bit of `features_required`: the producers of one CPU publish in restartable sequences.
pub const FEATURE_CPU: u64 = 4;
/// Bit of `features_required`: after its timestamp, every record has the pid and the tid of its writer. Only with
/// [`FEATURE_TIME`] and [`FEATURE_CPU`], and without [`FEATURE_AUX`].
pub const FEATURE_SAMPLE_ID: u64 = 8;
/// Bit of `features_required`: the ring has seats for named consumers, the slowest of which its producers wait
/// for. Only in a drop ring of one or many producers, and without [`FEATURE_AUX`].
pub const FEATURE_CONSUMERS: u64 = 16;
/// Bit of `features_required`: the ring has a metrics area, in which its producers keep the values of instruments.
pub const FEATURE_METRICS: u64 = 32;
/// The feature bits that this code understands, of those that a reader must understand to read the
/// ring.
pub const FEATURES_REQUIRED_KNOWN: u64 = FEATURE_TIME
    | FEATURE_AUX
    | FEATURE_CPU
    | FEATURE_SAMPLE_ID
    | FEATURE_CONSUMERS
    | FEATURE_METRICS;
/// The highest number of a CPU that a ring can be of, and one more: as in the kernel's largest
/// configuration.
pub const CPUS_MAX: u32 = 8192;
/// The value of `time_clock` in a timed ring: `CLOCK_BOOTTIME`, by the kernel's number.
pub const TIME_CLOCK: u32 = 7;
/// Bytes of a record's timestamp, before its payload.
pub const TIMESTAMP_LEN: u32 = 8;
/// Bytes of a record's pid and tid, between its timestamp and its payload.
pub const WRITER_LEN: u32 = 8;
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
/// The largest number of producer slots in a ring.
pub const SLOTS_MAX: u32 = 4096;
/// Producer slots of a shared ring, unless its creator asks for another number.
pub const SLOTS_DEFAULT: u32 = 64;
/// Bytes of the seat of a named consumer.
pub const SEAT_SIZE: u64 = 512;
/// The largest number of named consumers of a ring.
pub const CONSUMERS_MAX: u32 = (TAIL_LINES * TAIL_WORDS) as u32;
/// The largest type table: 16 MiB.
pub const TYPES_SIZE_MAX: u64 = 16 << 20;
/// Bytes of a type table, unless the creator asks for another number.
pub const TYPES_SIZE_DEFAULT: u64 = 64 << 10;
/// Where the first entry of a type table begins: after the line with `types_used`.
pub const TYPES_FIRST: u64 = 64;
/// The largest metrics area: 1 GiB.
pub const METRICS_SIZE_MAX: u64 = 1 << 30;
/// A block of the metrics area begins and ends at a multiple of this: threads that update two of them share no cache line.
pub const METRICS_ALIGN: u64 = 64;
/// Where the first block of a metrics area begins: after the line with `metrics_used`.
pub const METRICS_FIRST: u64 = METRICS_ALIGN;
/// The byte of the ring file whose open-file-description lock the consumer holds.
pub const CONSUMER_LOCK_BYTE: u64 = offsets::CONSUMER;
/// The byte of the ring file whose open-file-description lock a process holds while it takes the seat of a
/// named consumer, or while it drops dead ones from those that are waited for.
pub const JOIN_LOCK_BYTE: u64 = offsets::TAIL_NEXT;
/// The byte of the ring file whose open-file-description lock a process holds while it recovers a
/// ring without being a producer of it.
pub const RECOVER_LOCK_BYTE: u64 = offsets::SHARED + 248;
/// The user in the owner info of a seat whose owner has detached: no process has this number.
pub const UID_DETACHED: u32 = u32::MAX;
/// The `capabilities` of a real perf page without hardware counters: only
/// `cap_bit0_is_deprecated`.
pub const PERF_CAPABILITIES: u64 = 2;
/// The bit of `capabilities` that is set if `time_shift`, `time_mult` and `time_zero` convert the
/// processor's counter to the timestamps' clock: `cap_user_time_zero`.
pub const PERF_CAP_TIME_ZERO: u64 = 1 << 4;
/// The `size` field of a real perf page: the header up to `__reserved`.
pub const PERF_HEADER_SIZE: u32 = 96;
