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
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "perfring needs a target of 64 bits: a ring's positions and sizes have as many, and are memory addresses"
);

pub mod atomic;
mod bad_ring;
mod bpf;
mod check;
mod error_debug;
mod lead;
mod live;
mod numbers;
mod page;
mod policy;
mod record_word;
mod words;

pub use bad_ring::BadRing;
pub use bpf::{BpfConsumerPage, BpfProducerPage, BpfWord};
pub use check::{Areas, Layout};
pub use lead::{Lead, WriterId};
pub use live::{
    AuxLine, ConsumerSeat, CpuLine, Header, Holder, PerfTime, SeqLatch, SharedLine, Slot,
    SpaceLine, TimeLine, WaitLine,
};
pub use numbers::{
    ABI_COMPAT, ABI_VERSION, AUX_SIZE_MAX, AUX_SIZE_MIN, CONSUMER_LOCK_BYTE, CONSUMERS_MAX,
    CPUS_MAX, DATA_SIZE_MAX, DATA_SIZE_MIN, ENDIAN_MARK, FEATURE_AUX, FEATURE_CONSUMERS,
    FEATURE_CPU, FEATURE_METRICS, FEATURE_SAMPLE_ID, FEATURE_TIME, FEATURES_REQUIRED_KNOWN,
    JOIN_LOCK_BYTE, MAGIC, METRICS_ALIGN, METRICS_FIRST, METRICS_SIZE_MAX, PERF_CAP_TIME_ZERO,
    PERF_CAPABILITIES, PERF_HEADER_SIZE, RANGE_ALIGN, RECOVER_LOCK_BYTE, SEAT_SIZE, SLOT_SIZE,
    SLOTS_DEFAULT, SLOTS_MAX, TIME_CLOCK, TIMESTAMP_LEN, TYPES_FIRST, TYPES_SIZE_DEFAULT,
    TYPES_SIZE_MAX, UID_DETACHED, WRITER_LEN,
};
pub use page::{FIELDS, HeaderPage, PageField};
pub use policy::{Cause, Evict, Policy, Producers, Report};
pub use record_word::{
    AUX_SIZE, HEADER_LEN, Hole, LOST_SIZE, MISC_PAD, RECORD_ALIGN, RecordType, RecordWord,
    SIZE_MAX, aux_record, range_size, record_size,
};
pub use words::{
    ANCHOR, ANCHORS, CONSUMER_TOLD, CONSUMER_TOTALS, MARK_AHEAD, NAME_WORDS, PRODUCER_TOTALS,
    RUNNING, SLOT_BASE, SLOT_LOSSES, SLOT_WRITTEN, TAIL_LINES, TAIL_MARK, TAIL_WORDS, anchor,
    consumer_told, consumer_totals, producer_totals, running, slot_losses,
};
