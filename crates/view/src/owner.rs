//! Descriptions of producers and consumers, and of the producer that holds the others up.

use crate::process::State;
use perfring_consumer::{HeldUp, Holding, Location, Member, OwnerInfo, Stat};
use std::time::Duration;

/// Returns the name of an owner, without control characters.
pub fn name(owner: &OwnerInfo) -> String {
    if owner.name.is_empty() {
        return "unnamed".to_owned();
    }
    printable(&owner.name)
}

/// Returns a text without control characters.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Formats the present or last holder of a seat.
pub fn holding(holding: &Holding, state: State) -> String {
    let owner = &holding.owner;
    match (state, owner.epoch) {
        (State::Gone, 0) => "none so far".to_owned(),
        _ => format!("{}, pid {}, {}", name(owner), owner.pid, state.word("detached")),
    }
}

/// Returns the producer that has a slot, or had it last.
pub fn member(stat: &Stat, slot: u32) -> Option<&Member> {
    stat.producers.iter().find(|member| member.figures.slot == slot)
}

/// Formats a slot and its owner.
pub fn owner(stat: &Stat, slot: u32) -> String {
    match member(stat, slot).map(|member| &member.figures.owner) {
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
        format!("by {owner}, dead{lock}: run `perfring recover {location}`")
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
        let seat = |owner: &OwnerInfo| Holding { owner: owner.clone(), alive: true };
        let say = |state| holding(&seat(&shop), state);
        assert_eq!(say(State::Alive), "shop, pid 17, alive");
        assert_eq!(say(State::DumpingCore), "shop, pid 17, dumping core");
        assert_eq!(say(State::Gone), "shop, pid 17, detached");
        assert_eq!(holding(&seat(&OwnerInfo::default()), State::Gone), "none so far");
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
