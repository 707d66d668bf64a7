//! When sources of which nothing is known are looked at again.
//!
//! They are in groups, each looked at in one go at its own interval, the slowest at half of the
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
    /// All of them were looked at then or later.
    looked: u64,
    slots: Vec<u32>,
}

/// The groups, slowest first.
#[derive(Debug)]
pub(crate) struct Looks {
    groups: Vec<Group>,
    half: u64,
    /// What was stamped until then is seen, of these sources.
    horizon: u64,
}

/// Where a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) group: u8,
    pub(crate) at: u32,
}

impl Looks {
    pub(crate) fn new(delay: u64) -> Self {
        let half = (delay.max(DELAY_MIN) / 2).min(u64::MAX / 4);
        let doublings = (half / SHORTEST).ilog2().min(20);
        let tick = half >> doublings;
        let group =
            |doubled: u32| Group { interval: tick << doubled, looked: 0, slots: Vec::new() };
        Looks { groups: (0..=doublings).rev().map(group).collect(), half, horizon: u64::MAX }
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

    /// Puts in a source that was looked at then, and has nothing.
    pub(crate) fn join(&mut self, slot: u32, group: u8, looked: u64) -> Seat {
        let to = &mut self.groups[usize::from(group)];
        to.looked = if to.slots.is_empty() { looked } else { to.looked.min(looked) };
        to.slots.push(slot);
        let seat = Seat { group, at: to.slots.len() as u32 - 1 };
        self.horizon = self.horizon.min(to.looked.saturating_sub(self.half));
        seat
    }

    /// Takes one out. Returns the source that sits in its seat now.
    pub(crate) fn leave(&mut self, seat: Seat) -> Option<u32> {
        let slots = &mut self.groups[usize::from(seat.group)].slots;
        slots.swap_remove(seat.at as usize);
        slots.get(seat.at as usize).copied()
    }

    /// After sources have left, or were looked at.
    pub(crate) fn set_horizon(&mut self) {
        let looked = self.groups.iter().filter(|group| !group.slots.is_empty());
        let least = looked.map(|group| group.looked).min();
        self.horizon = least.map_or(u64::MAX, |looked| looked.saturating_sub(self.half));
    }

    /// How many sources the group has, if it is due: all are to be looked at now.
    pub(crate) fn due(&mut self, group: usize, now: u64) -> usize {
        let due = &self.groups[group];
        if due.slots.is_empty() || now < due.next() { 0 } else { self.all(group, now) }
    }

    /// As [`Looks::due`], whether it is or not.
    pub(crate) fn all(&mut self, group: usize, now: u64) -> usize {
        let group = &mut self.groups[group];
        group.looked = now;
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
        (self.looked / self.interval).saturating_add(1).saturating_mul(self.interval)
    }
}
