//! Reservations: the reasons for a refusal, and a reservation's state until it ends.

use crate::record::AuxRange;
use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{
    AUX_SIZE, HEADER_LEN, Layout, Policy, RecordType, RecordWord, aux_record, range_size,
    record_size,
};

/// The reason why a reservation was refused. It is no larger than two registers, so that it is returned in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A drop ring has no room for it.
    Full,
    /// It is larger than any record of this ring can be.
    TooLarge {
        /// The length of the longest payload that fits.
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
    /// This process is a forked child of the process that attached. Only `perfring-shm` returns this refusal.
    Forked,
    /// Another exclusive producer has attached since: the lock did not separate them, as happens with
    /// two paths of an overlay file system. Nothing is changed.
    Replaced,
    /// The ring is damaged: no perfring process leaves such a position, such totals or such a record.
    /// Nothing is changed.
    Corrupt {
        /// The tail of the damaged area, or the position of the damaged record.
        tail: u64,
    },
}

const _: () = assert!(size_of::<Result<(), Refusal>>() <= 16);

/// Space for one record, still to be committed or discarded.
///
/// Only a writer makes a reservation, and a reservation is spent only once: it cannot be copied. An exclusive writer keeps its
/// position private until the commit: a dropped reservation leaves no trace, and the next one gets the same bytes.
///
/// ```compile_fail,E0382
/// fn end_twice(reserved: perfring_ring::Reserved) {
///     let (_first, _second) = (reserved, reserved);
/// }
/// ```
#[derive(Debug)]
pub struct Reserved {
    pub(crate) site: Site,
    pub(crate) kind: RecordType,
    pub(crate) len: usize,
}

impl Reserved {
    /// Returns the position of the record.
    #[must_use]
    #[inline]
    pub fn pos(&self) -> u64 {
        self.site.start
    }

    /// Returns where the record and its payload are.
    #[must_use]
    #[inline(always)]
    pub fn site(&self) -> Site {
        self.site
    }

    /// Returns where the payload begins, if it is in the data area.
    #[must_use]
    #[inline]
    pub fn payload_pos(&self) -> u64 {
        self.site.payload_pos()
    }

    /// Returns the payload's length in bytes.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an empty payload is an ordinary one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns where the payload is in the AUX area, if it is there.
    #[must_use]
    pub fn range(&self) -> Option<AuxRange> {
        self.site.aux_pos().map(|at| AuxRange { at, len: self.len })
    }

    /// Returns the word of the record, with a payload of the first `len` bytes in the data area.
    #[inline(always)]
    pub(crate) fn word(&self, len: usize) -> RecordWord {
        RecordWord::of(self.kind, len + self.site.lead as usize)
    }

    /// Returns the bytes that it uses in the data area, if its payload is there.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        record_size(self.len + self.site.lead as usize)
    }

    /// Returns this reservation with its place in the ring, so that a writer can end it.
    #[must_use]
    #[inline(always)]
    pub fn settled(self) -> Self {
        if !self.site.is_elsewhere() {
            return self;
        }
        Reserved { site: self.site.settled(), ..self }
    }

    /// Removes the kind and the length, which the caller knows. The rest is returned in two registers.
    #[must_use]
    #[inline(always)]
    pub fn into_claim(self) -> Claim {
        Claim(self.site)
    }
}

/// A [`Reserved`] without its kind and its length. The code that removes them keeps them, and adds them again.
#[derive(Debug)]
pub struct Claim(Site);

impl Claim {
    /// Returns the reservation, of the kind and the length that it was made with.
    #[must_use]
    #[inline(always)]
    pub fn of(self, kind: RecordType, len: usize) -> Reserved {
        Reserved { site: self.0, kind, len }
    }
}

/// Where a reservation is: its record, and its payload.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub(crate) start: u64,
    /// Bytes between header and payload; or, for a payload in the AUX area, its position
    /// there.
    pub(crate) lead: u64,
}

impl Site {
    /// Marks the lead of a reservation whose payload is in the AUX area; the other bits are its
    /// position there. No writer sets this bit for anything else, so a hot path tests one bit.
    const LARGE: u64 = 1 << 63;
    /// Marks, beside `LARGE`, a reservation that is lent. `ALSO` is set if its payload is also large.
    const LENT: u64 = 1 << 62;
    const ALSO: u64 = 1 << 61;

    /// The site of a record whose payload is in the AUX area, at this position.
    pub(crate) fn with_aux(start: u64, at: u64) -> Self {
        // In a damaged ring the position can be any number: its low bits are the place in the area.
        Site { start, lead: Self::LARGE | at & (Self::ALSO - 1) }
    }

    /// Returns where the payload begins, if it is in the data area.
    #[must_use]
    #[inline(always)]
    pub fn payload_pos(self) -> u64 {
        self.start.wrapping_add(u64::from(HEADER_LEN)).wrapping_add(self.lead)
    }

    /// Returns where the payload begins in the AUX area, if it is there.
    #[must_use]
    #[inline(always)]
    pub fn aux_pos(self) -> Option<u64> {
        if self.is_large() { Some(self.lead & !Self::LARGE) } else { None }
    }

    #[inline(always)]
    pub(crate) fn is_large(self) -> bool {
        debug_assert!(!self.is_lent(), "a reservation that is lent is settled before it ends");
        self.is_elsewhere()
    }

    /// Returns whether the payload is not in the data area: it is in the AUX area, or is lent.
    #[must_use]
    #[inline(always)]
    pub fn is_elsewhere(self) -> bool {
        self.lead & Self::LARGE != 0
    }

    /// Returns whether the payload is written in memory that is no part of the ring, and is copied to the ring when the
    /// reservation is settled.
    #[must_use]
    pub fn is_lent(self) -> bool {
        self.lead & Self::LENT != 0
    }

    /// Returns this site with its payload lent.
    #[must_use]
    pub fn lent(self) -> Self {
        let also = if self.lead & Self::LARGE != 0 { Self::ALSO } else { 0 };
        Site { lead: self.lead | Self::LARGE | Self::LENT | also, ..self }
    }

    /// Returns where the payload is in the ring.
    #[must_use]
    pub fn settled(self) -> Self {
        if !self.is_lent() {
            return self;
        }
        let large = if self.lead & Self::ALSO != 0 { Self::LARGE } else { 0 };
        Site { lead: self.lead & !(Self::LARGE | Self::LENT | Self::ALSO) | large, ..self }
    }

    /// Writes the body of a record with its payload, of `len` bytes, in the AUX area.
    pub(crate) fn write_body(
        self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        time: u64,
        policy: Policy,
    ) {
        let mut body = [0; aux_record::WORDS];
        body[aux_record::OFFSET] = self.lead & !Self::LARGE;
        body[aux_record::LEN] = len as u64;
        body[aux_record::FLAGS] = match policy {
            Policy::Drop => 0,
            Policy::Overwrite => aux_record::OVERWRITE,
        };
        body[aux_record::TIME] = time;
        body[aux_record::ID] = kind.get().into();
        for (word, nth) in body.into_iter().zip(1..) {
            // Relaxed: the store that publishes the record publishes it.
            ring.word(self.start + 8 * nth).store(word, Ordering::Relaxed);
        }
    }
}

/// Returns the bytes that a refused payload of `len` bytes would use, with `lead` bytes before it. Up to `max_len` it would be in
/// the data area, and beyond that in an AUX area of `area` bytes, if the ring has one.
pub(crate) fn wanted_size(len: usize, lead: usize, max_len: usize, area: u64) -> u64 {
    if len > max_len && area != 0 {
        return range_size(len).saturating_add(AUX_SIZE.into());
    }
    record_size(len.saturating_add(lead))
}

/// Like [`Layout::max_small_len`], computed from the ring: models have rings smaller than a page.
pub(crate) fn max_len(ring: Ring<'_>, layout: &Layout) -> usize {
    let size = (ring.data_size() - 8).min(perfring_abi::SIZE_MAX.into());
    (size - u64::from(HEADER_LEN)) as usize - layout.lead().len()
}
