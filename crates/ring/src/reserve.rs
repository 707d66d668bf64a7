//! Reservations: why one is refused, and its state until it ends.

use crate::record::AuxRange;
use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{
    AUX_SIZE, HEADER_LEN, Layout, Policy, RecordType, RecordWord, aux_record, range_size,
    record_size,
};

/// Why a reservation was refused. No larger than two registers, in which it is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A drop ring has no room for it.
    Full,
    /// It is larger than any record of this ring can be.
    TooLarge {
        /// The longest that fits.
        max: usize,
    },
    /// A shared ring's lock is held, and its holder is alive.
    Contended {
        /// The holder's slot.
        slot: u32,
    },
    /// A shared ring has no room because an older reservation is open, and its producer is alive.
    Pending {
        /// The producer's slot.
        slot: u32,
    },
    /// This process is a forked child of the one that attached. `perfring-shm` returns this; no
    /// algorithm here does.
    Forked,
    /// Another exclusive producer has attached since this one did: the lock did not keep them apart,
    /// as with two paths of an overlay file system. Nothing is changed.
    Replaced,
    /// A position, the totals or a record is such as no perfring process leaves: somebody damaged
    /// the ring. Nothing is changed.
    Corrupt {
        /// The tail of the damaged area, or the position of the damaged record.
        tail: u64,
    },
}

const _: () = assert!(size_of::<Result<(), Refusal>>() <= 16);

/// Space for one record, still to be committed or discarded.
///
/// Only a producer creates one, and its position is the writer's own: a token that is dropped
/// leaves no trace, and the next reservation gets the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    pub(crate) start: u64,
    pub(crate) kind: RecordType,
    pub(crate) len: usize,
    /// Bytes between header and payload; or, for a payload in the AUX area, its position
    /// there.
    pub(crate) lead: u64,
}

impl Reserved {
    /// Returns the position of the record.
    #[must_use]
    #[inline]
    pub fn pos(&self) -> u64 {
        self.start
    }

    /// Returns where the payload begins, if it is in the data area.
    #[must_use]
    #[inline]
    pub fn payload_pos(&self) -> u64 {
        self.start.wrapping_add(u64::from(HEADER_LEN)).wrapping_add(self.lead)
    }

    /// Returns the payload's length in bytes.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an empty payload is an ordinary one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the word of the record, with a payload of the first `len` bytes in the data area.
    #[inline(always)]
    pub(crate) fn word(&self, len: usize) -> RecordWord {
        RecordWord::of(self.kind, len + self.lead as usize)
    }

    /// Returns the bytes that it uses in the data area, if its payload is there.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        record_size(self.len + self.lead as usize)
    }

    /// Marks the lead of a reservation whose payload is in the AUX area; the other bits are its
    /// position there. No writer sets it for anything else, so what a hot path asks is one bit.
    const LARGE: u64 = 1 << 63;
    /// Marks, beside `LARGE`, a reservation that is lent. `ALSO` is there if its payload is also a large one.
    const LENT: u64 = 1 << 62;
    const ALSO: u64 = 1 << 61;

    pub(crate) fn large_lead(at: u64) -> u64 {
        // In a damaged ring the position can be any number: the low bits of it say where in the area it is.
        Self::LARGE | at & (Self::ALSO - 1)
    }

    /// Returns where the payload is in the AUX area, if it is there.
    #[must_use]
    #[inline(always)]
    pub fn range(&self) -> Option<AuxRange> {
        if self.is_large() {
            Some(AuxRange { at: self.lead & !Self::LARGE, len: self.len })
        } else {
            None
        }
    }

    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        debug_assert!(!self.is_lent(), "a reservation that is lent is settled before it ends");
        self.is_elsewhere()
    }

    /// Returns whether the payload is not in the data area: it is in the AUX area, or is lent.
    #[must_use]
    #[inline(always)]
    pub fn is_elsewhere(&self) -> bool {
        self.lead & Self::LARGE != 0
    }

    /// Returns whether the payload is written in memory that is no part of the ring, and is copied to the ring when the
    /// reservation is settled.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.lead & Self::LENT != 0
    }

    /// Returns the lead of a reservation with this one, that is lent.
    pub(crate) fn lent_lead(lead: u64) -> u64 {
        let also = if lead & Self::LARGE != 0 { Self::ALSO } else { 0 };
        lead | Self::LARGE | Self::LENT | also
    }

    /// Marks a part of a reservation as lent.
    #[must_use]
    pub fn lent(self) -> Self {
        Reserved { lead: Self::lent_lead(self.lead), ..self }
    }

    /// Returns where it is in the ring, as a writer ends it.
    #[must_use]
    pub fn settled(self) -> Self {
        if !self.is_lent() {
            return self;
        }
        let large = if self.lead & Self::ALSO != 0 { Self::LARGE } else { 0 };
        let lead = self.lead & !(Self::LARGE | Self::LENT | Self::ALSO) | large;
        Reserved { lead, ..self }
    }

    /// Takes it apart into scalars, which a call can pass in registers: where the record is, and where its payload is.
    #[must_use]
    #[inline(always)]
    pub fn parts(&self) -> (u64, u64) {
        (self.start, self.lead)
    }

    /// Puts together what [`Reserved::parts`] returned, for a payload of the first `len` bytes.
    #[must_use]
    #[inline(always)]
    pub fn of_parts((start, lead): (u64, u64), kind: RecordType, len: usize) -> Self {
        Reserved { start, kind, len, lead }
    }

    /// Returns this reservation with its payload where another one's [parts](Reserved::parts) say.
    #[must_use]
    #[inline(always)]
    pub fn moved(self, (start, lead): (u64, u64)) -> Self {
        Reserved { start, lead, ..self }
    }

    /// Writes the body of its record, with a payload of the first `len` bytes.
    pub(crate) fn write_body(&self, ring: Ring<'_>, len: usize, time: u64, policy: Policy) {
        let mut body = [0; aux_record::WORDS];
        body[aux_record::OFFSET] = self.lead & !Self::LARGE;
        body[aux_record::LEN] = len as u64;
        body[aux_record::FLAGS] = match policy {
            Policy::Drop => 0,
            Policy::Overwrite => aux_record::OVERWRITE,
        };
        body[aux_record::TIME] = time;
        body[aux_record::ID] = self.kind.get().into();
        for (word, nth) in body.into_iter().zip(1..) {
            // Relaxed: the store that publishes the record publishes it.
            ring.word(self.start + 8 * nth).store(word, Ordering::Relaxed);
        }
    }
}

/// Returns the bytes that a refused payload would have used in a ring with an AUX area of `area`
/// bytes and `lead` bytes before the payload of every record.
pub(crate) fn refused_size(area: u64, len: usize, lead: usize) -> u64 {
    match area {
        0 => record_size(len.saturating_add(lead)),
        _ => range_size(len).saturating_add(AUX_SIZE.into()),
    }
}

pub(crate) fn fill(ring: Ring<'_>, reserved: &Reserved, payload: &[u8]) {
    debug_assert!(!reserved.is_large());
    let mut pos = reserved.payload_pos();
    for chunk in payload[..payload.len().min(reserved.len)].chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // Relaxed: A publishes it, and E came before it.
        ring.word(pos).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        pos += 8;
    }
}

/// Like [`Layout::max_small_len`], computed from the ring: models have rings smaller than a page.
pub(crate) fn max_len(ring: Ring<'_>, layout: &Layout) -> usize {
    let size = (ring.data_size() - 8).min(perfring_abi::SIZE_MAX.into());
    (size - u64::from(HEADER_LEN)) as usize - layout.lead().len()
}
