//! The sleep of a merge in which no item waits: until a ring gets something, and not until it is to be polled again.
//!
//! Up to [`ANY_MOST`](perfring_consumer::advanced::ANY_MOST) sources are slept on in one call. More of them have a
//! request each in an io_uring, which is made once and stays there from one sleep to the next, until that source's ring
//! wakes: a merge of ten thousand idle rings looks at none of them but at each tick. If a source cannot wake a reader,
//! or the system has neither call, all are polled by the schedule.

use super::requests::Asleep;
use super::{Merge, MergeEntry, State};
use crate::poll_schedule::PollSchedule;
use crate::sleep_on_all::sleep_on_all;
use crate::source::Sleep;
use perfring_consumer::advanced::{ANY_MOST, ManyWaits, until_tick};
use std::time::Duration;

/// Which idle sources have requests.
enum Requested {
    All,
    /// Not the sources that may miss a wake: a shared ring behind an open reservation, or `membarrier(2)` is forbidden.
    Some,
    /// One of the other sources had something, and was polled.
    Ready,
    /// It cannot be done.
    Not,
}

impl MergeEntry {
    fn number(&self, slot: u32) -> u64 {
        u64::from(self.turn) << 32 | u64::from(slot)
    }
}

impl Merge {
    /// Sleeps until the next poll is due, or, where no item waits, until a ring gets something.
    pub(super) fn sleep(&mut self, left: Duration, now: u64) {
        if !self.has_waiting() && now >= self.gathers && self.sleep_on_rings(left, now) {
            return;
        }
        std::thread::sleep(self.due_at(now).map_or(left, |due| due.min(left)));
    }

    /// Returns whether it has slept, or need not.
    fn sleep_on_rings(&mut self, left: Duration, now: u64) -> bool {
        if self.asleep.impossible || self.schedule.is_empty() {
            return false;
        }
        // An io_uring stays in use when there are fewer again: it has requests.
        if self.schedule.len() > ANY_MOST || self.asleep.waits.is_some() {
            return self.sleep_on_many(left, now);
        }
        let idle = |entry: &&mut MergeEntry| matches!(entry.state, State::Idle(_));
        let sources = self.entries.iter_mut().flatten().filter(idle).map(|entry| &mut entry.source);
        if !sleep_on_all(sources.collect(), left) {
            self.asleep.impossible = true;
            return false;
        }
        let now = self.now();
        self.poll_groups(now, PollSchedule::all);
        true
    }

    fn sleep_on_many(&mut self, left: Duration, now: u64) -> bool {
        if self.poll_woken(now) {
            return true;
        }
        match self.request_all() {
            Requested::Not => {
                self.wake_up();
                return false;
            }
            Requested::Some => return false,
            Requested::Ready => return true,
            Requested::All => {}
        }
        let limit = left.min(self.until_tick(now));
        let waits = self.asleep.waits.as_mut();
        if waits.is_none_or(|waits| waits.sleep(limit).is_err()) {
            self.wake_up();
            return false;
        }
        let now = self.now();
        self.poll_woken(now);
        true
    }

    /// Makes the requests that are missing.
    fn request_all(&mut self) -> Requested {
        if self.asleep.all {
            return Requested::All;
        }
        let waits = match &mut self.asleep.waits {
            Some(waits) => waits,
            none => match ManyWaits::new() {
                Ok(waits) => none.insert(waits),
                Err(_) => return Requested::Not,
            },
        };
        let (mut ready, mut all) = (Vec::new(), true);
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            let Some(entry) = entry.as_mut() else { continue };
            if entry.requested || !matches!(entry.state, State::Idle(_)) {
                continue;
            }
            let number = entry.number(slot as u32);
            match entry.source.prepare_sleep() {
                Sleep::Armed(armed) if armed.is_sure() => {
                    if waits.listen(number, &armed).is_err() {
                        return Requested::Not;
                    }
                    entry.requested = true;
                    self.asleep.exposed |= armed.is_exposed();
                }
                // It is polled by the schedule meanwhile, and so are all.
                Sleep::Armed(_) => {
                    entry.source.end_sleep();
                    all = false;
                }
                Sleep::Ready => ready.push(slot as u32),
                Sleep::Polled => return Requested::Not,
            }
        }
        if !ready.is_empty() {
            let now = self.now();
            ready.into_iter().for_each(|slot| self.poll_at(slot, now));
            return Requested::Ready;
        }
        if !all {
            return Requested::Some;
        }
        self.asleep.all = true;
        let now = self.now();
        self.set_tick(now);
        Requested::All
    }

    /// Polls the sources that have woken this merge, and at a tick all sources, if no item waits and each source wakes a
    /// sleeper. Returns whether any were polled, or `None` for any other merge.
    pub(super) fn poll_asleep(&mut self, now: u64) -> Option<bool> {
        if !self.is_asleep() {
            return None;
        }
        if now < self.asleep.tick_at {
            return Some(self.poll_woken(now));
        }
        self.set_tick(now);
        let polled = self.poll_groups(now, PollSchedule::all);
        self.renew_lost();
        Some(polled)
    }

    /// After a tick: a source that has something although no process woke the reader. Its wake is lost, and no
    /// later publish wakes, until there is another request.
    fn renew_lost(&mut self) {
        let Some(waits) = &mut self.asleep.waits else { return };
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            if let Some(entry) = entry
                && entry.requested
                && entry.state == State::Active
            {
                waits.forget(entry.number(slot as u32));
                entry.requested = false;
                entry.source.end_sleep();
            }
        }
    }

    /// From now on all are polled by the schedule, until the next sleep: no process wakes a caller that sleeps by
    /// other means.
    pub(super) fn poll_by_schedule(&mut self) {
        self.asleep.all = false;
    }

    fn is_asleep(&self) -> bool {
        self.asleep.all && !self.has_waiting()
    }

    fn set_tick(&mut self, now: u64) {
        let tick = u64::try_from(until_tick(self.asleep.exposed).as_nanos()).unwrap_or(u64::MAX);
        self.asleep.tick_at = now.saturating_add(tick);
    }

    fn until_tick(&self, now: u64) -> Duration {
        Duration::from_nanos(self.asleep.tick_at.saturating_sub(now))
    }

    /// Polls the sources that have woken the merge. Returns whether there were any.
    fn poll_woken(&mut self, now: u64) -> bool {
        let mut any = false;
        while let Some(number) = self.asleep.waits.as_mut().and_then(ManyWaits::woken) {
            let slot = number as u32;
            let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { continue };
            if entry.number(slot) != number || !entry.requested {
                continue; // another source has its slot now
            }
            entry.requested = false;
            entry.source.end_sleep();
            any = true;
            self.asleep.all = false;
            self.poll_at(slot, now);
        }
        any
    }

    fn poll_at(&mut self, slot: u32, now: u64) {
        if let Some(Some(MergeEntry { state: State::Idle(member), .. })) =
            self.entries.get(slot as usize)
        {
            self.poll_idle(*member, now);
            self.schedule.set_horizon();
        }
    }

    /// To be called when a source is put into the schedule: without a request it is to be polled there.
    pub(super) fn rests(&mut self, requested: bool) {
        self.asleep.all &= requested;
    }

    /// Withdraws the request of a source that is removed.
    pub(super) fn forget(&mut self, slot: u32, entry: &mut MergeEntry) {
        self.asleep.impossible = false; // perhaps because of this one
        if entry.requested {
            entry.source.end_sleep();
            if let Some(waits) = &mut self.asleep.waits {
                waits.forget(entry.number(slot));
            }
        }
    }

    /// Withdraws all requests: one of the sources is polled, or the system refuses.
    fn wake_up(&mut self) {
        self.asleep = Asleep { impossible: true, ..Asleep::default() };
        for entry in self.entries.iter_mut().flatten().filter(|entry| entry.requested) {
            entry.requested = false;
            entry.source.end_sleep();
        }
    }

    fn has_waiting(&self) -> bool {
        self.has_front || self.heap.first().is_some()
    }
}
