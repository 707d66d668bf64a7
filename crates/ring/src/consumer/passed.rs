//! The ranges of the AUX area that the consumer of a drop ring has passed, and their release.

use crate::counters::Count;
use crate::record::{Bounds, Next, Place, RecordShape, step};
use crate::view::{POS_MAX, Ring, sane};
use perfring_abi::atomic::Ordering;
use perfring_abi::{Lead, RANGE_ALIGN};

/// The state of the AUX area that the consumer of a drop ring knows.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    size: u64,
    /// End of the last range that was read.
    pub(super) end: u64,
    /// The value of `aux_tail`.
    released: u64,
    /// For a shared ring, loaded at a release: `aux_head`, and the end of the reservations at that moment.
    seen: (u64, u64),
}

impl Passed {
    pub(crate) fn attach(ring: Ring<'_>, size: u64) -> Self {
        // Relaxed: stored by the last consumer, whose lock this consumer holds.
        let tail = if size == 0 { 0 } else { ring.header.aux.tail.load(Ordering::Relaxed) };
        // An invalid position becomes damage at the first range that is read.
        let tail = if tail.is_multiple_of(RANGE_ALIGN) { tail.min(POS_MAX) } else { POS_MAX };
        Passed { size, end: tail, released: tail, seen: (0, 0) }
    }

    /// Returns whether the ring has an AUX area.
    #[inline]
    pub(crate) fn exists(&self) -> bool {
        self.size != 0
    }

    /// Returns the limits of ranges that were not passed.
    #[inline]
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { size: self.size, floor: Some(self.released) }
    }

    /// Passes the ranges that end here or before.
    #[inline]
    pub(crate) fn pass_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Returns whether enough was read for a release.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.end - self.released > self.size / 8
    }

    /// Returns how far a dead consumer had already released ranges from `cursor` on, and the
    /// records up to there.
    ///
    /// The last consumer may have died after it stored `aux_tail` and before it stored `data_tail`.
    /// It had read everything up to the last record whose range it released. These ranges may
    /// hold other payloads by now, so their records are not returned again.
    pub(crate) fn already_released(&self, ring: Ring<'_>, cursor: u64) -> Option<(u64, Count)> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if self.size == 0 || self.released == 0 || !sane(ring, head, cursor) {
            return None;
        }
        // Only positions and sizes of records are needed, not their timestamps.
        let shape = RecordShape { lead: Lead::None, aux: Bounds { size: self.size, floor: None } };
        let (mut pos, mut count, mut released) = (cursor, Count::default(), None);
        // A producer may have died before it stored this.
        let mut aux_head = ring.header.aux.head.load(Ordering::Acquire);
        // An invalid record is damage to the reader that comes to it.
        while let Ok(Some((found, after))) = step(ring, shape, pos, head) {
            match found {
                // Not by the range's end: an empty range may begin, and end, at `aux_tail`.
                Next::Record(Place::Aux(_, range)) if range.at >= self.released => {
                    break;
                }
                Next::Record(place) => {
                    count.add(place.frame().size);
                    if let Some(range) = place.range() {
                        released = Some((after, count));
                        aux_head = aux_head.max(range.end());
                    }
                }
                Next::Lost(_) => {}
            }
            pos = after;
        }
        // A range that was never written was not released. An `aux_tail` after it is damage, and the records
        // are returned.
        released.filter(|_| self.released <= aux_head)
    }

    /// Releases the ranges that belong to everything before `pos`. Called before `data_tail` is stored, so
    /// that a producer that waits for `data_tail` finds both.
    #[inline]
    pub(crate) fn release(&mut self, ring: Ring<'_>, pos: u64, range_end: u64) {
        let end = self.before(ring, pos, range_end);
        if end > self.released {
            self.released = end;
            ring.header.aux.tail.store(end, Ordering::Release); // C, pairs with D
        }
    }

    /// Returns the end of the ranges that are released together with everything before `pos`: ranges
    /// that were read, up to `range_end`, and ranges that dead producers and shortened commits left, which no
    /// record describes.
    ///
    /// A range is stored in `aux_head` after its reservation is in `producer_pos`. Once the
    /// consumer has passed a `producer_pos` that was loaded after an `aux_head`, everything before
    /// that `aux_head` is therefore unused. This is checked only before each store of `data_tail`, because a producer
    /// that waits for a range waits for `data_tail`.
    #[cold]
    fn before(&mut self, ring: Ring<'_>, pos: u64, range_end: u64) -> u64 {
        let head = ring.header.aux.head.load(Ordering::Acquire);
        let upto = ring.header.shared.producer_pos.load(Ordering::Acquire);
        let Passed { size, released, seen, .. } = *self;
        // The exclusive producer leaves nothing, and does not store `producer_pos`. Nonsensical
        // positions are ignored.
        let sane = upto != 0
            && head.is_multiple_of(RANGE_ALIGN)
            && head >= released
            && head - released <= size;
        let now = if sane { (head, upto) } else { (0, 0) };
        let passed = |(head, upto): (u64, u64)| if pos >= upto { head } else { 0 };
        let end = range_end.max(passed(seen)).max(passed(now));
        if pos >= seen.1 {
            self.seen = now;
        }
        self.pass_to(end);
        end
    }
}
