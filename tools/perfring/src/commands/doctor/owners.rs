//! The producers of a ring: what dead ones left behind, and which one holds the others up.

use super::report::Report;
use crate::failure::Failure;
use perfring_consumer::{
    Location, Producers,
    stat::{HeldUp, ProducerFigures, Seat, SeatState, Stat},
};
use perfring_figures::owner::{count, held_up, holding, member, owner};
use perfring_figures::process::{State, WHILE_DUMPING, has_open};

/// What is known of a dead producer.
const HOW_DEAD: &str = "it was killed, or ended otherwise without detaching";

pub(super) fn check(report: &mut Report, location: &Location, stat: &Stat) -> Result<(), Failure> {
    if stat.layout.producers == Producers::One {
        return seat(report, "producer", &stat.producer, location);
    }
    let alive = stat.producers.iter().filter(|member| member.is_alive()).count() as u64;
    let slots = u64::from(stat.layout.slots);
    let used = format!("{alive} of {} in use", count(slots, "slot"));
    if alive < slots {
        report.ok("producers", used)?;
    } else {
        let advice = "end one before another can attach, or create the ring with more slots";
        report.warn("producers", used, advice)?;
    }
    for member in &stat.producers {
        let who = || owner(stat, member.number);
        match State::of(member.state, &member.owner, location) {
            State::DumpingCore => {
                report.note("producers", format!("{} is dumping core: {WHILE_DUMPING}", who()))?;
            }
            State::Seat(state @ SeatState::Dead) => {
                report.note("producers", format!("{}, {}: {HOW_DEAD}", who(), state.word()))?;
            }
            _ => {}
        }
    }
    leftovers(report, location, stat)?;
    match &stat.held_up {
        None => report.ok("held up", "by no producer"),
        Some(held) if held.alive => held_up_alive(report, location, stat, held),
        Some(held) => {
            let how = held_up(location, stat, held);
            let (message, advice) = how.split_once(": ").unwrap_or((&how, ""));
            report.warn("held up", message, advice)
        }
    }
}

/// Reports the holder of a seat.
pub(super) fn seat(
    report: &mut Report,
    check: &str,
    holder: &Seat,
    location: &Location,
) -> Result<(), Failure> {
    let state = State::of(holder.state, &holder.owner, location);
    match holding(holder, state) {
        who if state == State::DumpingCore => report.note(check, format!("{who}: {WHILE_DUMPING}")),
        who if state == State::Seat(SeatState::Dead) => {
            report.note(check, format!("{who}: {HOW_DEAD}"))
        }
        who => report.ok(check, who),
    }
}

/// Reports what dead producers left open.
fn leftovers(report: &mut Report, location: &Location, stat: &Stat) -> Result<(), Failure> {
    let left =
        |member: &&Seat<ProducerFigures>| !member.is_alive() && member.figures.open.records > 0;
    let mut found = false;
    for member in stat.producers.iter().filter(left) {
        found = true;
        let open = &member.figures.open;
        let mut message = format!(
            "{}, {}, left {} open ({} bytes)",
            owner(stat, member.number),
            member.state.word(),
            count(open.records, "reservation"),
            open.bytes
        );
        let stranded = stat.totals.map_or(0, |totals| totals.stranded.records);
        if stranded > 0 {
            message += &format!("; {} stranded", count(stranded, "record"));
        }
        report.warn("leftovers", message, format!("run `perfring recover {location}`"))?;
    }
    if found {
        return Ok(());
    }
    report.ok("leftovers", "no dead producer left anything open")
}

fn held_up_alive(
    report: &mut Report,
    location: &Location,
    stat: &Stat,
    held: &HeldUp,
) -> Result<(), Failure> {
    let how = held_up(location, stat, held);
    let (message, advice) = how.split_once(": ").unwrap_or((&how, ""));
    let holder = member(stat, held.slot).map(|member| &member.owner);
    let dumps = |owner| State::of(SeatState::Alive, owner, location) == State::DumpingCore;
    let (message, advice) =
        match holder.and_then(|owner| Some((owner.pid, state(owner.pid, location)?))) {
            Some(_) if holder.is_some_and(dumps) => {
                (format!("{message}; it is dumping core"), format!("wait for it: {WHILE_DUMPING}"))
            }
            Some((pid, 'T')) => (
                format!("{message}; it was stopped by a signal"),
                format!("kill -CONT {pid} to continue it, or end it"),
            ),
            Some((_, 't')) => (
                format!("{message}; it is stopped by a debugger"),
                "let the debugger continue it, or end it".to_owned(),
            ),
            Some((pid, 'D')) => (
                format!("{message}; it waits in the kernel (see /proc/{pid}/wchan)"),
                "wait for it; a signal will not end it now".to_owned(),
            ),
            Some((_, 'S')) => (
                format!("{message}; it sleeps, or waits for something"),
                "see what it waits for, or end it".to_owned(),
            ),
            Some((_, 'R')) => {
                (format!("{message}; it is running"), "wait for it, or end it".to_owned())
            }
            _ => (message.to_owned(), advice.to_owned()),
        };
    report.warn("held up", message, advice)
}

/// Returns the state of a process, if it has this very ring open.
fn state(pid: u32, location: &Location) -> Option<char> {
    let process = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?;
    has_open(pid, location).then(|| process.stat().ok().map(|stat| stat.state))?
}
