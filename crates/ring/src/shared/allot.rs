//! The ranges of the AUX area that a producer of a shared ring allots, under the lock.

use crate::aux_area;
use crate::record::RecordAt;
use crate::reserve::{Refusal, Site};
use crate::shared::locked_room::LockedRoom;
use crate::shared::own_open::OwnOpen;
use crate::shared::running;
use crate::shared::sweep::{STEPS, sweep};
use crate::time::rise;
use crate::view::{Shared, System};
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{Policy, RecordType, RecordWord, aux_record, range_size};

/// The state of the AUX area that a producer of a shared ring knows.
#[derive(Debug)]
pub(crate) struct Allotted {
    /// Size of the area in bytes; 0 for a ring without an area.
    pub(super) size: u64,
    /// End of this producer's last range: its next range does not begin before it.
    floor: u64,
    pub(super) own_open: OwnOpen,
}

impl Allotted {
    /// Creates the state of an area of so many bytes, without ranges.
    pub(crate) fn new(size: u64) -> Self {
        Allotted { size, floor: 0, own_open: OwnOpen::new(size) }
    }

    /// Reserves space for the record of a payload that is not too long, and for the payload: left
    /// open, under the lock. Adds a timestamp if a time is given.
    pub(crate) fn reserve<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        room: &mut LockedRoom,
        kind: RecordType,
        len: usize,
        now: Option<u64>,
    ) -> Result<Site, Refusal> {
        let (floor, policy, me, need) =
            (room.floor, room.policy, room.owner.index, range_size(len));
        let start = room.begin(&at, liveness, RecordWord::aux().size())?;
        let range = match self.find(at, liveness, policy, me, start, need) {
            Ok(range) => range,
            Err(refusal) => {
                // Nothing is reserved: the next reservation may begin at the end of the last.
                room.floor = floor;
                room.release(at.ring.header, at.ring.data, at.slots);
                return Err(refusal);
            }
        };
        let site = Site::with_aux(start, range);
        let time = now.map_or(0, |now| rise(at.ring, now));
        site.write_body(at.ring, kind, len, time, policy);
        running::open(at, start, RecordWord::busy_aux(me));
        room.own_open.add(start, start);
        self.own_open.add(start, range);
        // After `producer_pos`: a reader that sees the range sees that something is reserved (O).
        // Under the lock.
        at.ring.header.aux.head.store(range + need, Ordering::Release);
        room.owner.unlock(at);
        Ok(site)
    }

    /// Finds where the next range begins, and makes room for it: for the producer in slot `me`,
    /// whose record begins at `start`.
    fn find<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        policy: Policy,
        me: u32,
        start: u64,
        need: u64,
    ) -> Result<u64, Refusal> {
        // This producer's reservations may be open: the page is not trusted to protect them.
        let (head, tail) = aux_area::positions(at.ring, self.size)
            .filter(|(head, _)| *head >= self.floor)
            .ok_or(Refusal::Corrupt { tail: at.ring.header.aux.tail.load(Ordering::Relaxed) })?;
        if head + need - tail > self.size {
            if policy == Policy::Drop {
                return Err(Refusal::Full);
            }
            let to = head + need - self.size;
            close_ranges(at, liveness, me, start, to)?;
            // Relaxed: the fence orders it before the stores over old ranges.
            at.ring.header.aux.tail.store(to, Ordering::Relaxed);
        }
        // `aux_tail` has passed an open reservation, or seems to.
        if head + need > self.own_open.limit() {
            return Err(Refusal::Corrupt { tail });
        }
        // E, pairs with F: if another process moved `aux_tail` over the bytes that are overwritten now, D or M
        // made the move visible here, and this fence passes it on.
        fence(Ordering::Release);
        self.floor = head + need;
        Ok(head)
    }
}

/// Makes sure that no reservation before `start` is open whose range begins before `to`: ends the open
/// reservations of dead producers. An open range is never overwritten. Behind a reservation that holds up more
/// than [`STEPS`] records, no producer gets a range.
fn close_ranges<P: System>(
    at: Shared<'_>,
    liveness: &P,
    me: u32,
    start: u64,
    to: u64,
) -> Result<(), Refusal> {
    let head = at.ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
    for (nth, record) in at.records(head, start).enumerate() {
        if nth == STEPS {
            let Some(slot) = at.word_at(head).owner() else {
                return Err(Refusal::Pending { slot: me });
            };
            if (slot as usize) < at.slots.len() && slot != me && !liveness.is_alive(slot) {
                sweep(at, slot, head);
            }
            return Err(Refusal::Pending { slot });
        }
        let RecordAt { pos, word, .. } =
            record.map_err(|bad| Refusal::Corrupt { tail: bad.pos })?;
        let Some(slot) = word.owner().filter(|_| word.is_busy_aux()) else { continue };
        // Relaxed: M orders it; it does not change while the reservation is open.
        let range = at.ring.word(pos + 8 + 8 * aux_record::OFFSET as u64).load(Ordering::Relaxed);
        if range < to {
            if (slot as usize) >= at.slots.len() || slot == me || liveness.is_alive(slot) {
                return Err(Refusal::Pending { slot });
            }
            sweep(at, slot, pos);
        }
    }
    Ok(())
}
