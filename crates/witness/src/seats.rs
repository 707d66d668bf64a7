//! The seats of a ring: what the ring says of their holders, and /proc.

use perfring_consumer::{
    Location, Policy, Producers,
    stat::{OwnerInfo, SeatState, Stat},
};
use perfring_figures::process::{Processes, State};
use perfring_why::witness::{How, Seat, SeatOf};

/// A seat at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatSeen {
    /// What it is for.
    pub role: SeatOf,
    /// Its number among those for this role.
    pub number: u32,
    /// The process that has it, or had it last.
    pub owner: OwnerInfo,
    /// How that process is.
    pub state: State,
    /// Other producers wait for its reservation or lock.
    pub holds_up: bool,
    /// It is the only producer's: what the ring has is its holder's.
    pub writes_alone: bool,
    /// Its holder is the process of this number here, which has the ring open.
    pub here: bool,
}

impl SeatSeen {
    /// Returns the record that says so.
    #[must_use]
    pub fn record(&self, ring: [u8; 16]) -> Seat {
        let how = match self.state {
            State::Stopped => How::Stopped,
            State::DumpingCore => How::DumpingCore,
            State::Seat(SeatState::Free) => How::Free,
            State::Seat(SeatState::Detached) => How::Detached,
            State::Seat(SeatState::Dead) => How::Dead,
            State::Seat(SeatState::Alive) => How::Alive,
        };
        let mut name = [0; 64];
        let len = self.owner.name.len().min(name.len());
        name[..len].copy_from_slice(&self.owner.name.as_bytes()[..len]);
        Seat {
            ring,
            role: self.role.into(),
            number: self.number,
            pid: self.owner.pid,
            how: how.into(),
            holds_up: self.holds_up.into(),
            here: self.here.into(),
            name,
        }
    }
}

/// Returns the seats of a ring that have, or had, a holder, and those that a ring of one producer or one consumer has anyway.
pub fn seats(stat: &Stat, location: &Location, processes: &mut Processes) -> Vec<SeatSeen> {
    let held = stat.held_up.as_ref().map(|held| held.slot);
    let mut seats = Vec::new();
    let mut add = |role, number, state, owner: &OwnerInfo, writes_alone| {
        let (held, owner) = (role == SeatOf::Producer && held == Some(number), owner.clone());
        let here = state == SeatState::Alive && processes.has_open(owner.pid, location);
        let state = processes.state(state, &owner, location);
        seats.push(SeatSeen { role, number, owner, state, holds_up: held, writes_alone, here });
    };
    if stat.layout.producers == Producers::One {
        add(SeatOf::Producer, 0, stat.producer.state, &stat.producer.owner, true);
    }
    for seat in &stat.producers {
        add(SeatOf::Producer, seat.number, seat.state, &seat.owner, false);
    }
    if stat.layout.consumers == 0 {
        add(SeatOf::Consumer, 0, stat.consumer.state, &stat.consumer.owner, false);
    }
    for seat in &stat.consumers {
        add(SeatOf::Consumer, seat.number, seat.state, &seat.owner, false);
    }
    seats
}

/// Returns the position up to which a consumer has released, if the ring says so: that of a seat, or the only one.
pub(crate) fn released(stat: &Stat, number: u32) -> Option<u64> {
    let named = stat.consumers.iter().find(|consumer| consumer.number == number);
    let only = stat.totals.map(|totals| match stat.layout.policy {
        // The tail is what the consumer has released.
        Policy::Drop => totals.tail.max(totals.consumer.pos),
        Policy::Overwrite => totals.consumer.pos,
    });
    named.map(|consumer| consumer.figures.totals.pos).or(only)
}
