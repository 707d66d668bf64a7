//! What the live words of a ring mean: how many there are of each kind, and which figure stands where.

/// Words of a copy of the tail mark: position, records, bytes, position (which only rises, and so
/// is the number of the write as well).
pub const TAIL_MARK: usize = 4;
/// The most records between `data_tail` and the mark.
pub const MARK_AHEAD: u32 = 64;
/// Words of a copy of the producer's book.
pub const PRODUCER_TOTALS: usize = 28;
/// Words of a copy of the consumer's book.
pub const CONSUMER_TOTALS: usize = 8;
/// Words of a copy of what a slot's producers have written: number, position, records, bytes,
/// number.
pub const SLOT_WRITTEN: usize = 5;
/// Words of a copy of what a slot's producers have given back and lost.
pub const SLOT_LOSSES: usize = 24;
/// Words of what stood in a slot when its producer attached.
pub const SLOT_BASE: usize = 16;
/// Words of the ledger.
pub const RUNNING: usize = 13;
/// Words of an anchor.
pub const ANCHOR: usize = 4;
/// Anchors that there is room for. The oldest may be being written over, so one less can be read.
pub const ANCHORS: usize = if cfg!(loom) { 3 } else { 16 };
/// 64-bit words of a holder's name.
pub const NAME_WORDS: usize = 8;

/// Where each figure stands in a copy of the producer's book. All count since the ring was made;
/// bytes are whole records, header and padding included.
pub mod producer_totals {
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
    /// Reservations whose producer died.
    pub const RECLAIMED_RECORDS: usize = 6;
    /// The bytes of their holes.
    pub const RECLAIMED_BYTES: usize = 7;
    /// Records refused, and their bytes, for each cause in the order of [`crate::Cause::REFUSED`].
    /// In a shared ring these are zero: the slots have them.
    pub const REFUSED: usize = 8;
    /// Of the refused ones, those told in the stream: as [`REFUSED`].
    pub const REPORTED: usize = 16;
    /// `PERF_RECORD_LOST` records in the stream.
    pub const LOST_MARKERS: usize = 24;
}

/// Where each figure stands in an anchor.
pub mod anchor {
    /// The position from which it holds.
    pub const POS: usize = 0;
    /// The stamps' clock at some moment, ns.
    pub const CLOCK_NS: usize = 1;
    /// `CLOCK_REALTIME` at that moment, ns.
    pub const REALTIME_NS: usize = 2;
    /// How far apart the two moments may have been, ns.
    pub const ERROR_NS: usize = 3;
}

/// Where each figure stands in the ledger of a shared ring.
pub mod running {
    /// Reservations given back.
    pub const DISCARDED_RECORDS: usize = 0;
    /// Reservations whose producer died.
    pub const RECLAIMED_RECORDS: usize = 2;
    /// Refused records told in the stream, as [`super::producer_totals::REPORTED`].
    pub const REPORTED: usize = 4;
    /// `PERF_RECORD_LOST` records in the stream.
    pub const LOST_MARKERS: usize = 12;
}

/// Where each figure stands in a copy of a slot's losses.
pub mod slot_losses {
    /// The position of the record whose end the newest of the figures counts.
    pub const POS: usize = 1;
    /// Reservations given back.
    pub const DISCARDED_RECORDS: usize = 2;
    /// Reservations whose producer died.
    pub const RECLAIMED_RECORDS: usize = 4;
    /// Records refused, and their bytes, for each cause in the order of [`crate::Cause::REFUSED`].
    pub const REFUSED: usize = 6;
    /// Of the refused ones, those told in the stream.
    pub const REPORTED: usize = 14;
}

/// Where each figure stands in a copy of the consumer's book.
pub mod consumer_totals {
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
