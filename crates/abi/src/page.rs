//! The header page as plain bytes: for creating a ring, and for reading its identity before any of
//! it is mapped.

use crate::words::ANCHOR;
use bytemuck::{Pod, Zeroable};
use core::mem::offset_of;

/// Offsets of the live blocks; the fields inside them are in [`crate::Header`].
pub(crate) mod offsets {
    pub(crate) const TAIL_MARK: u64 = 1408;
    pub(crate) const PRODUCER: u64 = 1536;
    pub(crate) const WAIT: u64 = 2048;
    pub(crate) const SPACE: u64 = 2176;
    pub(crate) const CONSUMER_TOTALS: u64 = 2304;
    pub(crate) const CONSUMER: u64 = 2432;
    pub(crate) const SHARED: u64 = 2560;
    pub(crate) const TIME: u64 = 2816;
    pub(crate) const ANCHORS: u64 = 2880;
    pub(crate) const TAIL_NEXT: u64 = 3392;
    pub(crate) const CPU: u64 = 3456;
    pub(crate) const NAMED_TAILS: u64 = 3584;
    pub(crate) const CONSUMER_TOLD: u64 = 3840;
}

/// The first 4,096 bytes of a ring file. The named fields that are not live (all but `data_head`
/// and `data_tail`) are written before the file gets its name, and never again.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HeaderPage {
    // struct perf_event_mmap_page, field by field.
    pub(crate) version: u32,
    pub(crate) compat_version: u32,
    pub(crate) lock: u32,
    pub(crate) index: u32,
    pub(crate) offset: i64,
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
    pub(crate) capabilities: u64,
    pub(crate) pmc_width: u16,
    pub(crate) time_shift: u16,
    pub(crate) time_mult: u32,
    pub(crate) time_offset: u64,
    pub(crate) time_zero: u64,
    pub(crate) size: u32,
    pub(crate) reserved_1: u32,
    pub(crate) time_cycles: u64,
    pub(crate) time_mask: u64,
    pub(crate) reserved: [u8; 928],
    pub(crate) data_head: u64,
    pub(crate) data_tail: u64,
    pub(crate) data_offset: u64,
    pub(crate) data_size: u64,
    pub(crate) aux_head: u64,
    pub(crate) aux_tail: u64,
    pub(crate) aux_offset: u64,
    pub(crate) aux_size: u64,
    pub(crate) gap: [u64; 8],
    // perfring's own.
    pub(crate) magic: u64,
    pub(crate) abi_version: u32,
    pub(crate) abi_compat: u32,
    pub(crate) features_required: u64,
    pub(crate) features_optional: u64,
    pub(crate) page_size: u32,
    pub(crate) endian: u32,
    pub(crate) policy: u32,
    pub(crate) producers: u32,
    pub(crate) evict: u32,
    pub(crate) report: u32,
    pub(crate) slot_count: u32,
    pub(crate) slot_size: u32,
    pub(crate) control_offset: u64,
    pub(crate) control_size: u64,
    pub(crate) file_size: u64,
    pub(crate) created_ns: u64,
    pub(crate) creator_pid: u32,
    pub(crate) creator_uid: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) boot_id: [u8; 16],
    pub(crate) types_offset: u64,
    pub(crate) types_size: u64,
    pub(crate) time_clock: u32,
    pub(crate) consumer_count: u32,
    pub(crate) consumers_offset: u64,
    pub(crate) consumers_size: u64,
    pub(crate) metrics_offset: u64,
    pub(crate) metrics_size: u64,
    pub(crate) identity_rest: [u64; 8],
    pub(crate) live: [u64; 176],
    pub(crate) time_boot: u64,
    pub(crate) anchors_written: u64,
    pub(crate) time_rest: [u64; 6],
    pub(crate) anchors: [[u64; ANCHOR]; 16],
    pub(crate) tail_next: u64,
    pub(crate) tail_next_rest: [u64; 7],
    pub(crate) cpu_state: u64,
    pub(crate) cpu_limit: u64,
    pub(crate) cpu_count: u64,
    pub(crate) cpu_number: u32,
    pub(crate) cpu_rest_1: u32,
    pub(crate) cpu_rest: [u64; 12],
    pub(crate) named_tails: [u64; 32],
    pub(crate) consumer_told: [u64; 32],
}

/// A named field of the header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageField {
    /// The name that ABI.md, `perfring.h` and JSON use.
    pub name: &'static str,
    /// Bytes from the start of the file.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
}

macro_rules! fields {
    ($($name:ident : $size:expr),* $(,)?; $($block:literal @ $offset:expr, $bytes:expr);* $(;)?) => {
        /// Every field of the header page, in order. A test compares them with `proto/ABI.md` and
        /// with the C header.
        pub const FIELDS: &[PageField] = &[
            $(PageField { name: stringify!($name), offset: offset_of!(HeaderPage, $name), size: $size },)*
            $(PageField { name: $block, offset: $offset as usize, size: $bytes },)*
        ];
    };
}

fields! {
    version: 4, compat_version: 4, lock: 4, index: 4, offset: 8, time_enabled: 8, time_running: 8,
    capabilities: 8, pmc_width: 2, time_shift: 2, time_mult: 4, time_offset: 8, time_zero: 8,
    size: 4, reserved_1: 4, time_cycles: 8, time_mask: 8, reserved: 928, data_head: 8,
    data_tail: 8, data_offset: 8, data_size: 8, aux_head: 8, aux_tail: 8, aux_offset: 8,
    aux_size: 8, magic: 8, abi_version: 4, abi_compat: 4, features_required: 8,
    features_optional: 8, page_size: 4, endian: 4, policy: 4, producers: 4, evict: 4, report: 4,
    slot_count: 4, slot_size: 4, control_offset: 8, control_size: 8, file_size: 8, created_ns: 8,
    creator_pid: 4, creator_uid: 4, uuid: 16, boot_id: 16, types_offset: 8, types_size: 8,
    time_clock: 4, consumer_count: 4, consumers_offset: 8, consumers_size: 8,
    metrics_offset: 8, metrics_size: 8;
    "tail_mark" @ offsets::TAIL_MARK, 64;
    "producer_totals" @ offsets::PRODUCER, 448;
    "wait_armed" @ offsets::WAIT, 4;
    "wait_wake_pos" @ offsets::WAIT + 8, 8;
    "wait_wake_records" @ offsets::WAIT + 16, 8;
    "wait_seq" @ offsets::WAIT + 64, 4;
    "space_armed" @ offsets::SPACE, 4;
    "space_wake_pos" @ offsets::SPACE + 8, 8;
    "space_seq" @ offsets::SPACE + 64, 4;
    "consumer_totals" @ offsets::CONSUMER_TOTALS, 128;
    "consumer_epoch" @ offsets::CONSUMER, 8;
    "consumer_attached_ns" @ offsets::CONSUMER + 8, 8;
    "consumer_pid" @ offsets::CONSUMER + 16, 4;
    "consumer_uid" @ offsets::CONSUMER + 20, 4;
    "consumer_name" @ offsets::CONSUMER + 24, 64;
    "shared_lock" @ offsets::SHARED, 8;
    "producer_pos" @ offsets::SHARED + 8, 8;
    "running_written" @ offsets::SHARED + 16, 8;
    "running_stale" @ offsets::SHARED + 24, 8;
    "newest_timestamp" @ offsets::SHARED + 32, 8;
    "running_more" @ offsets::SHARED + 64, 8;
    "running" @ offsets::SHARED + 128, 104;
    "stuck_pos" @ offsets::SHARED + 232, 8;
    "stuck_since_ns" @ offsets::SHARED + 240, 8;
    "recover_byte" @ offsets::SHARED + 248, 8;
    "time_boot" @ offsets::TIME, 8;
    "anchors_written" @ offsets::TIME + 8, 8;
    "anchors" @ offsets::ANCHORS, 512;
    "tail_next" @ offsets::TAIL_NEXT, 8;
    "cpu_state" @ offsets::CPU, 8;
    "cpu_limit" @ offsets::CPU + 8, 8;
    "cpu_count" @ offsets::CPU + 16, 8;
    "cpu_number" @ offsets::CPU + 24, 4;
    "named_tails" @ offsets::NAMED_TAILS, 256;
    "consumer_told" @ offsets::CONSUMER_TOLD, 256;
}

const _: () = {
    assert!(size_of::<HeaderPage>() == 4096);
    assert!(offset_of!(HeaderPage, data_head) == 1024);
    assert!(offset_of!(HeaderPage, aux_size) + 8 == 1088);
    assert!(offset_of!(HeaderPage, magic) == 1152);
    assert!(offset_of!(HeaderPage, live) == offsets::TAIL_MARK as usize);
    assert!(offset_of!(HeaderPage, time_boot) == offsets::TIME as usize);
    assert!(offset_of!(HeaderPage, anchors) == offsets::ANCHORS as usize);
    assert!(offset_of!(HeaderPage, cpu_state) == offsets::CPU as usize);
    assert!(offset_of!(HeaderPage, cpu_number) == offsets::CPU as usize + 24);
    assert!(offset_of!(HeaderPage, tail_next) == offsets::TAIL_NEXT as usize);
    assert!(offset_of!(HeaderPage, named_tails) == offsets::NAMED_TAILS as usize);
    assert!(offset_of!(HeaderPage, consumer_told) == offsets::CONSUMER_TOLD as usize);
};

impl HeaderPage {
    /// The size of the header page's image in bytes, whatever the page size.
    pub const LEN: usize = size_of::<HeaderPage>();

    /// Reads the page from these bytes.
    ///
    /// # Errors
    /// The number of bytes, if there are fewer than [`HeaderPage::LEN`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, usize> {
        bytes.get(..Self::LEN).map(bytemuck::pod_read_unaligned).ok_or(bytes.len())
    }

    /// Writes a timed ring's first anchor, and the boot that its clock belongs to.
    pub fn set_first_anchor(&mut self, boot: u64, anchor: [u64; ANCHOR]) {
        (self.time_boot, self.anchors_written, self.anchors[0]) = (boot, 1, anchor);
    }

    /// Sets the magic: the last step of creating a ring.
    pub fn set_magic(&mut self, magic: u64) {
        self.magic = magic;
    }

    /// Returns the page's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }
}
