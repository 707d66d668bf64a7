//! The meaning of a ring's live words: how many there are of each kind, and the index of each
//! figure.

/// Words of a copy of the tail mark: position, records, bytes, position. The position only rises,
/// so it is also the number of the write.
pub const TAIL_MARK: usize = 4;
/// The most records between `data_tail` and the mark.
pub const MARK_AHEAD: u32 = 64;
/// Words of a copy of the producer's totals.
pub const PRODUCER_TOTALS: usize = 28;
/// Words of a copy of the consumer's totals.
pub const CONSUMER_TOTALS: usize = 8;
/// Words of a copy of what a consumer was told of refused records.
pub const CONSUMER_TOLD: usize = if cfg!(loom) { 11 } else { 16 };
/// Words of a copy of what a slot's producers have written: number, position, records, bytes,
/// number.
pub const SLOT_WRITTEN: usize = 5;
/// Words of a copy of what a slot's producers have discarded and lost.
pub const SLOT_LOSSES: usize = 24;
/// Words of a slot's figures at the time its producer attached.
pub const SLOT_BASE: usize = 16;
/// Words of the running totals.
pub const RUNNING: usize = 13;
/// Words of an anchor.
pub const ANCHOR: usize = 4;
/// How many anchors there is room for. The oldest may be in the process of being overwritten, so
/// one less can be read.
pub const ANCHORS: usize = if cfg!(loom) { 3 } else { 16 };
/// Lines with the tails of named consumers: the first so many have a line of their own.
pub const TAIL_LINES: usize = if cfg!(loom) { 2 } else { 4 };
/// Tails in one of these lines.
pub const TAIL_WORDS: usize = if cfg!(loom) { 1 } else { 8 };
/// 64-bit words of a holder's name.
pub const NAME_WORDS: usize = 8;

/// The index of each figure in a copy of the producer's totals. All count since the ring was
/// created; bytes are whole records, header and padding included.
pub mod producer_totals {
    /// The `data_head` at which the other figures are true.
    pub const POS: usize = 1;
    /// Records committed.
    pub const WRITTEN_RECORDS: usize = 2;
    /// Their bytes.
    pub const WRITTEN_BYTES: usize = 3;
    /// Reservations discarded.
    pub const DISCARDED_RECORDS: usize = 4;
    /// The bytes of their holes.
    pub const DISCARDED_BYTES: usize = 5;
    /// Reservations whose producer died.
    pub const RECLAIMED_RECORDS: usize = 6;
    /// The bytes of their holes.
    pub const RECLAIMED_BYTES: usize = 7;
    /// Records refused, and their bytes, for each cause in the order of [`crate::Cause::REFUSED`].
    /// In a shared ring these are zero: the slots have them.
    pub const REFUSED: usize = 8;
    /// The part of the refused ones that was reported in the stream, laid out like [`REFUSED`].
    pub const REPORTED: usize = 16;
    /// Number of `PERF_RECORD_LOST` records in the stream.
    pub const LOST_MARKERS: usize = 24;
}

/// The index of each figure in an anchor.
pub mod anchor {
    /// The position from which it holds.
    pub const POS: usize = 0;
    /// The timestamps' clock at some moment, ns.
    pub const CLOCK_NS: usize = 1;
    /// `CLOCK_REALTIME` at that moment, ns.
    pub const REALTIME_NS: usize = 2;
    /// The most that the two readings may be apart, ns.
    pub const ERROR_NS: usize = 3;
}

/// The index of each figure in the running totals of a shared ring.
pub mod running {
    /// Reservations discarded.
    pub const DISCARDED_RECORDS: usize = 0;
    /// Reservations whose producer died.
    pub const RECLAIMED_RECORDS: usize = 2;
    /// Refused records reported in the stream, laid out like [`super::producer_totals::REPORTED`].
    pub const REPORTED: usize = 4;
    /// Number of `PERF_RECORD_LOST` records in the stream.
    pub const LOST_MARKERS: usize = 12;
}

/// The index of each figure in a copy of a slot's losses.
pub mod slot_losses {
    /// The position of the record whose end the newest of the figures counts.
    pub const POS: usize = 1;
    /// Reservations discarded.
    pub const DISCARDED_RECORDS: usize = 2;
    /// Reservations whose producer died.
    pub const RECLAIMED_RECORDS: usize = 4;
    /// Records refused, and their bytes, for each cause in the order of [`crate::Cause::REFUSED`].
    pub const REFUSED: usize = 6;
    /// The part of the refused ones that was reported in the stream.
    pub const REPORTED: usize = 14;
}

/// The index of each figure in a copy of what a consumer was told.
pub mod consumer_told {
    /// Refused records that the consumer has returned as losses since the ring was created, and their bytes, laid out like
    /// [`super::producer_totals::REFUSED`]. Zeros: those of the markers before its position.
    pub const REFUSED: usize = 1;
    /// Of a named consumer, the FNV-1a hash of its name: what another one was told does not count. Zero otherwise.
    pub const NAME: usize = 9;
}

/// The index of each figure in a copy of the consumer's totals.
pub mod consumer_totals {
    /// The position up to which the consumer has released.
    pub const POS: usize = 1;
    /// Records released.
    pub const READ_RECORDS: usize = 2;
    /// Their bytes.
    pub const READ_BYTES: usize = 3;
    /// Records of an overwrite ring that were overwritten before the consumer read them.
    pub const LAPPED_RECORDS: usize = 4;
    /// Their bytes.
    pub const LAPPED_BYTES: usize = 5;
}
