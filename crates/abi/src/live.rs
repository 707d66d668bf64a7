//! The header page as live processes share it: atomics only, so that a reference to it is sound
//! whatever another process stores there.

use crate::atomic::{AtomicU32, AtomicU64};

/// Bytes between two fields. Under loom there are no offsets, and each atomic costs.
#[cfg(not(loom))]
type Gap<const WORDS: usize> = [AtomicU64; WORDS];
#[cfg(loom)]
type Gap<const WORDS: usize> = [u8; 0];

/// Two copies of a few words, written in turn, of which one is always whole: a reader never waits
/// for a writer, and a writer killed half way leaves the older copy (the kernel's
/// `seqcount_latch_t`). The first and the last word of a copy are one number that rises with every
/// write: equal means whole, and the greater is the newer.
#[repr(C)]
#[derive(Debug)]
pub struct Latch<const WORDS: usize> {
    /// The two copies.
    pub copies: [[AtomicU64; WORDS]; 2],
}

/// Words of a copy of the tail mark: position, records, bytes, position (which only rises, and so
/// is the number of the write as well).
pub const TAIL_MARK: usize = 4;
/// Words of a copy of the producer's book.
pub const PRODUCER_BOOK: usize = 16;
/// Words of a copy of the consumer's book.
pub const CONSUMER_BOOK: usize = 8;
/// 64-bit words of a holder's name.
pub const NAME_WORDS: usize = 8;

/// Where each figure stands in a copy of the producer's book. All count since the ring was made;
/// bytes are whole records, header and padding included.
pub mod producer_book {
    /// The `data_head` at which the other figures are true.
    pub const POS: usize = 1;
    /// Records committed.
    pub const WRITTEN_RECORDS: usize = 2;
    /// Their bytes.
    pub const WRITTEN_BYTES: usize = 3;
    /// Reservations given back.
    pub const DISCARDED_RECORDS: usize = 4;
    /// The bytes of their holes.
    pub const DISCARDED_BYTES: usize = 5;
    /// Records refused because a drop ring was full.
    pub const FULL_RECORDS: usize = 6;
    /// Their bytes.
    pub const FULL_BYTES: usize = 7;
    /// Records refused because of their size.
    pub const TOO_LARGE_RECORDS: usize = 8;
    /// Their bytes.
    pub const TOO_LARGE_BYTES: usize = 9;
    /// Of the refused ones, those already told in the stream for being refused by a full ring.
    pub const TOLD_FULL_RECORDS: usize = 10;
    /// Their bytes.
    pub const TOLD_FULL_BYTES: usize = 11;
    /// Of the refused ones, those already told in the stream for their size.
    pub const TOLD_TOO_LARGE_RECORDS: usize = 12;
    /// Their bytes.
    pub const TOLD_TOO_LARGE_BYTES: usize = 13;
    /// `PERF_RECORD_LOST` records in the stream.
    pub const LOST_MARKERS: usize = 14;
}

/// Where each figure stands in a copy of the consumer's book.
pub mod consumer_book {
    /// The position up to which the consumer has released.
    pub const POS: usize = 1;
    /// Records released.
    pub const READ_RECORDS: usize = 2;
    /// Their bytes.
    pub const READ_BYTES: usize = 3;
    /// Records of an overwrite ring that were gone before the consumer came to them.
    pub const LAPPED_RECORDS: usize = 4;
    /// Their bytes.
    pub const LAPPED_BYTES: usize = 5;
}

#[cfg(not(loom))]
impl<const WORDS: usize> Latch<WORDS> {
    const fn new() -> Self {
        Latch { copies: [const { [const { AtomicU64::new(0) }; WORDS] }; 2] }
    }
}
#[cfg(loom)]
impl<const WORDS: usize> Latch<WORDS> {
    fn new() -> Self {
        Latch { copies: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0))) }
    }
}

/// How the sleeping consumer is woken.
#[repr(C)]
#[derive(Debug)]
pub struct WaitLine {
    /// 1 while the consumer sleeps or is about to; a producer that takes it to 0 owes a wake.
    pub armed: AtomicU32,
    _pad: AtomicU32,
    /// Wake once `data_head` is here or further. Written by the consumer.
    pub wake_pos: AtomicU64,
    /// Wake once this many records have been written since the ring was made. Written by the
    /// consumer; `u64::MAX` for never.
    pub wake_records: AtomicU64,
    _own_line: Gap<5>,
    /// The futex word: raised by whoever wakes.
    pub seq: AtomicU32,
    _pad2: AtomicU32,
    _own_line2: Gap<7>,
}

/// How a producer that waits for space is woken.
#[repr(C)]
#[derive(Debug)]
pub struct SpaceLine {
    /// 1 while a producer sleeps or is about to; a consumer that takes it to 0 owes a wake.
    pub armed: AtomicU32,
    _pad: AtomicU32,
    /// Wake once `data_tail` is here or further.
    pub wake_pos: AtomicU64,
    _own_line: Gap<6>,
    /// The futex word: raised by whoever wakes.
    pub seq: AtomicU32,
    _pad2: AtomicU32,
    _own_line2: Gap<7>,
}

/// Who holds, or last held, the consumer's place or a producer's slot. Hints for people: who is
/// alive is told by the lock on the holder's first byte, never by a pid.
#[repr(C)]
#[derive(Debug)]
pub struct Holder {
    /// Raised by one at each attach.
    pub epoch: AtomicU64,
    /// `CLOCK_REALTIME` of the attach, ns.
    pub attached_ns: AtomicU64,
    /// Process id in the holder's own pid namespace.
    pub pid: AtomicU32,
    /// User id in the holder's own user namespace.
    pub uid: AtomicU32,
    /// UTF-8, zero-padded.
    pub name: [AtomicU64; NAME_WORDS],
    _rest: Gap<5>,
}

/// A producer's place in the control pages.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// Who has it.
    pub holder: Holder,
    _rest: Gap<48>,
}

/// The fields of the first page that change while the ring is in use.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    _perf: Gap<128>,
    /// End of what is published: every record before it is committed. Written by producers.
    pub data_head: AtomicU64,
    /// Drop: what the consumer has released, written by it. Overwrite: the oldest intact record,
    /// written by producers.
    pub data_tail: AtomicU64,
    _perf_rest: Gap<14>,
    _identity: Gap<32>,
    /// Overwrite: records and bytes overwritten before a tail. Written by producers.
    pub tail_mark: Latch<TAIL_MARK>,
    _tail_mark_rest: Gap<8>,
    /// What producers have written and lost, true at a recent `data_head`.
    pub producer: Latch<PRODUCER_BOOK>,
    /// The consumer's sleep.
    pub wait: WaitLine,
    /// A waiting producer's sleep.
    pub space: SpaceLine,
    /// What the consumer has read and lost, true at its position.
    pub consumer: Latch<CONSUMER_BOOK>,
    /// Who the consumer is.
    pub consumer_holder: Holder,
    _reserved: Gap<224>,
}

#[cfg(not(loom))]
macro_rules! zeros {
    ($n:expr) => {
        [const { AtomicU64::new(0) }; $n]
    };
}
#[cfg(loom)]
macro_rules! zeros {
    ($n:expr) => {
        []
    };
}

impl Holder {
    fn new() -> Self {
        Holder {
            epoch: AtomicU64::new(0),
            attached_ns: AtomicU64::new(0),
            pid: AtomicU32::new(0),
            uid: AtomicU32::new(0),
            name: core::array::from_fn(|_| AtomicU64::new(0)),
            _rest: zeros!(5),
        }
    }
}

impl Header {
    /// A header of zeros: what a ring on the heap starts from.
    #[must_use]
    pub fn new() -> Self {
        Header {
            _perf: zeros!(128),
            data_head: AtomicU64::new(0),
            data_tail: AtomicU64::new(0),
            _perf_rest: zeros!(14),
            _identity: zeros!(32),
            tail_mark: Latch::new(),
            _tail_mark_rest: zeros!(8),
            producer: Latch::new(),
            wait: WaitLine {
                armed: AtomicU32::new(0),
                _pad: AtomicU32::new(0),
                wake_pos: AtomicU64::new(0),
                wake_records: AtomicU64::new(0),
                _own_line: zeros!(5),
                seq: AtomicU32::new(0),
                _pad2: AtomicU32::new(0),
                _own_line2: zeros!(7),
            },
            space: SpaceLine {
                armed: AtomicU32::new(0),
                _pad: AtomicU32::new(0),
                wake_pos: AtomicU64::new(0),
                _own_line: zeros!(6),
                seq: AtomicU32::new(0),
                _pad2: AtomicU32::new(0),
                _own_line2: zeros!(7),
            },
            consumer: Latch::new(),
            consumer_holder: Holder::new(),
            _reserved: zeros!(224),
        }
    }
}

impl Default for Header {
    fn default() -> Self {
        Header::new()
    }
}

#[cfg(not(loom))]
mod agree {
    use super::*;
    use crate::page::{HeaderPage, offsets};
    use core::mem::{offset_of, size_of};

    const _: () = {
        assert!(size_of::<Header>() == 4096);
        assert!(size_of::<Slot>() == crate::SLOT_SIZE as usize);
        assert!(size_of::<Holder>() == 128);
        assert!(size_of::<WaitLine>() == 128);
        assert!(size_of::<SpaceLine>() == 128);
        assert!(offset_of!(Header, data_head) == offset_of!(HeaderPage, data_head));
        assert!(offset_of!(Header, data_tail) == offset_of!(HeaderPage, data_tail));
        assert!(offset_of!(Header, _identity) == offset_of!(HeaderPage, magic));
        assert!(offset_of!(Header, tail_mark) == offsets::TAIL_MARK as usize);
        assert!(offset_of!(Header, producer) == offsets::PRODUCER as usize);
        assert!(offset_of!(Header, wait) == offsets::WAIT as usize);
        assert!(offset_of!(Header, wait.seq) == offsets::WAIT as usize + 64);
        assert!(offset_of!(Header, space) == offsets::SPACE as usize);
        assert!(offset_of!(Header, space.seq) == offsets::SPACE as usize + 64);
        assert!(offset_of!(Header, consumer) == offsets::CONSUMER_BOOK as usize);
        assert!(offset_of!(Header, consumer_holder) == offsets::CONSUMER as usize);
        assert!(offset_of!(Header, consumer_holder) % 128 == 0);
    };
}
