//! The record word: `struct perf_event_header` as one aligned 64-bit word.

use crate::numbers::RANGE_ALIGN;

/// Bytes of `struct perf_event_header`.
pub const HEADER_LEN: u32 = 8;
/// A record's size is a multiple of this, because perf readers advance by `size` and expect the
/// next header aligned.
pub const RECORD_ALIGN: u32 = 8;
/// The largest multiple of [`RECORD_ALIGN`] that the 16-bit `size` holds.
pub const SIZE_MAX: u32 = 65_528;
/// The bits of `misc` that hold how many of the payload's last bytes are padding.
pub const MISC_PAD: u16 = 0x7;
/// Bytes of the `PERF_RECORD_LOST` that perfring writes: `header, id, lost` like the kernel's, and
/// the number of lost bytes where the kernel may put a `sample_id`.
pub const LOST_SIZE: u32 = 32;

/// Bytes of a `PERF_RECORD_AUX`: `header, aux_offset, aux_size, flags`, and the time and the id of
/// the kernel's `sample_id`.
pub const AUX_SIZE: u32 = 48;

/// The words of the body of a `PERF_RECORD_AUX`.
pub mod aux_record {
    /// Where the range begins: a position in the AUX area.
    pub const OFFSET: usize = 0;
    /// The payload's length in bytes.
    pub const LEN: usize = 1;
    /// [`OVERWRITE`], or 0.
    pub const FLAGS: usize = 2;
    /// The timestamp in a timed ring; otherwise 0.
    pub const TIME: usize = 3;
    /// The type of the record.
    pub const ID: usize = 4;
    /// Words of the body.
    pub const WORDS: usize = 5;
    /// `PERF_AUX_FLAG_OVERWRITE`: the area overwrites its oldest ranges, so this one may be
    /// overwritten.
    pub const OVERWRITE: u64 = 2;
}

/// Returns the bytes of the AUX area that a payload of `len` uses. Saturates.
#[must_use]
#[inline]
pub const fn range_size(len: usize) -> u64 {
    (len as u64).saturating_add(RANGE_ALIGN - 1) & !(RANGE_ALIGN - 1)
}

/// The origin of a hole, in its `misc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// A reservation that its producer discarded.
    Discarded,
    /// A reservation whose producer died.
    Reclaimed,
    /// The rest of a record of a shared ring that was committed shorter than reserved.
    Rest,
}

impl Hole {
    const RECLAIMED: u16 = 1 << 3;
    const REST: u16 = 1 << 4;

    const fn misc(self) -> u16 {
        match self {
            Hole::Discarded => 0,
            Hole::Reclaimed => Self::RECLAIMED,
            Hole::Rest => Self::REST,
        }
    }

    /// Returns the origin of a hole with this `misc`.
    #[must_use]
    pub const fn of(misc: u16) -> Self {
        if misc & Self::RECLAIMED != 0 {
            Hole::Reclaimed
        } else if misc & Self::REST != 0 {
            Hole::Rest
        } else {
            Hole::Discarded
        }
    }
}

/// A record type that an application may publish.
///
/// The kernel's types are below 64, perfring's own in `0x5046_0000..=0x5046_FFFF`. All others are
/// the application's. [`RecordType::SAMPLE`] is the one type of the kernel's that may be published:
/// the payload is then `u32 size, bytes`, as in `PERF_SAMPLE_RAW`, and readers made for perf show
/// it.
///
/// ```
/// use perfring_abi::RecordType;
/// const TICK: RecordType = RecordType::new(5000).unwrap();
/// assert_eq!(TICK.get(), 5000);
/// assert_eq!(RecordType::new(2), None); // PERF_RECORD_LOST is written by the ring only
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordType(u32);

impl RecordType {
    /// `PERF_RECORD_LOST`: records that did not fit before this position in the stream.
    pub const LOST: u32 = 2;
    /// `PERF_RECORD_AUX`: a record whose payload is in the AUX area. Written by a ring that has
    /// one.
    pub const AUX: u32 = 11;
    /// `PERF_RECORD_SAMPLE`.
    pub const SAMPLE: RecordType = RecordType(9);
    /// A hole: a reservation that was discarded. Readers skip it.
    pub const NOP: u32 = 0x5046_0001;
    /// A reservation of a shared ring that has not ended. Never found before `data_head`.
    pub const BUSY: u32 = 0x5046_0002;
    /// Untyped bytes; the command line's default.
    pub const BYTES: RecordType = RecordType(4096);

    /// Returns the type with this number, if an application may publish it.
    #[must_use]
    pub const fn new(raw: u32) -> Option<Self> {
        if raw == Self::SAMPLE.0 || (raw >= 64 && raw >> 16 != Self::NOP >> 16) {
            Some(RecordType(raw))
        } else {
            None
        }
    }

    /// Returns the number in the record's header.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A record's number against a type: a file's numbers need not be types.
impl PartialEq<RecordType> for u32 {
    #[inline(always)]
    fn eq(&self, kind: &RecordType) -> bool {
        *self == kind.0
    }
}

impl PartialEq<u32> for RecordType {
    #[inline(always)]
    fn eq(&self, kind: &u32) -> bool {
        self.0 == *kind
    }
}

/// Returns the bytes that a payload of `len` uses in the ring: header, payload, padding to eight.
///
/// `len` may be anything; the result saturates.
#[must_use]
#[inline]
pub const fn record_size(len: usize) -> u64 {
    ((len as u64).saturating_add(HEADER_LEN as u64 + RECORD_ALIGN as u64 - 1))
        & !(RECORD_ALIGN as u64 - 1)
}

/// `u32 type, u16 misc, u16 size` in memory order, as one 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordWord(u64);

impl RecordWord {
    /// Creates a word from its raw value in the ring.
    #[must_use]
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        RecordWord(raw)
    }

    /// Returns the raw value to store.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Creates the word of a record of this type with a payload of `len` bytes. `len` is at most
    /// 65,520; of a larger size only the low 16 bits are kept, so callers check first.
    #[must_use]
    #[inline]
    pub const fn of(kind: RecordType, len: usize) -> Self {
        let size = record_size(len);
        let pad = size - HEADER_LEN as u64 - len as u64;
        Self::pack(kind.0, pad as u16, size as u16)
    }

    /// Creates the word of a hole of `size` bytes.
    #[must_use]
    #[inline]
    pub const fn nop(size: u64, hole: Hole) -> Self {
        Self::pack(RecordType::NOP, hole.misc(), size as u16)
    }

    /// Creates the word of an open reservation of `size` bytes by the producer in this slot.
    #[must_use]
    #[inline]
    pub const fn busy(size: u64, slot: u32) -> Self {
        Self::pack(RecordType::BUSY, (slot << 3) as u16, size as u16)
    }

    /// Creates the word of an open reservation whose payload is in the AUX area.
    #[must_use]
    pub const fn busy_aux(slot: u32) -> Self {
        Self::pack(RecordType::BUSY, (slot << 3) as u16 | Self::BUSY_AUX, AUX_SIZE as u16)
    }

    /// The bit of an open reservation's `misc` that is set if it has a range of the AUX area.
    const BUSY_AUX: u16 = 1 << 15;

    /// Returns whether this is an open reservation with a range of the AUX area.
    #[must_use]
    pub const fn is_busy_aux(self) -> bool {
        self.kind() == RecordType::BUSY && self.misc() & Self::BUSY_AUX != 0
    }

    /// Returns the slot of the open reservation, if this is one.
    #[must_use]
    #[inline]
    pub const fn owner(self) -> Option<u32> {
        if self.kind() == RecordType::BUSY {
            Some((self.misc() & !Self::BUSY_AUX) as u32 >> 3)
        } else {
            None
        }
    }

    /// Creates the word of a `PERF_RECORD_AUX`.
    #[must_use]
    pub const fn aux() -> Self {
        Self::pack(RecordType::AUX, 0, AUX_SIZE as u16)
    }

    /// Creates the word of a `PERF_RECORD_LOST`.
    #[must_use]
    pub const fn lost() -> Self {
        Self::pack(RecordType::LOST, 0, LOST_SIZE as u16)
    }

    /// Creates a word from its three fields.
    #[must_use]
    #[inline]
    pub const fn pack(kind: u32, misc: u16, size: u16) -> Self {
        if cfg!(target_endian = "little") {
            RecordWord(kind as u64 | (misc as u64) << 32 | (size as u64) << 48)
        } else {
            RecordWord((kind as u64) << 32 | (misc as u64) << 16 | size as u64)
        }
    }

    /// Returns `type`.
    #[must_use]
    #[inline]
    pub const fn kind(self) -> u32 {
        if cfg!(target_endian = "little") { self.0 as u32 } else { (self.0 >> 32) as u32 }
    }

    /// Returns `misc`.
    #[must_use]
    #[inline]
    pub const fn misc(self) -> u16 {
        if cfg!(target_endian = "little") { (self.0 >> 32) as u16 } else { (self.0 >> 16) as u16 }
    }

    /// Returns `size`: header, payload and padding.
    #[must_use]
    #[inline]
    pub const fn size(self) -> u64 {
        if cfg!(target_endian = "little") { self.0 >> 48 } else { self.0 & 0xffff }
    }

    /// Returns the payload's length in bytes, or `None` if the word is not a record's: its size is
    /// not a multiple of eight or does not hold the header, or there is more padding than payload.
    #[must_use]
    #[inline]
    pub const fn payload_len(self) -> Option<usize> {
        let (size, pad) = (self.size(), (self.misc() & MISC_PAD) as u64);
        // The shortest first: in any longer one the padding is less than what follows the header.
        if size < 2 * RECORD_ALIGN as u64 && (size != HEADER_LEN as u64 || pad != 0) {
            return None;
        }
        if size & (RECORD_ALIGN as u64 - 1) == 0 {
            Some((size - HEADER_LEN as u64 - pad) as usize)
        } else {
            None
        }
    }

    /// Returns whether an application published the record: it is neither a hole nor a loss. Only
    /// for words before `data_head`, where nothing is open.
    #[must_use]
    #[inline]
    pub const fn is_data(self) -> bool {
        self.kind() != RecordType::NOP && self.kind() != RecordType::LOST
    }

    /// Returns whether the record's payload follows this word, as in most records: it is neither a
    /// hole nor a loss, nor may its payload be in the AUX area. (The kernel's types 3 and 10 return
    /// false too, so that one comparison covers both types: callers have another path for what is
    /// not plain.)
    #[must_use]
    #[inline]
    pub const fn is_plain(self) -> bool {
        const EITHER: u32 = RecordType::LOST & RecordType::AUX;
        const BOTH: u32 = RecordType::LOST | RecordType::AUX;
        self.kind() & !(BOTH ^ EITHER) != EITHER && self.kind() != RecordType::NOP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_survives_the_word() {
        for len in 0..=65_520usize {
            let word = RecordWord::of(RecordType::BYTES, len);
            assert_eq!(word.payload_len(), Some(len));
            assert_eq!(word.size(), record_size(len));
            assert!(word.is_data());
        }
        assert_eq!(record_size(65_520), u64::from(SIZE_MAX));
        assert_eq!(record_size(usize::MAX), !7);
    }

    #[test]
    fn the_word_is_the_kernels_header_in_memory() {
        let bytes = RecordWord::pack(0x1122_3344, 0x5566, 0x7788).raw().to_ne_bytes();
        assert_eq!(bytes[..4], 0x1122_3344u32.to_ne_bytes());
        assert_eq!(bytes[4..6], 0x5566u16.to_ne_bytes());
        assert_eq!(bytes[6..], 0x7788u16.to_ne_bytes());
    }

    #[test]
    fn a_word_that_is_no_record_is_reported() {
        for (misc, size) in [(0, 0), (0, 7), (0, 12), (1, 8), (7, 8)] {
            assert_eq!(RecordWord::pack(4096, misc, size).payload_len(), None);
        }
        assert_eq!(RecordWord::pack(4096, 7, 16).payload_len(), Some(1));
    }

    #[test]
    fn holes_and_open_reservations_are_recognized() {
        for hole in [Hole::Discarded, Hole::Reclaimed, Hole::Rest] {
            let word = RecordWord::nop(4096, hole);
            assert_eq!((word.size(), word.payload_len()), (4096, Some(4088)));
            assert_eq!((Hole::of(word.misc()), word.owner()), (hole, None));
            assert!(!word.is_data());
        }
        for slot in [0, 1, 63, 4095] {
            let word = RecordWord::busy(65_528, slot);
            assert_eq!((word.owner(), word.size()), (Some(slot), 65_528));
            assert!(!word.is_busy_aux());
            let word = RecordWord::busy_aux(slot);
            assert_eq!((word.owner(), word.size()), (Some(slot), AUX_SIZE.into()));
            assert!(word.is_busy_aux() && word.payload_len().is_some());
        }
    }

    #[test]
    fn holes_losses_and_aux_records_are_not_plain() {
        let kinds = [0, 1, 9, 12, 63, 64, 4096, 0x5045_ffff, u32::MAX];
        assert!(kinds.iter().all(|kind| RecordWord::pack(*kind, 0, 48).is_plain()));
        for word in [RecordWord::lost(), RecordWord::aux(), RecordWord::nop(48, Hole::Rest)] {
            assert!(!word.is_plain());
        }
        assert!(RecordWord::aux().is_data());
        assert_eq!(RecordWord::aux().size(), 8 + 8 * aux_record::WORDS as u64);
        assert_eq!([0, 1, 64, 65].map(range_size), [0, 64, 64, 128]);
        assert_eq!(range_size(usize::MAX), !63);
    }

    #[test]
    fn reserved_types_are_refused() {
        for raw in [0, 1, 2, 8, 10, 11, 63, RecordType::NOP, RecordType::BUSY, 0x5046_ffff] {
            assert_eq!(RecordType::new(raw), None, "{raw:#x}");
        }
        for raw in [9, 64, 4096, 0x5045_ffff, 0x5047_0000, u32::MAX] {
            assert!(RecordType::new(raw).is_some(), "{raw:#x}");
        }
    }
}
