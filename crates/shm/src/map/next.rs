//! What a reader finds next.

use crate::map::mirror::Mirror;
use bytemuck::cast_slice;
use perfring_ring::{Found, Frame, Lost, Seen};

/// What stands next in a ring.
#[derive(Clone, Copy, Debug)]
pub enum Next<'a> {
    /// A record, and its payload.
    Record(Frame, &'a [u8]),
    /// The position at which records are missing.
    Lost(Lost),
}

impl<'a> Next<'a> {
    /// Converts what a reader found, in place.
    ///
    /// # Safety
    /// It was found before an acquired head, and neither the tail nor `aux_tail` is moved past it
    /// while the result lives.
    #[inline]
    pub(crate) unsafe fn in_place(map: &'a Mirror, found: Found) -> Self {
        match found {
            // SAFETY: the caller's promise.
            Found::Record(frame) => Next::Record(frame, unsafe { map.pinned(&frame) }),
            Found::Large(frame, range) => {
                // SAFETY: the caller's promise.
                Next::Record(frame, unsafe { map.pinned_range(range) })
            }
            Found::Lost(lost) => Next::Lost(lost),
        }
    }
}

impl<'a> From<Seen<'a>> for Next<'a> {
    #[inline]
    fn from(seen: Seen<'a>) -> Self {
        match seen {
            Seen::Record(frame, words) => Next::Record(frame, bytes_of(words, frame.len)),
            Seen::Lost(lost) => Next::Lost(lost),
        }
    }
}

/// Returns the first `len` bytes of copied words.
#[must_use]
#[inline]
pub fn bytes_of(words: &[u64], len: usize) -> &[u8] {
    let bytes = cast_slice::<u64, u8>(words);
    // A record's words hold its payload; a length beyond them cannot come from the algorithm.
    bytes.get(..len).unwrap_or(bytes)
}
