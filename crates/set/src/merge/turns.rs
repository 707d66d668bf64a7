//! Whose turn it is, and when who is polled at.

use super::{FILL_CHECK, Merge, SourceId, State};
use crate::heap::Next;
use crate::poll_schedule::{GroupSlot, PollSchedule};
use perfring_consumer::Front;

/// A source that is out of items is polled at again at once, unless that was so short a time ago:
/// then by its turn. ns.
const NEAR: u64 = 20_000;
/// More than [`FILL_CHECK`] for each ring whose items wait, ns.
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
        self.schedule.horizon().max(self.hurry)
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
        let more = self.poll_due(now) && self.failed.is_empty() && self.take_turns();
        more || (self.is_filling_up(now) && self.failed.is_empty() && self.take_turns())
    }

    /// A current source that is out of items is polled at again, or goes to rest. Returns whether it
    /// is still the current one.
    #[inline]
    pub(super) fn settle(&mut self) -> bool {
        let Some(slot) = self.current.filter(|_| !self.has_front) else {
            return self.has_front;
        };
        self.end_turn();
        let now = self.now();
        // Nothing may be given beyond the time of a look that found all that is taken.
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

    /// Whether what a look found next in a source, beside which there are others, cannot be of its time:
    /// it was published more than the delay later, or it is of the future. (Of an observer that was
    /// lapped in a turn of more than the delay it may have been published before, and comes late.)
    fn is_implausible(&mut self, slot: u32, time: u64, now: u64) -> bool {
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return false };
        let (from, at) = entry.since;
        let pos = entry.source.resume_point().pos;
        if pos < from && from != u64::MAX {
            return false;
        }
        entry.since = (pos.saturating_add(entry.source.fill().unread), now);
        let implausible = time < at.saturating_sub(2 * self.schedule.half()) || time > self.ceiling;
        implausible && self.sources().nth(1).is_some()
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

    /// Polls one source. Returns the time of what is next in it.
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
        entry.state = match entry.group {
            u8::MAX => State::Finished,
            group => State::Idle(self.schedule.join(slot, group, entry.polled)),
        };
    }

    pub(super) fn leave(&mut self, member: GroupSlot) {
        if let Some(moved) = self.schedule.leave(member) {
            self.set_state(moved, State::Idle(member));
        }
    }

    /// An idle source has something again.
    pub(super) fn rouse(&mut self, member: GroupSlot, time: u64) {
        let Some(slot) = self.schedule.slot(member.group.into(), member.at as usize) else {
            return;
        };
        self.leave(member);
        self.set_state(slot, State::Active);
        self.heap.push(Next::new(time, slot));
        self.schedule.set_horizon();
        self.below = 0;
    }

    /// Whether a ring fills up while its items wait. If so, nothing waits that was stamped until now.
    pub(super) fn is_filling_up(&mut self, now: u64) -> bool {
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

    /// PollSchedule at the sources of all groups that are due. Returns whether any was.
    pub(super) fn poll_due(&mut self, now: u64) -> bool {
        self.poll_groups(now, PollSchedule::due)
    }

    fn poll_groups(
        &mut self,
        now: u64,
        which: impl Fn(&mut PollSchedule, usize, u64) -> usize,
    ) -> bool {
        let mut any = false;
        // Slow ones first: those that become slower in this round are not polled at twice.
        for group in 0..self.schedule.count() {
            let mut at = which(&mut self.schedule, group, now);
            any |= at > 0;
            // From the last: whoever leaves is replaced by one that was polled at.
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

    fn poll_idle(&mut self, member: GroupSlot, now: u64) {
        let Some(slot) = self.schedule.slot(member.group.into(), member.at as usize) else {
            return;
        };
        let found = self.poll_source(slot, now);
        let fastest = self.schedule.fastest();
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return };
        if entry.group != u8::MAX {
            // How often a source is polled at goes by how much of its ring is filled in between: the
            // delay is kept at any pace.
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
                self.heap.push(Next::new(time, slot));
            }
            None if entry.group != member.group => {
                self.leave(member);
                self.rest(slot);
            }
            None => {}
        }
    }
}
