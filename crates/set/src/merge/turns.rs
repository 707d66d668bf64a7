//! Whose turn it is, and when who is looked at.

use super::{FILLS, Merge, Place, SourceId};
use crate::heap::Next;
use crate::looks::{Looks, Seat};
use perfring_consumer::Front;

/// A source that is out of items is looked at again at once, unless that was so short a time ago:
/// then by its turn. ns.
const NEAR: u64 = 20_000;
/// More than [`FILLS`] for each ring whose items wait, ns.
const FILLS_EACH: u64 = 2_000;

impl Merge {
    pub(super) fn set_place(&mut self, slot: u32, place: Place) {
        if let Some(Some(entry)) = self.entries.get_mut(slot as usize) {
            entry.place = place;
        }
    }

    pub(super) fn end_turn(&mut self) {
        (self.current, self.has_front, self.below) = (None, false, 0);
    }

    /// Whether something can be given, or told.
    pub(super) fn is_ready(&mut self) -> bool {
        self.settle();
        let first = self.heap.first().map(Next::time);
        let time = first.into_iter().chain(self.has_front.then_some(self.time)).min();
        !self.failed.is_empty() || time.is_some_and(|time| self.has_come(time))
    }

    /// Whether it can be given what has this time, and nothing before it.
    #[inline]
    fn has_come(&self, time: u64) -> bool {
        time <= self.horizon() || time > self.ceiling
    }

    #[inline]
    fn horizon(&self) -> u64 {
        self.looks.horizon().max(self.hurry)
    }

    /// Makes the source with the least the current one. Returns whether its time has come.
    #[inline(never)]
    pub(super) fn choose(&mut self) -> bool {
        (self.has_front && self.failed.is_empty() && self.take_turns()) || self.choose_anew()
    }

    #[inline(never)]
    fn choose_anew(&mut self) -> bool {
        if !self.failed.is_empty() {
            self.below = 0;
            return false;
        }
        self.settle();
        if self.take_turns() {
            return true;
        }
        let now = self.now();
        let more = self.look_around(now) && self.failed.is_empty() && self.take_turns();
        more || (self.is_pressed(now) && self.failed.is_empty() && self.take_turns())
    }

    /// A current source that is out of items is looked at again, or goes to rest. Returns whether it
    /// is still the current one.
    #[inline]
    pub(super) fn settle(&mut self) -> bool {
        let Some(slot) = self.current.filter(|_| !self.has_front) else {
            return self.has_front;
        };
        self.end_turn();
        let now = self.now();
        // Nothing may be given beyond the time of a look that found all that is taken.
        let looked = self.entries.get(slot as usize).and_then(Option::as_ref);
        let near = looked.is_some_and(|entry| {
            entry.looked >= self.hurry && now.saturating_sub(entry.looked) < NEAR
        });
        if !near
            && let Some(time) = self.look_at(slot, now)
            && !self.invalid(slot, time, now)
        {
            (self.current, self.has_front, self.time) = (Some(slot), true, time);
            return true;
        }
        self.rest(slot);
        false
    }

    /// Whether what a look found next in a source, beside which there are others, cannot be of its time:
    /// it was published more than the delay later, or it is of the future. (Of an observer that was
    /// lapped in a turn of more than the delay it may have been published before, and comes late.)
    fn invalid(&mut self, slot: u32, time: u64, now: u64) -> bool {
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return false };
        let (from, at) = entry.since;
        let pos = entry.source.resume_point().pos;
        if pos < from && from != u64::MAX {
            return false;
        }
        entry.since = (pos.saturating_add(entry.source.fill().unread), now);
        let invalid = time < at.saturating_sub(2 * self.looks.half()) || time > self.ceiling;
        invalid && self.sources().nth(1).is_some()
    }

    /// Of the current source and the first of the others, the lesser one takes its turn, if its
    /// time has come.
    #[inline]
    fn take_turns(&mut self) -> bool {
        let slot = match (self.current, self.heap.first()) {
            (Some(slot), Some(first)) => {
                let next = Next::new(self.time, slot);
                if first < next {
                    self.heap.replace_first(next);
                    (self.current, self.time) = (Some(first.slot()), first.time());
                    first.slot()
                } else {
                    slot
                }
            }
            (None, Some(first)) => {
                self.heap.pop();
                (self.current, self.has_front) = (Some(first.slot()), true);
                self.time = first.time();
                first.slot()
            }
            (Some(slot), None) => slot,
            (None, None) => return false,
        };
        if !self.has_come(self.time) {
            self.below = 0;
            return false;
        }
        // The turn goes on while it is before the next, the horizon and the future.
        let end = self.horizon().min(self.ceiling).saturating_add(1);
        self.below = self
            .heap
            .first()
            .map_or(end, |next| end.min(next.time().saturating_add(u64::from(slot < next.slot()))));
        true
    }

    /// Looks at one. Returns the time of what is next in it.
    pub(super) fn look_at(&mut self, slot: u32, now: u64) -> Option<u64> {
        let entry = self.entries.get_mut(slot as usize)?.as_mut()?;
        self.figures.looks += 1;
        entry.looked = now;
        match entry.source.peek() {
            Ok(Front::Empty) => None,
            Ok(Front::Timestamped(timestamp)) => Some(timestamp),
            Ok(Front::Plain) => Some(now),
            Ok(Front::Lost) => Some(entry.last),
            // Nobody can wait for what is next here: it is found out by taking.
            Ok(Front::More) => Some(entry.last),
            Err(error) => {
                entry.group = u8::MAX;
                self.failed.push_back((SourceId { slot, turn: entry.turn }, error));
                None
            }
        }
    }

    /// A source that has nothing waits for the next look of its group; one that has failed for none.
    pub(super) fn rest(&mut self, slot: u32) {
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return };
        entry.place = match entry.group {
            u8::MAX => Place::Finished,
            group => Place::Idle(self.looks.join(slot, group, entry.looked)),
        };
    }

    pub(super) fn leave(&mut self, seat: Seat) {
        if let Some(moved) = self.looks.leave(seat) {
            self.set_place(moved, Place::Idle(seat));
        }
    }

    /// An idle source has something again.
    pub(super) fn rouse(&mut self, seat: Seat, time: u64) {
        let Some(slot) = self.looks.slot(seat.group.into(), seat.at as usize) else { return };
        self.leave(seat);
        self.set_place(slot, Place::Active);
        self.heap.push(Next::new(time, slot));
        self.looks.set_horizon();
        self.below = 0;
    }

    /// Whether a ring fills up while its items wait. If so, nothing waits that was stamped until now.
    pub(super) fn is_pressed(&mut self, now: u64) -> bool {
        if now < self.fills_at {
            return false;
        }
        let current = self.current.filter(|_| self.has_front);
        let waiting = self.heap.all().iter().map(|next| next.slot()).chain(current);
        let (mut eighths, mut count) = (0, 0);
        for entry in waiting.filter_map(|slot| self.entries.get(slot as usize)?.as_ref()) {
            let fill = entry.source.fill();
            // What is held too long is not for want of being given.
            if fill.unread >= fill.size / 8 {
                let taken = fill.unread.saturating_add(fill.held);
                eighths = eighths.max(taken.saturating_mul(8) / fill.size.max(1));
            }
            count += 1;
        }
        let after = match eighths {
            0 => self.fills_after * 2,
            1 => self.fills_after,
            _ => self.fills_after / 2,
        };
        let least = FILLS + count * FILLS_EACH;
        self.fills_after = after.clamp(least, self.looks.half().max(least));
        self.fills_at = now.saturating_add(self.fills_after);
        if eighths < 4 {
            return false;
        }
        self.look_round(now, Looks::all);
        self.hurry = now;
        self.figures.hurried += 1;
        true
    }

    /// Looks at the sources of all groups that are due. Returns whether any was.
    pub(super) fn look_around(&mut self, now: u64) -> bool {
        self.look_round(now, Looks::due)
    }

    fn look_round(&mut self, now: u64, which: impl Fn(&mut Looks, usize, u64) -> usize) -> bool {
        let mut any = false;
        // Slow ones first: those that become slower in this round are not looked at twice.
        for group in 0..self.looks.count() {
            let mut at = which(&mut self.looks, group, now);
            any |= at > 0;
            // From the last: whoever leaves is replaced by one that was looked at.
            while at > 0 {
                at -= 1;
                self.look_at_idle(Seat { group: group as u8, at: at as u32 }, now);
            }
        }
        if any {
            self.looks.set_horizon();
        }
        any
    }

    fn look_at_idle(&mut self, seat: Seat, now: u64) {
        let Some(slot) = self.looks.slot(seat.group.into(), seat.at as usize) else { return };
        let found = self.look_at(slot, now);
        let fastest = self.looks.fastest();
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return };
        if entry.group != u8::MAX {
            // How often a source is looked at goes by how much of its ring is filled in between: the
            // delay is kept at any pace.
            let fill = found.map(|_| entry.source.fill()).unwrap_or_default();
            entry.group = match fill.unread {
                unread if unread >= fill.size / 2 && found.is_some() => {
                    seat.group.saturating_add(3)
                }
                unread if unread >= fill.size / 8 && found.is_some() => {
                    seat.group.saturating_add(1)
                }
                unread if unread >= fill.size / 32 && found.is_some() => seat.group,
                _ => seat.group.saturating_sub(1),
            }
            .min(fastest);
        }
        match found {
            Some(time) => {
                self.leave(seat);
                self.set_place(slot, Place::Active);
                self.heap.push(Next::new(time, slot));
            }
            None if entry.group != seat.group => {
                self.leave(seat);
                self.rest(slot);
            }
            None => {}
        }
    }
}
