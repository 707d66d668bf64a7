//! The ranges of the AUX area that the consumer of a drop ring has passed, and hands back.

use crate::counters::Count;
use crate::record::{Bounds, Found, Shape, step};
use crate::view::{POS_MAX, Ring, sane};
use perfring_abi::RANGE_ALIGN;
use perfring_abi::atomic::Ordering;

/// What the consumer of a drop ring knows of the AUX area.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    size: u64,
    /// End of the last range that was read.
    pub(super) end: u64,
    /// What `aux_tail` holds.
    released: u64,
    /// Of a shared ring, seen at a release: `aux_head`, and where what was reserved by then ends.
    seen: (u64, u64),
}

impl Passed {
    pub(crate) fn attach(ring: Ring<'_>, size: u64) -> Self {
        // Relaxed: the last consumer's, whose lock this one has.
        let tail = if size == 0 { 0 } else { ring.header.aux.tail.load(Ordering::Relaxed) };
        // What no consumer leaves is damage to the first range that is read.
        let tail = if tail.is_multiple_of(RANGE_ALIGN) { tail.min(POS_MAX) } else { POS_MAX };
        Passed { size, end: tail, released: tail, seen: (0, 0) }
    }

    /// Whether the ring has an AUX area.
    #[inline(always)]
    pub(crate) fn exists(&self) -> bool {
        self.size != 0
    }

    /// Where ranges can begin and end that were not passed.
    #[inline(always)]
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { size: self.size, floor: Some(self.released) }
    }

    /// Passes what ends here.
    #[inline(always)]
    pub(crate) fn pass_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Whether so much was read that it goes back to the producer.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.end - self.released > self.size / 8
    }

    /// The last consumer may have died after it stored `aux_tail` and before it stored `data_tail`.
    /// It had read all up to the last record whose range it gave up, and those ranges may be
    /// another payload's by now: they do not come again. How far from `cursor` that goes, and the
    /// records up to there.
    pub(crate) fn write_touched(&self, ring: Ring<'_>, cursor: u64) -> Option<(u64, Count)> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if self.size == 0 || self.released == 0 || !sane(ring, head, cursor) {
            return None;
        }
        // Where a record is and what it takes: without time, whose stamp nobody asks for.
        let shape = Shape { timed: false, aux: Bounds { size: self.size, floor: None } };
        let (mut pos, mut count, mut handed) = (cursor, Count::default(), None);
        // A producer may have died before it stored this.
        let mut aux_head = ring.header.aux.head.load(Ordering::Acquire);
        // What is no record is damage to who reads it.
        while let Ok(Some((found, after))) = step(ring, shape, pos, head) {
            match found {
                Found::Record(frame) => count.add(frame.size),
                // Not by its end: one without a byte may begin, and end, at `aux_tail`.
                Found::Large(_, range) if range.at >= self.released => break,
                Found::Large(frame, range) => {
                    count.add(frame.size);
                    handed = Some((after, count));
                    aux_head = aux_head.max(range.end());
                }
                Found::Lost(_) => {}
            }
            pos = after;
        }
        // What was never written nobody has handed back: that `aux_tail` is damage, and they come.
        handed.filter(|_| self.released <= aux_head)
    }

    /// Hands back what goes with everything before `pos`: before `data_tail`, so that whoever waits
    /// for that finds both.
    #[inline]
    pub(crate) fn write_touch(&mut self, ring: Ring<'_>, pos: u64, range_end: u64) {
        let end = self.before(ring, pos, range_end);
        if end > self.released {
            self.released = end;
            ring.header.aux.tail.store(end, Ordering::Release); // C, pairs with D
        }
    }

    /// Where the ranges end that go back with everything before `pos`: those read, up to `range_end`,
    /// and those that dead producers and shortened commits left, which no record tells of.
    ///
    /// A range is stored in `aux_head` after its reservation is in `producer_pos`. So of an
    /// `aux_head` seen before some `producer_pos`, everything is nobody's once the consumer has passed
    /// that. Looked at before each store of `data_tail` alone: who waits for a range waits for that.
    #[cold]
    fn before(&mut self, ring: Ring<'_>, pos: u64, range_end: u64) -> u64 {
        let head = ring.header.aux.head.load(Ordering::Acquire);
        let upto = ring.header.shared.producer_pos.load(Ordering::Acquire);
        let Passed { size, released, seen, .. } = *self;
        // The exclusive producer leaves nothing, and does not say where it is. Nor is nonsense asked.
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
