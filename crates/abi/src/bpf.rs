//! The kernel's BPF ring-buffer maps (`BPF_MAP_TYPE_RINGBUF`): the words of its two pages of positions, and the header
//! of a record. They are `struct bpf_ringbuf` and `struct bpf_ringbuf_hdr` of `kernel/bpf/ringbuf.c`.

use crate::atomic::AtomicU64;
use crate::record_word::{HEADER_LEN, RECORD_ALIGN};

/// The page that the consumer writes.
#[derive(Debug)]
#[repr(C)]
pub struct BpfConsumerPage {
    /// The end of what the consumer has released.
    pub consumer_pos: AtomicU64,
}

/// The page that the kernel writes. User space maps it read-only.
#[derive(Debug)]
#[repr(C)]
pub struct BpfProducerPage {
    /// The end of the last reservation.
    pub producer_pos: AtomicU64,
    /// Every record before it was submitted or discarded. The kernel advances it when it reserves; readers do not need it.
    pub pending_pos: AtomicU64,
    /// The oldest record that is intact, in overwrite mode, since Linux 6.19.
    pub overwrite_pos: AtomicU64,
}

/// The header of a record of a BPF ring buffer, `u32 len, u32 pg_off` in memory order, as one 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfWord(u64);

impl BpfWord {
    /// `BPF_RINGBUF_BUSY_BIT`: reserved, and not yet submitted.
    pub const BUSY: u32 = 1 << 31;
    /// `BPF_RINGBUF_DISCARD_BIT`: given back without content.
    pub const DISCARDED: u32 = 1 << 30;

    /// Creates a word from its raw value in the map.
    #[must_use]
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        BpfWord(raw)
    }

    /// Creates the word of a header with this `len`, flags included. The kernel's `pg_off` is zero.
    #[must_use]
    pub const fn of(len: u32) -> Self {
        let [a, b, c, d] = len.to_ne_bytes();
        BpfWord(u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]))
    }

    /// Returns the raw value.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    #[inline]
    const fn first(self) -> u32 {
        let [a, b, c, d, ..] = self.0.to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }

    /// Returns whether the reservation is open.
    #[must_use]
    #[inline]
    pub const fn is_busy(self) -> bool {
        self.first() & Self::BUSY != 0
    }

    /// Returns whether the record was discarded.
    #[must_use]
    #[inline]
    pub const fn is_discarded(self) -> bool {
        self.first() & Self::DISCARDED != 0
    }

    /// Returns the bytes of the payload: less than 2^30.
    #[must_use]
    #[inline]
    pub const fn len(self) -> u32 {
        self.first() & !(Self::BUSY | Self::DISCARDED)
    }

    /// Returns whether there is no payload.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that the record uses in the ring: header, payload, padding to eight.
    #[must_use]
    #[inline]
    pub const fn size(self) -> u64 {
        (self.len() as u64 + HEADER_LEN as u64).next_multiple_of(RECORD_ALIGN as u64)
    }
}
