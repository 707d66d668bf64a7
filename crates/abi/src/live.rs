//! The header page as live processes share it: only atomics, so that a reference to it is sound
//! whatever another process stores there.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::words::{
    ANCHOR, ANCHORS, CONSUMER_TOLD, CONSUMER_TOTALS, NAME_WORDS, PRODUCER_TOTALS, RUNNING,
    SLOT_BASE, SLOT_LOSSES, SLOT_WRITTEN, TAIL_LINES, TAIL_MARK, TAIL_WORDS,
};

/// The bytes between two fields. Under loom there are no offsets, and each atomic costs.
#[cfg(not(loom))]
type Gap<const WORDS: usize> = [AtomicU64; WORDS];
#[cfg(loom)]
type Gap<const WORDS: usize> = [AtomicU64; 0];

/// A sequence latch: two copies of a few words, written in turn, of which one is always whole. A
/// reader never waits for a writer, and a writer killed during a write leaves the older copy (the
/// kernel's `seqcount_latch_t`). The first and the last word of a copy are one number that rises
/// with every write: the copy is whole if they are equal, and the copy with the greater number is
/// the newer.
#[repr(C)]
#[derive(Debug)]
pub struct SeqLatch<const WORDS: usize> {
    /// The two copies.
    pub copies: [[AtomicU64; WORDS]; 2],
}

/// The wake-up state of the sleeping consumer.
#[repr(C)]
#[derive(Debug)]
pub struct WaitLine {
    /// 1 while the consumer sleeps or is about to; a producer that sets it to 0 owes a wake.
    pub armed: AtomicU32,
    _pad: AtomicU32,
    /// Wake once `data_head` reaches this. Written by the consumer.
    pub wake_pos: AtomicU64,
    /// Wake once this many records have been written since the ring was made. Written by the
    /// consumer; `u64::MAX` for never.
    pub wake_records: AtomicU64,
    _own_line: Gap<5>,
    /// The futex word: incremented by each wake.
    pub seq: AtomicU32,
    _pad2: AtomicU32,
    _own_line2: Gap<7>,
}

/// The wake-up state of a producer that waits for space.
#[repr(C)]
#[derive(Debug)]
pub struct SpaceLine {
    /// 1 while a producer sleeps or is about to; a consumer that sets it to 0 owes a wake.
    pub armed: AtomicU32,
    _pad: AtomicU32,
    /// Wake once `data_tail` reaches this.
    pub wake_pos: AtomicU64,
    _own_line: Gap<6>,
    /// The futex word: incremented by each wake.
    pub seq: AtomicU32,
    _pad2: AtomicU32,
    _own_line2: Gap<7>,
}

/// The words that the producers of a shared ring share. All but `running_more` and the discarded
/// counts in `running` belong to the holder of `lock`; in an exclusive ring all of them are zero.
#[repr(C)]
#[derive(Debug)]
pub struct SharedLine {
    /// 0, or the holder of the lock: slot + 1 in the low 16 bits, the slot's epoch in the others.
    pub lock: AtomicU64,
    /// End of the last reservation.
    pub producer_pos: AtomicU64,
    /// Records written before `producer_pos`, if every open reservation is committed as one record.
    pub running_written: AtomicU64,
    /// Not 0: a producer died, and the running totals must be recomputed.
    pub running_stale: AtomicU64,
    /// In a timed ring of either kind: no earlier timestamp is greater. Shared: the timestamp of
    /// the last reservation. Exclusive: as of the last totals.
    pub newest_timestamp: AtomicU64,
    _lock_line: Gap<3>,
    /// Records written in excess of what `running_written` expects, or fewer (wrapping). A producer
    /// that ends a reservation as something else than one record adds to it before it ends it.
    pub running_more: AtomicU64,
    _own_line: Gap<7>,
    /// The other producers' totals as of `producer_pos`.
    pub running: [AtomicU64; RUNNING],
    /// The `data_head` at which a producer found that it does not advance.
    pub stuck_pos: AtomicU64,
    /// `CLOCK_REALTIME` of that observation, ns.
    pub stuck_since_ns: AtomicU64,
    /// Its first byte is the lock byte of a process that recovers the ring and is no producer.
    pub recover_byte: AtomicU64,
}

/// The present or last holder of the consumer's seat or of a producer's slot. Hints for people: the
/// lock on the holder's first byte decides whether it is alive, never the pid.
#[repr(C)]
#[derive(Debug)]
pub struct Holder {
    /// Incremented at each attach.
    pub epoch: AtomicU64,
    /// `CLOCK_REALTIME` of the attach, ns.
    pub attached_ns: AtomicU64,
    /// Process id in the holder's own pid namespace.
    pub pid: AtomicU32,
    /// User id in the holder's own user namespace; [`UID_DETACHED`](crate::UID_DETACHED) once it has detached.
    pub uid: AtomicU32,
    /// UTF-8, zero-padded.
    pub name: [AtomicU64; NAME_WORDS],
    _rest: Gap<5>,
}

/// A producer's slot in the control pages.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// The owner info of its holder.
    pub holder: Holder,
    /// Records that producers in this slot have committed: position of the last, records, bytes.
    pub written: SeqLatch<SLOT_WRITTEN>,
    _written_rest: Gap<6>,
    /// What they discarded, left behind or were refused.
    pub losses: SeqLatch<SLOT_LOSSES>,
    /// The values of both when the present producer attached: written, then the words of `losses`
    /// from [`slot_losses::DISCARDED_RECORDS`](crate::slot_losses::DISCARDED_RECORDS) on.
    pub base: [AtomicU64; SLOT_BASE],
    _rest: Gap<32>,
}

/// The seat of a named consumer, in an area of its own.
#[repr(C)]
#[derive(Debug)]
pub struct ConsumerSeat {
    /// The owner info of its holder.
    pub holder: Holder,
    /// What it has read and missed, true at its tail.
    pub totals: SeqLatch<CONSUMER_TOTALS>,
    /// The refused records that it has returned as losses.
    pub told: SeqLatch<CONSUMER_TOLD>,
}

/// The anchors, which convert timestamps to wall-clock times. Written by the producer; in a shared
/// ring under the lock.
#[repr(C)]
#[derive(Debug)]
pub struct TimeLine {
    /// The first 8 bytes of the boot id, as read by the last process to attach.
    pub boot: AtomicU64,
    /// How many anchors were ever written: the next is written to `anchors[written % ANCHORS]`.
    pub anchors_written: AtomicU64,
    _own_line: Gap<6>,
    /// See [`anchor`](crate::anchor).
    pub anchors: [[AtomicU64; ANCHOR]; ANCHORS],
}

/// The fields of `struct perf_event_mmap_page` with which a perf reader converts the processor's
/// counter to the timestamps' clock, and the bytes between them. Written by the writer of
/// `anchors`.
#[repr(C)]
#[derive(Debug)]
pub struct PerfTime {
    /// Incremented before and after the others are written.
    pub lock: AtomicU32,
    _index: AtomicU32,
    _between: Gap<3>,
    /// See [`crate::PERF_CAP_TIME_ZERO`].
    pub capabilities: AtomicU64,
    /// `pmc_width`, `time_shift` and `time_mult`, in memory order.
    pub scale: AtomicU64,
    _offset: Gap<1>,
    /// `time_zero`.
    pub zero: AtomicU64,
}

impl PerfTime {
    /// Returns the word of `pmc_width` 0 and these two.
    #[must_use]
    pub const fn pack(shift: u16, mult: u32) -> u64 {
        if cfg!(target_endian = "little") {
            (shift as u64) << 16 | (mult as u64) << 32
        } else {
            (shift as u64) << 32 | mult as u64
        }
    }
}

/// The positions of the AUX area, as perf has them: bytes that only grow.
#[repr(C)]
#[derive(Debug)]
pub struct AuxLine {
    /// Exclusive: end of the last range that is published. Shared: of the last one reserved.
    pub head: AtomicU64,
    /// Drop: what the consumer has released; it writes this. Overwrite: no range before it is
    /// whole; producers write this.
    pub tail: AtomicU64,
    _place: Gap<2>,
}

/// What the producers of a ring per CPU share beside the words of a shared ring. In any other ring all of
/// it is zero.
#[repr(C)]
#[derive(Debug)]
pub struct CpuLine {
    /// 0: open to restartable sequences on its CPU, which may store `data_head`. Else it is closed, and
    /// the lock and the other rules of a shared ring hold: slot + 1 of the producer that closed it.
    pub state: AtomicU64,
    /// A restartable sequence may publish a record that ends here or before.
    pub limit: AtomicU64,
    /// How many records sequences have published since the ring was opened, in the high 32 bits, and the
    /// low 32 of the position after the last of them. A sequence stores it before `data_head`: if the low
    /// bits are not those of `data_head`, the last one was aborted and does not count.
    pub count: AtomicU64,
    _number: Gap<13>,
}

/// The fields of the first page that change while the ring is in use.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    _perf_version: Gap<1>,
    /// perf's time fields.
    pub perf_time: PerfTime,
    _perf: Gap<119>,
    /// End of what is published: every record before it is committed. Written by producers.
    pub data_head: AtomicU64,
    /// Drop: what the consumer has released; it writes this. Overwrite: the oldest intact record;
    /// producers write this.
    pub data_tail: AtomicU64,
    _data_place: Gap<2>,
    /// The positions of the AUX area.
    pub aux: AuxLine,
    _aux_rest: Gap<8>,
    _identity: Gap<32>,
    /// Overwrite: records and bytes overwritten before a tail. Written by producers.
    pub tail_mark: SeqLatch<TAIL_MARK>,
    _tail_mark_rest: Gap<8>,
    /// What producers have written and lost, true at a recent `data_head`.
    pub producer: SeqLatch<PRODUCER_TOTALS>,
    _producer_rest: Gap<8>,
    /// The wake-up state of the consumer.
    pub wait: WaitLine,
    /// The wake-up state of a waiting producer.
    pub space: SpaceLine,
    /// What the consumer has read and lost, true at its position.
    pub consumer: SeqLatch<CONSUMER_TOTALS>,
    /// The owner info of the consumer.
    pub consumer_holder: Holder,
    /// The words that the producers of a shared ring share.
    pub shared: SharedLine,
    /// The anchors.
    pub time: TimeLine,
    /// With named consumers: what `data_tail` is about to be, for one that joins. Written by producers.
    pub tail_next: AtomicU64,
    _tail_next_rest: Gap<7>,
    /// What the producers of a ring per CPU share.
    pub cpu: CpuLine,
    /// The tails of named consumers, each plus 1 while it is waited for. That of seat n is
    /// `[n % TAIL_LINES][n / TAIL_LINES]`.
    pub named_tails: [[AtomicU64; TAIL_WORDS]; TAIL_LINES],
    /// The refused records that the one consumer has returned as losses.
    pub consumer_told: SeqLatch<CONSUMER_TOLD>,
}

/// The initial state of a ring on the heap.
trait Zero {
    fn zero() -> Self;
}

impl<T: Zero, const N: usize> Zero for [T; N] {
    fn zero() -> Self {
        core::array::from_fn(|_| T::zero())
    }
}

macro_rules! zero {
    ($($number:ident)*; $($of:ident $(<$words:ident>)? { $($field:ident),* })*) => {
        $(impl Zero for $number {
            fn zero() -> Self {
                $number::new(0)
            }
        })*
        $(impl $(<const $words: usize>)? Zero for $of $(<$words>)? {
            fn zero() -> Self {
                $of { $($field: Zero::zero()),* }
            }
        })*
    };
}

zero! {
    AtomicU64 AtomicU32;
    SeqLatch<WORDS> { copies }
    WaitLine { armed, _pad, wake_pos, wake_records, _own_line, seq, _pad2, _own_line2 }
    SpaceLine { armed, _pad, wake_pos, _own_line, seq, _pad2, _own_line2 }
    SharedLine {
        lock, producer_pos, running_written, running_stale, newest_timestamp, _lock_line, running_more,
        _own_line, running, stuck_pos, stuck_since_ns, recover_byte
    }
    Holder { epoch, attached_ns, pid, uid, name, _rest }
    ConsumerSeat { holder, totals, told }
    Slot { holder, written, _written_rest, losses, base, _rest }
    TimeLine { boot, anchors_written, _own_line, anchors }
    CpuLine { state, limit, count, _number }
    PerfTime { lock, _index, _between, capabilities, scale, _offset, zero }
    AuxLine { head, tail, _place }
    Header {
        _perf_version, perf_time, _perf, data_head, data_tail, _data_place, aux, _aux_rest,
        _identity, tail_mark, _tail_mark_rest, producer, _producer_rest, wait, space, consumer,
        consumer_holder, shared, time, tail_next, _tail_next_rest,
        cpu, named_tails, consumer_told
    }
}

macro_rules! new {
    ($($of:ident)*) => {
        $(impl $of {
            /// Creates a header of zeros: the initial state of a ring on the heap.
            #[must_use]
            pub fn new() -> Self {
                Zero::zero()
            }
        }

        impl Default for $of {
            fn default() -> Self {
                $of::new()
            }
        })*
    };
}

new! { Slot ConsumerSeat Header }

#[cfg(not(loom))]
mod agree {
    use super::*;
    use crate::numbers::{JOIN_LOCK_BYTE, RECOVER_LOCK_BYTE, SEAT_SIZE, SLOT_SIZE};
    use crate::page::{HeaderPage, offsets};
    use core::mem::{offset_of, size_of};

    const _: () = {
        assert!(size_of::<Header>() == 4096);
        assert!(size_of::<Slot>() == SLOT_SIZE as usize);
        assert!(size_of::<ConsumerSeat>() == SEAT_SIZE as usize);
        assert!(offset_of!(ConsumerSeat, totals) == 128);
        assert!(offset_of!(ConsumerSeat, told) == 256);
        assert!(offset_of!(Header, tail_next) == JOIN_LOCK_BYTE as usize);
        assert!(offset_of!(Header, named_tails) == offsets::NAMED_TAILS as usize);
        assert!(offset_of!(Header, consumer_told) == offsets::CONSUMER_TOLD as usize);
        assert!(size_of::<Holder>() == 128);
        assert!(size_of::<WaitLine>() == 128);
        assert!(size_of::<SpaceLine>() == 128);
        assert!(offset_of!(Header, perf_time.lock) == offset_of!(HeaderPage, lock));
        assert!(offset_of!(Header, perf_time.capabilities) == offset_of!(HeaderPage, capabilities));
        assert!(offset_of!(Header, perf_time.scale) == offset_of!(HeaderPage, pmc_width));
        assert!(offset_of!(Header, perf_time.zero) == offset_of!(HeaderPage, time_zero));
        assert!(offset_of!(Header, shared.newest_timestamp) == offsets::SHARED as usize + 32);
        assert!(offset_of!(Header, time) == offsets::TIME as usize);
        assert!(offset_of!(Header, time.anchors) == offsets::ANCHORS as usize);
        assert!(offset_of!(Header, data_head) == offset_of!(HeaderPage, data_head));
        assert!(offset_of!(Header, data_tail) == offset_of!(HeaderPage, data_tail));
        assert!(offset_of!(Header, aux.head) == offset_of!(HeaderPage, aux_head));
        assert!(offset_of!(Header, aux.tail) == offset_of!(HeaderPage, aux_tail));
        assert!(offset_of!(Header, _identity) == offset_of!(HeaderPage, magic));
        assert!(offset_of!(Header, tail_mark) == offsets::TAIL_MARK as usize);
        assert!(offset_of!(Header, producer) == offsets::PRODUCER as usize);
        assert!(offset_of!(Header, wait) == offsets::WAIT as usize);
        assert!(offset_of!(Header, wait.seq) == offsets::WAIT as usize + 64);
        assert!(offset_of!(Header, space) == offsets::SPACE as usize);
        assert!(offset_of!(Header, space.seq) == offsets::SPACE as usize + 64);
        assert!(offset_of!(Header, consumer) == offsets::CONSUMER_TOTALS as usize);
        assert!(offset_of!(Header, consumer_holder) == offsets::CONSUMER as usize);
        assert!(offset_of!(Header, consumer_holder) % 128 == 0);
        assert!(offset_of!(Header, shared) == offsets::SHARED as usize);
        assert!(offset_of!(Header, shared.running_more) == offsets::SHARED as usize + 64);
        assert!(offset_of!(Header, shared.running) == offsets::SHARED as usize + 128);
        assert!(offset_of!(Header, shared.recover_byte) == RECOVER_LOCK_BYTE as usize);
        assert!(size_of::<SharedLine>() == 256);
        assert!(offset_of!(Header, cpu) == offsets::CPU as usize);
        assert!(size_of::<CpuLine>() == 128);
        assert!(offset_of!(Slot, written) == 128);
        assert!(offset_of!(Slot, losses) == 256);
        assert!(offset_of!(Slot, base) == 640);
    };
}
