//! Payloads too long for the data area: they are stored in one piece in the AUX area, and a
//! `PERF_RECORD_AUX` in the data area describes the range. (This is perf's own method for Intel PT
//! and similar sources; the record's body is `perf_aux_output_end`'s in
//! `kernel/events/ring_buffer.c`, with a `sample_id` of time and id.)
//!
//! A *range* is allotted when the record is reserved, in the order of the records, so that both
//! areas are freed in one order. Drop: the consumer passes ranges as it passes their records, and
//! stores `aux_tail` before `data_tail`. Overwrite: `aux_tail` is how far the newest range reaches
//! round, in bytes and not in ranges, so that no boundaries need to be found; a record whose range
//! begins before it has lost its payload.

use crate::lost::Lost;
use crate::read_error::ReadError;
use crate::record::{AuxRange, Frame};
use crate::view::{POS_MAX, Ring};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Cause, RANGE_ALIGN, RECORD_ALIGN, range_size};

/// Loads the positions of the AUX area, if they are valid.
pub(crate) fn positions(ring: Ring<'_>, size: u64) -> Option<(u64, u64)> {
    let line = &ring.header.aux;
    let tail = line.tail.load(Ordering::Acquire); // D, pairs with C
    // Relaxed: written by the producer's own side; M, or the lock on its seat, ordered it.
    let head = line.head.load(Ordering::Relaxed);
    let sane = head.is_multiple_of(RANGE_ALIGN)
        && tail.is_multiple_of(RANGE_ALIGN)
        && head <= POS_MAX
        && tail <= head
        && head - tail <= size;
    sane.then_some((head, tail))
}

impl Ring<'_> {
    /// Copies a range of this AUX area, for a caller that holds it.
    pub fn copy_range(self, aux: &[AtomicU64], range: AuxRange, to: &mut [u64]) {
        copy(self, aux, range, to);
    }
}

/// Copies a range. Returns whether the copy is intact, that is, was not overwritten meanwhile.
pub(crate) fn copy(ring: Ring<'_>, aux: &[AtomicU64], range: AuxRange, to: &mut [u64]) -> bool {
    let mask = (aux.len() as u64).wrapping_sub(1);
    for (to, at) in to.iter_mut().zip(range.at / 8..) {
        // Relaxed: A was acquired, and newer words are discarded.
        let word = aux.get((at & mask) as usize);
        *to = word.map_or(0, |word| word.load(Ordering::Relaxed));
    }
    is_whole(ring, range)
}

/// Returns whether a range that was read is still intact.
pub(crate) fn is_whole(ring: Ring<'_>, range: AuxRange) -> bool {
    fence(Ordering::Acquire); // F, pairs with E
    ring.header.aux.tail.load(Ordering::Relaxed) <= range.at
}

/// Makes space for the words of a range, if there is memory: a file may claim any size.
pub(crate) fn space_for(
    range: AuxRange,
    space: &mut alloc::vec::Vec<u64>,
) -> Result<(), ReadError> {
    let words = range.len.div_ceil(8);
    space.clear();
    let bytes = range.len as u64;
    space.try_reserve_exact(words).map_err(|_| ReadError::OutOfMemory { bytes })?;
    space.resize(words, 0);
    Ok(())
}

/// Returns the loss of a record's payload, where the record itself is present.
pub(crate) fn lost_payload(frame: &Frame) -> Lost {
    Lost { pos: frame.pos, records: 1, bytes: frame.size, cause: Cause::Lapped, at_end: false }
}

/// Returns the `data_tail` to wait for until there may be a range for a payload. Which tail frees
/// enough is unknown, so this is the next one.
pub(crate) fn tail_for(ring: Ring<'_>, size: u64, pos: u64, len: usize) -> u64 {
    // This one first: the consumer stores it last. (D)
    let data_tail = ring.header.data_tail.load(Ordering::Acquire);
    let tail = ring.header.aux.tail.load(Ordering::Acquire);
    let lacks = pos.wrapping_add(range_size(len)).wrapping_sub(tail) > size;
    if lacks { data_tail.saturating_add(RECORD_ALIGN.into()) } else { 0 }
}
