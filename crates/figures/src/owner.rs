//! Descriptions of producers and consumers, and of the producer that holds the others up.

use crate::process::State;
use perfring_consumer::{
    Location, Producers,
    stat::{HeldUp, OwnerInfo, ProducerFigures, Seat, SeatState, Stat},
};
use std::time::Duration;

/// Returns the name of an owner, without control characters.
pub fn name(owner: &OwnerInfo) -> String {
    if owner.name.is_empty() {
        return "unnamed".to_owned();
    }
    printable(&owner.name)
}

/// Formats the user of an owner, to follow another item; nothing if it has detached.
pub fn user(owner: &OwnerInfo) -> String {
    owner.user().map_or_else(String::new, |uid| format!(", uid {uid}"))
}

/// Returns a text without control characters.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Formats the present or last holder of a seat.
pub fn holding(holding: &Seat, state: State) -> String {
    let owner = &holding.owner;
    match state {
        State::Seat(SeatState::Free) => "none so far".to_owned(),
        _ => format!("{}, pid {}, {}", name(owner), owner.pid, state.word()),
    }
}

/// Returns how the producers of a ring are: as the one that most needs to be known.
pub fn producers_state(stat: &Stat) -> SeatState {
    match stat.layout.producers {
        Producers::One => stat.producer.state,
        Producers::Many | Producers::Cpu => {
            stat.producers.iter().map(|member| member.state).max().unwrap_or_default()
        }
    }
}

/// Returns the producer that has a slot, or had it last.
pub fn member(stat: &Stat, slot: u32) -> Option<&Seat<ProducerFigures>> {
    stat.producers.iter().find(|member| member.number == slot)
}

/// Formats a slot and its owner.
pub fn owner(stat: &Stat, slot: u32) -> String {
    match member(stat, slot).map(|member| &member.owner) {
        Some(owner) => format!("slot {slot} ({}, pid {})", name(owner), owner.pid),
        // The slot after the last one is a recovery's.
        None if slot == stat.layout.slots => "a recovery of the ring".to_owned(),
        None => format!("slot {slot}"),
    }
}

/// Formats what holds the ring up and what to do about it, to follow "held up".
pub fn held_up(location: &Location, stat: &Stat, held: &HeldUp) -> String {
    let owner = owner(stat, held.slot);
    let lock = if held.locked { " (it has the ring's lock)" } else { "" };
    if held.alive {
        let time = time(held.since);
        format!("by {owner}, alive, for at least {time}{lock}: continue or end it")
    } else {
        let word = member(stat, held.slot).map_or(SeatState::Dead, |member| member.state).word();
        format!("by {owner}, {word}{lock}: run `perfring recover {location}`")
    }
}

/// Formats a time with a suitable unit.
pub fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        ..1.0 => format!("{} ms", time.as_millis()),
        seconds @ ..60.0 => format!("{seconds:.1} s"),
        _ => humantime::format_duration(Duration::from_secs(time.as_secs())).to_string(),
    }
}

/// Formats a number of things.
#[must_use]
pub fn count(number: u64, thing: &str) -> String {
    let s = match thing {
        _ if number == 1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {thing}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_shown_with_its_state() {
        let shop = OwnerInfo { epoch: 1, pid: 17, name: "shop".to_owned(), ..OwnerInfo::default() };
        let seat = |state, owner: &OwnerInfo| Seat {
            state,
            owner: owner.clone(),
            ..Seat::<()>::default()
        };
        let say = |state| holding(&seat(SeatState::Alive, &shop), state);
        assert_eq!(say(State::Seat(SeatState::Alive)), "shop, pid 17, alive");
        assert_eq!(say(State::DumpingCore), "shop, pid 17, dumping core");
        assert_eq!(say(State::Seat(SeatState::Detached)), "shop, pid 17, detached");
        assert_eq!(say(State::Seat(SeatState::Dead)), "shop, pid 17, dead");
        let free = seat(SeatState::Free, &OwnerInfo::default());
        assert_eq!(holding(&free, State::Seat(SeatState::Free)), "none so far");
    }

    #[test]
    fn times_and_numbers_are_formatted() {
        assert_eq!(time(Duration::from_micros(20_500)), "20 ms");
        assert_eq!(time(Duration::from_millis(2_140)), "2.1 s");
        assert_eq!(time(Duration::from_secs(3_723)), "1h 2m 3s");
        assert_eq!(count(1, "record"), "1 record");
        assert_eq!(count(0, "record"), "0 records");
    }
}
