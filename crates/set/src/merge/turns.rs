//! Which source is the current one, and which are polled when.

use super::{FILL_CHECK, Merge, State};
use crate::heap::TimedSource;
use crate::merged::SourceId;
use crate::poll_schedule::{GroupSlot, PollSchedule};
use perfring_consumer::advanced::Front;

/// A source that runs out of items is polled again at once, unless the last poll was this recent: then by
/// the schedule. ns.
const NEAR: u64 = 20_000;
/// Losses at the end of a ring are returned this far apart: a producer that is refused all the time causes one after the
/// other. ns.
const GATHER: u64 = 100_000_000;
/// Added to [`FILL_CHECK`] for each ring with waiting items, ns.
const FILL_CHECK_EACH: u64 = 2_000;

impl Merge {
    pub(super) fn set_state(&mut self, slot: u32, state: State) {
        if let Some(Some(entry)) = self.entries.get_mut(slot as usize) {
            entry.state = state;
        }
    }

    pub(super) fn end_turn(&mut self) {
        (self.current, self.has_front, self.below) = (None, false, 0);
    }

    /// Returns whether an item or an error can be returned.
    pub(super) fn is_ready(&mut self) -> bool {
        self.settle();
        let first = self.heap.first().map(TimedSource::time);
        let time = first.into_iter().chain(self.has_front.then_some(self.time)).min();
        !self.failed.is_empty() || time.is_some_and(|time| self.has_come(time))
    }

    /// Returns whether an item of this time, with nothing before it, can be returned.
    #[inline]
    fn has_come(&self, time: u64) -> bool {
        time <= self.horizon() || time > self.ceiling
    }

    #[inline]
    fn horizon(&self) -> u64 {
        self.schedule.horizon().max(self.hurry)
    }

    /// Makes the source with the least time the current one. Returns whether its time has come.
    #[inline]
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
        let more = self.poll_due(now) && self.failed.is_empty() && self.take_turns();
        more || (self.is_filling_up(now) && self.failed.is_empty() && self.take_turns())
    }

    /// Polls a current source that is out of items again, or puts it into the schedule. Returns whether it
    /// is still the current one.
    #[inline]
    pub(super) fn settle(&mut self) -> bool {
        let Some(slot) = self.current.filter(|_| !self.has_front) else {
            return self.has_front;
        };
        self.end_turn();
        let now = self.now();
        // Nothing may be returned beyond the time of a poll whose items are all taken.
        let polled = self.entries.get(slot as usize).and_then(Option::as_ref);
        let near = polled.is_some_and(|entry| {
            entry.polled >= self.hurry && now.saturating_sub(entry.polled) < NEAR
        });
        if !near
            && let Some(time) = self.poll_source(slot, now)
            && !self.is_implausible(slot, time, now)
        {
            (self.current, self.has_front, self.time) = (Some(slot), true, time);
            return true;
        }
        self.rest(slot);
        false
    }

    /// Returns whether the next item's timestamp is implausible, if there are other sources: it was published
    /// more than the delay later, or it is of the future. (After an observer was lapped in a turn longer than
    /// the delay, the item may have been published before, and comes late.)
    fn is_implausible(&mut self, slot: u32, time: u64, now: u64) -> bool {
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return false };
        let (from, at) = entry.since;
        let pos = entry.source.resume_point().pos();
        if pos < from && from != u64::MAX {
            return false;
        }
        entry.since = (pos.saturating_add(entry.source.fill().unread), now);
        let implausible = time < at.saturating_sub(2 * self.schedule.half()) || time > self.ceiling;
        implausible && self.sources().nth(1).is_some()
    }

    /// Makes the current source the one with the lesser time: itself or the first of the heap. Returns
    /// whether its time has come.
    #[inline]
    fn take_turns(&mut self) -> bool {
        let slot = match (self.current, self.heap.first()) {
            (Some(slot), Some(first)) => {
                let next = TimedSource::new(self.time, slot);
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
        // The source stays the current one up to the next source's item, the horizon and the future.
        let end = self.horizon().min(self.ceiling).saturating_add(1);
        self.below = self
            .heap
            .first()
            .map_or(end, |next| end.min(next.time().saturating_add(u64::from(slot < next.slot()))));
        true
    }

    /// Polls a source. Returns the time of its next item.
    pub(super) fn poll_source(&mut self, slot: u32, now: u64) -> Option<u64> {
        let entry = self.entries.get_mut(slot as usize)?.as_mut()?;
        self.figures.polls += 1;
        entry.polled = now;
        let front = entry.source.peek();
        if let Some(described) = &mut entry.described
            && !matches!(front, Ok(Front::Empty) | Err(_))
        {
            described.renew(entry.source.as_ref());
        }
        match front {
            Ok(Front::Empty) => None,
            Ok(Front::Timestamped(timestamp)) => Some(timestamp),
            Ok(Front::Plain) => Some(now),
            Ok(Front::Lost) if entry.source.fill().unread == 0 => {
                // At the end. It is returned next, when the time has come, or with a record behind it.
                if now < entry.gathers {
                    self.gathers = entry.gathers.max(self.gathers);
                    return None;
                }
                entry.gathers = now.saturating_add(GATHER);
                Some(entry.last)
            }
            Ok(Front::Lost) => Some(entry.last),
            // The next item is known only after it is taken.
            Ok(Front::More) => Some(entry.last),
            Err(error) => {
                entry.group = u8::MAX;
                self.failed.push_back((SourceId { slot, turn: entry.turn }, error));
                None
            }
        }
    }

    /// Puts a source without items into the poll schedule, unless it has failed.
    pub(super) fn rest(&mut self, slot: u32) {
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return };
        entry.state = match entry.group {
            u8::MAX => State::Finished,
            group => State::Idle(self.schedule.join(slot, group, entry.polled)),
        };
        let requested = entry.requested || entry.state == State::Finished;
        self.rests(requested);
    }

    pub(super) fn leave(&mut self, member: GroupSlot) {
        if let Some(moved) = self.schedule.leave(member) {
            self.set_state(moved, State::Idle(member));
        }
    }

    /// Takes an idle source that has items again out of the schedule.
    pub(super) fn rouse(&mut self, member: GroupSlot, time: u64) {
        let Some(slot) = self.schedule.slot(member.group.into(), member.at as usize) else {
            return;
        };
        self.leave(member);
        self.set_state(slot, State::Active);
        self.heap.push(TimedSource::new(time, slot));
        self.schedule.set_horizon();
        self.below = 0;
    }

    /// Returns whether a ring fills up while its items wait. If so, all items up to now are due.
    pub(super) fn is_filling_up(&mut self, now: u64) -> bool {
        if now < self.fills_at {
            return false;
        }
        let current = self.current.filter(|_| self.has_front);
        let waiting = self.heap.all().iter().map(|next| next.slot()).chain(current);
        let (mut eighths, mut count) = (0, 0);
        for entry in waiting.filter_map(|slot| self.entries.get(slot as usize)?.as_ref()) {
            let fill = entry.source.fill();
            // A ring that is full of unreleased items does not get emptier by returning more.
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
        let least = FILL_CHECK + count * FILL_CHECK_EACH;
        self.fills_after = after.clamp(least, self.schedule.half().max(least));
        self.fills_at = now.saturating_add(self.fills_after);
        if eighths < 4 {
            return false;
        }
        self.poll_groups(now, PollSchedule::all);
        self.hurry = now;
        self.figures.hurried += 1;
        true
    }

    /// Polls the sources of all groups that are due, or in a sleeping merge the sources that have woken it. Returns whether
    /// there were any.
    pub(super) fn poll_due(&mut self, now: u64) -> bool {
        self.poll_asleep(now).unwrap_or_else(|| self.poll_groups(now, PollSchedule::due))
    }

    pub(super) fn poll_groups(
        &mut self,
        now: u64,
        which: impl Fn(&mut PollSchedule, usize, u64) -> usize,
    ) -> bool {
        let mut any = false;
        // Slow groups first: a source that moves to a slower group is not polled twice.
        for group in 0..self.schedule.count() {
            let mut at = which(&mut self.schedule, group, now);
            any |= at > 0;
            // From the last: a source that leaves is replaced by a source that was already polled.
            while at > 0 {
                at -= 1;
                self.poll_idle(GroupSlot { group: group as u8, at: at as u32 }, now);
            }
        }
        if any {
            self.schedule.set_horizon();
        }
        any
    }

    pub(super) fn poll_idle(&mut self, member: GroupSlot, now: u64) {
        let Some(slot) = self.schedule.slot(member.group.into(), member.at as usize) else {
            return;
        };
        let found = self.poll_source(slot, now);
        let fastest = self.schedule.fastest();
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return };
        if entry.group != u8::MAX {
            // The poll interval follows how much of the ring fills in between, so that the delay holds at
            // any rate.
            let fill = found.map(|_| entry.source.fill()).unwrap_or_default();
            entry.group = match fill.unread {
                unread if unread >= fill.size / 2 && found.is_some() => {
                    member.group.saturating_add(3)
                }
                unread if unread >= fill.size / 8 && found.is_some() => {
                    member.group.saturating_add(1)
                }
                unread if unread >= fill.size / 32 && found.is_some() => member.group,
                _ => member.group.saturating_sub(1),
            }
            .min(fastest);
        }
        match found {
            Some(time) => {
                self.leave(member);
                self.set_state(slot, State::Active);
                self.heap.push(TimedSource::new(time, slot));
            }
            None if entry.group != member.group => {
                self.leave(member);
                self.rest(slot);
            }
            None => {}
        }
    }
}
