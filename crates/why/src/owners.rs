//! The seats of rings, and their holders in trouble.

use crate::evidence::{Holder, Role, SeatNow};
use std::collections::{HashMap, VecDeque};

/// The limit of seats that are kept of a ring.
const MOST: usize = 1 << 16;
/// The limit of changes that are kept of a ring's seats.
const CHANGES: usize = 64;
/// Within this time after a change, a look has found it, ns: seats are looked at ten times a second.
const FOUND: u64 = 200_000_000;
/// One look finds the changes of a ring's seats within this time, ns.
const LOOK: u64 = 20_000_000;

/// A seat whose holder is in trouble: its ring, since when, and how it is.
pub(crate) type Trouble = (u32, u64, SeatNow);

/// The seats of a ring at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeatsThen {
    pub(crate) seats: Vec<SeatNow>,
    /// They changed about that time, or were not looked at before.
    pub(crate) changed: bool,
}

/// All seats that are known.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    seats: HashMap<u32, Vec<SeatNow>>,
    /// The seats of each ring before its last changes, with the times of these.
    before: HashMap<u32, VecDeque<(u64, Vec<SeatNow>)>>,
    /// The seats of live rings when all was read.
    present: HashMap<u32, Vec<SeatNow>>,
    troubles: Vec<Trouble>,
}

impl Owners {
    /// A seat is so from now on. Returns a trouble that is over.
    pub(crate) fn seat(&mut self, time: u64, ring: u32, seat: SeatNow) -> Option<Trouble> {
        let same = |other: &SeatNow| (other.role, other.number) == (seat.role, seat.number);
        let seats = self.seats.entry(ring).or_default();
        // A witness of several files repeats what it said.
        if seats.contains(&seat) {
            return None;
        }
        let before = self.before.entry(ring).or_default();
        // What one look found is one change.
        if before.back().is_none_or(|(last, _)| time.saturating_sub(*last) > LOOK) {
            if before.len() >= CHANGES {
                before.pop_front();
            }
            before.push_back((time, seats.clone()));
        }
        seats.retain(|other| !same(other));
        if seats.len() < MOST {
            seats.push(seat.clone());
        }
        let of = |(its, _, other): &Trouble| *its == ring && same(other);
        let mut over = None;
        if let Some(at) = self.troubles.iter().position(of) {
            let (_, _, other) = &self.troubles[at];
            // Only what it holds has changed.
            if (other.pid, other.holder) == (seat.pid, seat.holder) && other.holder != Holder::Alive
            {
                self.troubles[at].2.holds_up |= seat.holds_up;
                return None;
            }
            over = Some(self.troubles.remove(at));
        }
        self.trouble(time, ring, seat);
        over
    }

    /// A seat of a live ring is so now that all of its records are read.
    pub(crate) fn present(&mut self, time: u64, ring: u32, seat: SeatNow) {
        let seats = self.present.entry(ring).or_default();
        if seats.len() < MOST {
            seats.push(seat.clone());
        }
        self.trouble(time, ring, seat);
    }

    fn trouble(&mut self, time: u64, ring: u32, seat: SeatNow) {
        let is_trouble = match seat.holder {
            Holder::Stopped | Holder::Dead | Holder::DumpingCore => true,
            Holder::Alive => seat.holds_up,
            Holder::Gone => false,
        };
        if is_trouble {
            self.troubles.push((ring, time, seat));
        }
    }

    /// Returns the seats of a ring as they were at a time: by the first look soon after it that found a change; else as they were
    /// before. Of a change, the later seats are returned, unless only the earlier ones have a `role` in trouble.
    pub(crate) fn at(&self, ring: u32, time: u64, role: Role) -> SeatsThen {
        let Some(last) = self.seats.get(&ring) else { return SeatsThen::default() };
        let changes: Vec<_> = self.before.get(&ring).into_iter().flatten().collect();
        let next = changes.partition_point(|(changed, _)| *changed <= time);
        let Some((changed, before)) = changes.get(next) else {
            return SeatsThen { seats: last.clone(), changed: false };
        };
        let after = changes.get(next + 1).map_or(last, |(_, seats)| seats);
        let soon = *changed <= time.saturating_add(FOUND);
        match (before.is_empty(), soon) {
            (false, false) => SeatsThen { seats: before.clone(), changed: false },
            (false, true) => {
                let of = |seats: &[SeatNow]| -> Vec<SeatNow> {
                    let concerned = |seat: &&SeatNow| match role {
                        Role::Producer => seat.role == role && seat.holds_up,
                        Role::Consumer => seat.role == role,
                    };
                    seats.iter().filter(concerned).cloned().collect()
                };
                let is_trouble = |seat: &SeatNow| match role {
                    Role::Producer => true,
                    Role::Consumer => !matches!(seat.holder, Holder::Alive | Holder::Gone),
                };
                let (old, new) = (of(before), of(after));
                let is_old = old.iter().any(is_trouble) && !new.iter().any(is_trouble);
                let seats = if is_old { before } else { after };
                SeatsThen { seats: seats.clone(), changed: old != new }
            }
            // Nothing else is known. Later than soon, another producer may hold the others up.
            (true, _) => {
                let mut seats = after.clone();
                seats.iter_mut().for_each(|seat| seat.holds_up &= soon);
                SeatsThen { seats, changed: !soon }
            }
        }
    }

    /// Returns the seats of a live ring.
    pub(crate) fn now(&self, ring: u32) -> Vec<SeatNow> {
        self.present.get(&ring).cloned().unwrap_or_default()
    }

    /// Returns a consumer's seat, which this process has.
    pub(crate) fn consumer(&self, ring: u32, number: u32, pid: u32) -> SeatNow {
        let is_it =
            |seat: &&SeatNow| (seat.role, seat.number, seat.pid) == (Role::Consumer, number, pid);
        let seat = self.seats.get(&ring).and_then(|seats| seats.iter().find(is_it));
        let (name, holder, holds_up) = (String::new(), Holder::Alive, false);
        let role = Role::Consumer;
        let unknown = SeatNow { role, number, pid, name, holder, holds_up, here: true };
        seat.cloned().unwrap_or(unknown)
    }

    /// Returns the troubles that are not over.
    pub(crate) fn end(&mut self) -> Vec<Trouble> {
        std::mem::take(&mut self.troubles)
    }
}
