//! What is done about owners that died, and how `data_head` goes over what has ended.

use crate::record::{Record, Walk};
use crate::recount::totals_interval;
use crate::shared::slot::{self, NOWHERE};
use crate::view::{Liveness, Shared};
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{Hole, RecordWord};

/// Moves `data_head` over every record that has ended, and returns where it is then.
///
/// Called after a full fence (O) by whoever ends a reservation, or publishes behind an open one: one
/// side sees the other, so `data_head` always stands before an open reservation or at the end.
///
/// There is no ABA: a position never comes again, and the words that led from `head` on stand until
/// `head` has passed them, so a swap that succeeds was right.
pub(crate) fn advance(at: Shared<'_>) -> u64 {
    let header = at.ring.header;
    loop {
        let head = header.data_head.load(Ordering::SeqCst); // O, and B
        let end = header.shared.producer_pos.load(Ordering::SeqCst); // O
        if head >= end || end - head >= at.ring.data_size() {
            return head; // nothing to do, or a lie
        }
        let upto = end.min(head.saturating_add(totals_interval(at.ring)));
        let mut to = head;
        let load = |pos| at.ring.word(pos).load(Ordering::SeqCst); // N, O
        let mut records = Walk { pos: head, end, load };
        while to < upto
            && let Some(Ok(record)) = records.next()
            && record.word.owner().is_none()
        {
            to = record.end();
        }
        if to == head {
            return head;
        }
        // A, pairs with B: and passes on what N acquired of the records' own producers.
        let _ = header.data_head.compare_exchange(head, to, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// Puts in order what an owner that died under the lock left half done. May itself be cut
/// short anywhere: its heir does it again.
///
/// What needs no repair: bytes and headers beyond `producer_pos` are nobody's; a latch has one
/// whole copy; a tail mark without its tail does not fit `data_tail`.
pub(crate) fn repair(at: Shared<'_>, dead: u32) {
    let line = &at.ring.header.shared;
    // Its counts may be half changed.
    line.running_stale.store(1, Ordering::Relaxed);
    // It published a record by `data_head` and had not moved `producer_pos` after it.
    let head = at.ring.header.data_head.load(Ordering::Acquire); // B
    if at.producer_pos() < head {
        line.producer_pos.store(head, Ordering::Release); // O
    }
    if (dead as usize) < at.slots.len() {
        sweep(at, dead);
    }
}

/// Ends what a dead producer left open, under the lock: each of its reservations becomes a
/// hole, counted as reclaimed. Returns how many.
pub(crate) fn sweep(at: Shared<'_>, dead: u32) -> u64 {
    let slot = &at.slots[dead as usize];
    // First its counts: whether the newest of them are true is told by the words of records
    // that are changed below.
    slot::settle(at, dead, &slot.written);
    slot::settle(at, dead, &slot.losses);
    let mut figures = slot::Losses::load(at, dead);
    let mut swept = 0;
    // What is damaged ends it: whoever makes room says so.
    for Record { pos, word, .. } in at.unpublished(at.ring.head()).map_while(Result::ok) {
        if word.owner() == Some(dead) {
            // No batch or shorter record that it may have begun counts.
            at.ring.header.shared.running_stale.store(1, Ordering::Relaxed);
            figures.reclaimed.add(word.size());
            figures.store(at, dead, pos);
            let hole = RecordWord::nop(word.size(), Hole::Reclaimed);
            at.ring.word(pos).store(hole.raw(), Ordering::Release); // N
            swept += 1;
        }
    }
    if swept > 0 {
        figures.store(at, dead, NOWHERE);
    }
    fence(Ordering::SeqCst); // O, as at every end
    advance(at);
    swept
}

/// The slot of the first open reservation whose owner is dead.
pub(crate) fn next_dead<P: Liveness>(at: Shared<'_>, liveness: &P) -> Option<u32> {
    let mut alive = None;
    // What is damaged nobody can end.
    for record in at.unpublished(at.ring.head()).map_while(Result::ok) {
        if let Some(owner) = record.word.owner()
            && alive != Some(owner)
            && (owner as usize) < at.slots.len()
        {
            if !liveness.is_alive(owner) {
                return Some(owner);
            }
            alive = Some(owner);
        }
    }
    None
}

/// Notes since when the head has not moved, for who looks at the ring.
pub(crate) fn note_stuck<P: Liveness>(at: Shared<'_>, liveness: &P, head: u64) {
    let line = &at.ring.header.shared;
    // Relaxed: hints for people.
    if line.stuck_pos.load(Ordering::Relaxed) != head
        || line.stuck_since_ns.load(Ordering::Relaxed) == 0
    {
        line.stuck_since_ns.store(liveness.now_ns(), Ordering::Relaxed);
        line.stuck_pos.store(head, Ordering::Relaxed);
    }
}
