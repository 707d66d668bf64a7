//! The end of reservations that dead owners left open, and the advance of `data_head` over records that have ended.
//!
//! While the lock is held, other producers can do nothing, and lose records if this takes long. Therefore work
//! under the lock passes a number of records that does not depend on the ring's size
//! ([`STEPS`]). The rest is done without the lock, at the next hold of it, or when it blocks a
//! producer.

use crate::record::{RecordAt, Walk};
use crate::recount::totals_interval;
use crate::shared::slot::{self, NOWHERE};
use crate::view::{Shared, System};
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{Hole, RecordWord};

/// Moves `data_head` over the records that have ended, and returns its new position.
///
/// Called after a full fence (O) by a producer that ends a reservation, or publishes behind an open
/// reservation. One side sees the other, so `data_head` is always before an open reservation or at the end.
///
/// There is no ABA: a position is never reused, and the words that led from `head` on remain until
/// `head` has passed them, so a swap that succeeds was right. A swap that fails proves nothing: the walk may have
/// been overtaken by a whole ring, and have read newer words in their place. The walk is
/// then repeated, because the process that moved the head may have stopped at this caller's record, which no other process
/// would pass.
///
/// It takes at most two steps and a swap for each record of a ring, regardless of other processes' stores to
/// the page:
///
/// * It goes no further than the first load of `producer_pos`. Later reservations end after
///   this caller's end (O), so the advance after their end finds this caller's end, and passes it.
/// * If another process has moved the head, this continues from there. It passes no more than a ring a second time.
/// * The head of a sound ring never decreases. If it does, this returns it, and the next
///   reservation that looks for room reports damage.
#[inline(always)]
pub(crate) fn advance(at: Shared<'_>) -> u64 {
    advance_by::<{ usize::MAX }>(at)
}

/// The most records that one piece of work under the lock passes.
pub(crate) const STEPS: usize = 256;

/// Like [`advance`], over [`STEPS`] records and no further. The caller advances when it has released
/// the lock.
pub(crate) fn advance_under_lock(at: Shared<'_>) -> u64 {
    advance_by::<STEPS>(at)
}

#[inline(always)]
fn advance_by<const MOST: usize>(at: Shared<'_>) -> u64 {
    let header = at.ring.header;
    let mut head = header.data_head.load(Ordering::SeqCst); // O, and B
    let end = header.shared.producer_pos.load(Ordering::SeqCst); // O
    let (mut steps, mut again) = (0, 0);
    loop {
        if head >= end || end - head >= at.ring.data_size() || steps == MOST {
            return head; // nothing to do, or invalid
        }
        // All records before this one have ended.
        let mut to = head;
        let upto = end.min(head.saturating_add(totals_interval(at.ring)));
        let load = |pos| at.ring.word(pos).load(Ordering::SeqCst); // N, O
        let mut records = Walk { pos: head, end, load };
        while to < upto
            && steps != MOST
            && let Some(Ok(record)) = records.next()
            && record.word.owner().is_none()
        {
            to = record.end();
            if MOST != usize::MAX {
                steps += 1;
            }
        }
        if to == head {
            return head;
        }
        // A, pairs with B: also passes on what N acquired of the records' own producers.
        match header.data_head.compare_exchange(head, to, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => head = to,
            Err(now) if now < head => return now,
            // O, and B
            Err(now) => {
                again += to.saturating_sub(now);
                if again > at.ring.data_size() {
                    return now;
                }
                head = now;
            }
        }
    }
}

/// Repairs the state of an owner that died under the lock. The repair may be interrupted
/// anywhere: the next owner repeats it.
///
/// These need no repair: bytes and headers beyond `producer_pos` belong to no record; a sequence latch
/// has one whole copy; a tail mark without its tail does not fit `data_tail`.
pub(crate) fn repair(at: Shared<'_>, dead: u32) {
    let line = &at.ring.header.shared;
    // Its counts may be partly changed.
    line.running_stale.store(1, Ordering::Relaxed);
    // The owner may have published a record by `data_head`, and not moved `producer_pos` after it.
    let head = at.ring.header.data_head.load(Ordering::Acquire); // B
    if at.producer_pos() < head {
        line.producer_pos.store(head, Ordering::Release); // O
    }
    if (dead as usize) < at.slots.len() {
        // Its reservations further on are ended when they block a producer.
        sweep(at, dead, at.ring.head());
    }
}

/// Ends a dead producer's reservations among the next [`STEPS`] records from `from` on, under the
/// lock: makes a hole of each, counted as reclaimed. Returns the position to continue from, if
/// there is more. The caller advances when it has released the lock.
pub(crate) fn sweep(at: Shared<'_>, dead: u32, from: u64) -> Option<u64> {
    let slot = &at.slots[dead as usize];
    // Its counts first: the words of the records changed below show whether the newest of them are
    // true.
    slot::settle(at, dead, &slot.written);
    slot::settle(at, dead, &slot.losses);
    let mut figures = slot::Losses::load(at, dead);
    let (mut swept, mut rest) = (0, Some(from));
    let mut records = at.unpublished_from(at.ring.head(), from);
    for _ in 0..STEPS {
        // A damaged record ends the loop: making room reports it.
        let Some(Ok(record)) = records.next() else {
            rest = None;
            break;
        };
        let RecordAt { pos, word, .. } = record;
        rest = Some(record.end());
        if word.owner() == Some(dead) {
            // Batches or shorter records that it may have begun do not count.
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
    fence(Ordering::SeqCst); // O, like at every end
    advance_under_lock(at);
    rest
}

/// How often a walk without the lock restarts. A walk that is overtaken so often has nothing to find, because the head
/// stops at a dead producer's reservation.
const OVERTAKEN: u32 = if cfg!(loom) { 2 } else { 100 };

/// Returns the first open reservation from `from` on whose owner is dead, and the owner's slot.
/// Without the lock: the caller checks it again.
pub(crate) fn next_dead<P: System>(
    at: Shared<'_>,
    liveness: &P,
    from: u64,
) -> Option<(RecordAt, u32)> {
    for _ in 0..OVERTAKEN {
        let from = from.max(at.ring.head());
        let found = find_dead(at, liveness, from);
        // F, pairs with E: if the tail has passed `from`, the walk may have read newer words in its records' place.
        if at.ring.tail() <= from {
            return found;
        }
    }
    None
}

fn find_dead<P: System>(at: Shared<'_>, liveness: &P, from: u64) -> Option<(RecordAt, u32)> {
    let mut alive = None;
    // A damaged record cannot be ended.
    for record in at.unpublished_from(at.ring.head(), from).map_while(Result::ok) {
        if let Some(owner) = record.word.owner()
            && alive != Some(owner)
            && (owner as usize) < at.slots.len()
        {
            if !liveness.is_alive(owner) {
                return Some((record, owner));
            }
            alive = Some(owner);
        }
    }
    None
}

/// Stores the time since which the head has not moved, for observers of the ring.
pub(crate) fn note_stuck<P: System>(at: Shared<'_>, liveness: &P, head: u64) {
    let line = &at.ring.header.shared;
    // Relaxed: hints for people.
    if line.stuck_pos.load(Ordering::Relaxed) != head
        || line.stuck_since_ns.load(Ordering::Relaxed) == 0
    {
        line.stuck_since_ns.store(liveness.now_ns(), Ordering::Relaxed);
        line.stuck_pos.store(head, Ordering::Relaxed);
    }
}
