//! When sources of which nothing is known are polled at again.
//!
//! They are in groups, each polled at in one go at its own interval, the slowest at half of the
//! merge's delay and each next one twice as often. So neither a record nor a look costs more for
//! there being ten thousand rings, and a thousand idle ones wake nobody up more than once an
//! interval. All intervals are cut from one grid: whenever a slow group is due, the faster ones are.

/// The shortest interval, ns: less would be sleeping for nothing.
const SHORTEST: u64 = 50_000;
/// The shortest delay, ns.
const DELAY_MIN: u64 = 4 * SHORTEST;

#[derive(Debug)]
struct Group {
    interval: u64,
    /// All of them were polled at then or later.
    polled: u64,
    slots: Vec<u32>,
}

/// The groups, slowest first.
#[derive(Debug)]
pub(crate) struct PollSchedule {
    groups: Vec<Group>,
    half: u64,
    /// What was stamped until then is seen, of these sources.
    horizon: u64,
}

/// Where a source is.
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

    /// Half of the delay.
    pub(crate) fn half(&self) -> u64 {
        self.half
    }

    /// The fastest group.
    pub(crate) fn fastest(&self) -> u8 {
        (self.groups.len() - 1) as u8
    }

    pub(crate) fn count(&self) -> usize {
        self.groups.len()
    }

    /// Everything that was stamped at this time or before, and published within half of the delay,
    /// is seen, of the sources in here. Of no sources everything is.
    #[inline]
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Puts in a source that was polled at then, and has nothing.
    pub(crate) fn join(&mut self, slot: u32, group: u8, polled: u64) -> GroupSlot {
        let to = &mut self.groups[usize::from(group)];
        to.polled = if to.slots.is_empty() { polled } else { to.polled.min(polled) };
        to.slots.push(slot);
        let member = GroupSlot { group, at: to.slots.len() as u32 - 1 };
        self.horizon = self.horizon.min(to.polled.saturating_sub(self.half));
        member
    }

    /// Takes one out. Returns the source that sits in its member now.
    pub(crate) fn leave(&mut self, member: GroupSlot) -> Option<u32> {
        let slots = &mut self.groups[usize::from(member.group)].slots;
        slots.swap_remove(member.at as usize);
        slots.get(member.at as usize).copied()
    }

    /// After sources have left, or were polled at.
    pub(crate) fn set_horizon(&mut self) {
        let polled = self.groups.iter().filter(|group| !group.slots.is_empty());
        let least = polled.map(|group| group.polled).min();
        self.horizon = least.map_or(u64::MAX, |polled| polled.saturating_sub(self.half));
    }

    /// How many sources the group has, if it is due: all are to be polled at now.
    pub(crate) fn due(&mut self, group: usize, now: u64) -> usize {
        let due = &self.groups[group];
        if due.slots.is_empty() || now < due.next() { 0 } else { self.all(group, now) }
    }

    /// As [`PollSchedule::due`], whether it is or not.
    pub(crate) fn all(&mut self, group: usize, now: u64) -> usize {
        let group = &mut self.groups[group];
        group.polled = now;
        group.slots.len()
    }

    pub(crate) fn slot(&self, group: usize, at: usize) -> Option<u32> {
        self.groups[group].slots.get(at).copied()
    }

    /// When the next group is due; never, of no sources.
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
