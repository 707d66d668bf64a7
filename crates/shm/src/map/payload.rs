//! The payload of a record that a reader has found.

use crate::map::mirror::Mirror;
use bytemuck::cast_slice;
use perfring_ring::{Frame, FrameWords, Place};

/// A record, and its payload.
pub type FrameBytes<'a> = (Frame, &'a [u8]);

impl Mirror {
    /// Returns the payload of a record that a reader found, in place.
    ///
    /// # Safety
    /// It was found before an acquired head, and neither the tail nor `aux_tail` is moved past it
    /// while the result lives.
    #[inline]
    pub(crate) unsafe fn in_place(&self, place: Place) -> FrameBytes<'_> {
        match place {
            // SAFETY: the caller's promise.
            Place::Ring(frame) => (frame, unsafe { self.pinned(&frame) }),
            // SAFETY: the caller's promise.
            Place::Aux(frame, range) => (frame, unsafe { self.pinned_range(range) }),
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

/// Returns a record whose words were copied, with its bytes.
#[inline]
pub(crate) fn with_bytes((frame, words): FrameWords<'_>) -> FrameBytes<'_> {
    (frame, bytes_of(words, frame.len))
}
