//! The times at which sources without known items are polled again.
//!
//! They are in groups, each polled at once at its own interval: the slowest at half of the merge's delay,
//! each next one twice as often. The cost of a record or a poll therefore does not depend on the number of rings,
//! and a thousand idle rings cause one wake-up an interval. All intervals share one grid: whenever a slow
//! group is due, the faster groups are due.

/// The shortest interval, ns: a sleep is not more precise.
const SHORTEST: u64 = 50_000;
/// The shortest delay, ns.
const DELAY_MIN: u64 = 4 * SHORTEST;

#[derive(Debug)]
struct Group {
    interval: u64,
    /// All its sources were polled then or later.
    polled: u64,
    slots: Vec<u32>,
}

/// The groups, slowest first.
#[derive(Debug)]
pub(crate) struct PollSchedule {
    groups: Vec<Group>,
    half: u64,
    /// Everything of these sources up to this time was seen.
    horizon: u64,
}

/// The position of a source in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupSlot {
    pub(crate) group: u8,
    pub(crate) at: u32,
}

impl PollSchedule {
    pub(crate) fn new(delay: u64) -> Self {
        let half = (delay.max(DELAY_MIN) / 2).min(u64::MAX / 4);
        let doublings = (half / SHORTEST).ilog2().min(20);
        let tick = half >> doublings;
        let group =
            |doubled: u32| Group { interval: tick << doubled, polled: 0, slots: Vec::new() };
        PollSchedule { groups: (0..=doublings).rev().map(group).collect(), half, horizon: u64::MAX }
    }

    /// Returns half of the delay.
    pub(crate) fn half(&self) -> u64 {
        self.half
    }

    /// Returns the fastest group.
    pub(crate) fn fastest(&self) -> u8 {
        (self.groups.len() - 1) as u8
    }

    pub(crate) fn count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the time up to which everything of the scheduled sources was seen, if it was published within
    /// half of the delay after its timestamp. Without sources, that is all.
    #[inline]
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Returns how many sources are in it.
    pub(crate) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.slots.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a source that was polled then and has no items.
    pub(crate) fn join(&mut self, slot: u32, group: u8, polled: u64) -> GroupSlot {
        let to = &mut self.groups[usize::from(group)];
        to.polled = if to.slots.is_empty() { polled } else { to.polled.min(polled) };
        to.slots.push(slot);
        let member = GroupSlot { group, at: to.slots.len() as u32 - 1 };
        self.horizon = self.horizon.min(to.polled.saturating_sub(self.half));
        member
    }

    /// Removes a source. Returns the source that has its position now.
    pub(crate) fn leave(&mut self, member: GroupSlot) -> Option<u32> {
        let slots = &mut self.groups[usize::from(member.group)].slots;
        slots.swap_remove(member.at as usize);
        slots.get(member.at as usize).copied()
    }

    /// Updates the horizon after sources have left or were polled.
    pub(crate) fn set_horizon(&mut self) {
        let polled = self.groups.iter().filter(|group| !group.slots.is_empty());
        let least = polled.map(|group| group.polled).min();
        self.horizon = least.map_or(u64::MAX, |polled| polled.saturating_sub(self.half));
    }

    /// Returns how many sources the group has, if it is due: the caller polls all of them now.
    pub(crate) fn due(&mut self, group: usize, now: u64) -> usize {
        let due = &self.groups[group];
        if due.slots.is_empty() || now < due.next() { 0 } else { self.all(group, now) }
    }

    /// Returns how many sources the group has, due or not: the caller polls all of them now.
    pub(crate) fn all(&mut self, group: usize, now: u64) -> usize {
        let group = &mut self.groups[group];
        group.polled = now;
        group.slots.len()
    }

    pub(crate) fn slot(&self, group: usize, at: usize) -> Option<u32> {
        self.groups[group].slots.get(at).copied()
    }

    /// Returns when the next group is due; `None` without sources.
    pub(crate) fn next(&self) -> Option<u64> {
        let groups = self.groups.iter().filter(|group| !group.slots.is_empty());
        groups.map(Group::next).min()
    }
}

impl Group {
    fn next(&self) -> u64 {
        (self.polled / self.interval).saturating_add(1).saturating_mul(self.interval)
    }
}
