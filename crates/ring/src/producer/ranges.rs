//! The ranges of the AUX area that the exclusive producer allots.

use crate::aux_area::positions;
use crate::record::{Bounds, Corrupt, RecordShape};
use crate::reserve::Refusal;
use crate::view::Ring;
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{Layout, Lead, Policy, RANGE_ALIGN};

/// The size of the AUX area, and the exclusive producer's positions in it.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// Bytes of the area; 0 for a ring without an area.
    pub(super) size: u64,
    /// End of the last range that is committed.
    pub(super) pos: u64,
    /// `aux_tail` when last loaded or stored.
    tail: u64,
}

impl Ranges {
    /// Takes over from the last producer. It may have died after it published a record and before
    /// it stored the end of the range. Such a range belongs to the last of the records after the
    /// totals.
    pub(crate) fn attach(
        ring: Ring<'_>,
        layout: &Layout,
        from: u64,
        head: u64,
    ) -> Result<Self, Corrupt> {
        let size = layout.aux_size;
        if size == 0 {
            return Ok(Ranges { size, pos: 0, tail: 0 });
        }
        let line = &ring.header.aux;
        let shape = RecordShape { lead: Lead::None, aux: Bounds { size, floor: None } };
        let mut end = line.head.load(Ordering::Relaxed); // as in `positions`
        for record in ring.records(from, head) {
            let record = record?;
            if shape.is_large(record.word)
                && let Some((_, range)) = shape.large(record, ring.body(record.pos))
            {
                end = end.max(range.end());
            }
        }
        line.head.store(end, Ordering::Release); // B of a reader that checks whether all is read
        let (pos, tail) = positions(ring, size).ok_or(Corrupt { pos: head })?;
        Ok(Ranges { size, pos, tail })
    }

    /// Returns the `aux_tail` that makes room for a range of `need` bytes, at most the size of the area.
    pub(crate) fn find_room(
        &self,
        ring: Ring<'_>,
        policy: Policy,
        need: u64,
    ) -> Result<u64, Refusal> {
        let end = self.pos + need;
        if end - self.tail <= self.size {
            return Ok(self.tail);
        }
        if policy == Policy::Overwrite {
            return Ok(end - self.size);
        }
        let tail = ring.header.aux.tail.load(Ordering::Acquire); // D, pairs with C
        if !tail.is_multiple_of(RANGE_ALIGN) || !(self.tail..=self.pos).contains(&tail) {
            return Err(Refusal::Corrupt { tail });
        }
        if end - tail > self.size { Err(Refusal::Full) } else { Ok(tail) }
    }

    /// Makes the room that [`Ranges::find_room`] found.
    pub(crate) fn make_room(&mut self, ring: Ring<'_>, policy: Policy, tail: u64) {
        if tail == self.tail {
            return;
        }
        self.tail = tail;
        if policy == Policy::Overwrite {
            // Relaxed: the fence orders it before the stores over the old range.
            ring.header.aux.tail.store(tail, Ordering::Relaxed);
        }
        fence(Ordering::Release); // E, pairs with F
    }

    /// Publishes the end of the last range, after `data_head` like the kernel. A producer
    /// killed between the two stores leaves no range without a record.
    pub(crate) fn store_head(&self, ring: Ring<'_>) {
        ring.header.aux.head.store(self.pos, Ordering::Release);
    }
}
