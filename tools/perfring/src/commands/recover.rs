//! `perfring recover`: ends what dead producers of a shared ring left open.

use crate::args;
use crate::events::input::rings_of;
use crate::failure::Failure;
use perfring_consumer::{AttachError, Location, Producers, files::Recovered, stat::Stat};
use perfring_export::Stream;
use perfring_figures::owner::{count, held_up, name, owner};
use std::io::{LineWriter, Write};

/// End the open reservations of a shared ring's dead producers
///
/// Turns the reservations into holes, publishes the records behind them, and frees a lock that a
/// dead producer held. Producers no longer wait for dead named consumers. Nothing is taken from a
/// live process, even a stopped one. This command is rarely needed: a producer that needs the space
/// does the same. It is for a ring whose producers are all dead, or idle. For a directory, it
/// recovers all rings.
///
/// Example: perfring recover /dev/shm/ticks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, shm:NAME, or a directory of rings
    #[arg(value_parser = args::location())]
    ring: Location,
}

/// All of them, also after one that cannot be recovered.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    rings_of(&args.ring)?.iter().map(recover).fold(Ok(()), Result::and)
}

fn recover(location: &Location) -> Result<(), Failure> {
    let before = Stat::read(location)?;
    if before.layout.producers == Producers::One && before.layout.consumers == 0 {
        return say(&[format!(
            "{location} is for one producer at a time: nothing to recover; the next producer continues \
             where the last one stopped"
        )]);
    }
    let recovered = perfring_consumer::files::recover(location).map_err(|error| match &error {
        AttachError::Permission { .. } => Failure::General(format!(
            "no permission to write to {location}, which recovery needs: run this as its owner"
        )),
        AttachError::HeldUp { .. } => Failure::general(error),
        _ => error.into(),
    })?;
    let after = Stat::read(location)?;
    let mut done = sentences(&before, &recovered);
    done.extend(dropped(&before, &after));
    match &after.held_up {
        None if done.is_empty() => say(&[format!("{location}: nothing to recover")]),
        None => say(&done),
        Some(held) => {
            say(&done)?;
            let how = held_up(location, &after, held);
            Err(Failure::General(if held.alive {
                format!("{location} is held up {how}")
            } else {
                format!(
                    "{location} is still held up: another process is recovering it; run this again"
                )
            }))
        }
    }
}

/// Formats which named consumers are no longer waited for, as lines.
fn dropped(before: &Stat, after: &Stat) -> impl Iterator<Item = String> {
    let waits =
        |seat| after.consumers.iter().any(|one| one.number == seat && one.figures.waited_for);
    let dead = before.consumers.iter().filter(|one| one.figures.waited_for && !one.is_alive());
    dead.filter(move |one| !waits(one.number)).map(|one| {
        let (name, pid) = (name(&one.owner), one.owner.pid);
        format!("the consumer {name}, pid {pid}, is dead: no longer waited for")
    })
}

/// Formats what was done, as lines.
fn sentences(before: &Stat, recovered: &Recovered) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(slot) = recovered.lock {
        lines.push(format!("the lock was left by {}, dead: freed", owner(before, slot)));
    }
    for (slot, swept) in &recovered.swept {
        let reservations = count(*swept, "reservation");
        lines.push(format!("{}: {reservations} reclaimed", owner(before, *slot)));
    }
    let stranded = before.totals.map_or(0, |totals| totals.stranded.records);
    // While others publish, this number may be outdated.
    if !recovered.swept.is_empty() && stranded > 0 && !before.producers.iter().any(|m| m.is_alive())
    {
        let verb = if stranded == 1 { "is" } else { "are" };
        lines.push(format!("{} behind them {verb} published now", count(stranded, "record")));
    }
    lines
}

fn say(lines: &[String]) -> Result<(), Failure> {
    let mut out = LineWriter::new(Stream::stdout());
    for line in lines {
        writeln!(out, "{line}").map_err(Failure::output)?;
    }
    Ok(())
}
