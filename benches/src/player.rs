//! A contestant without its types, and the parts that it can play.

use crate::contestant::{About, Can, Contestant, Role, Setup};
use crate::duty;
use crate::error::{BenchError, Result};
use crate::part::{Duty, Part};
use crate::payload::{SMALL, sized};
use crate::stage::Stage;
use std::time::Duration;

/// How a contestant takes part.
#[derive(Clone, Copy)]
pub enum Kind {
    /// It has no two ends with something in between: this plays each of its parts.
    Bare(fn(&Part, &Stage<'_>) -> Result<()>),
    /// Two ends with something in between.
    Ends(Player),
    /// It was not compiled in: how to add it.
    NotBuilt(&'static str),
}

/// A contestant.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name in reports.
    pub name: &'static str,
    /// Its role in the comparison.
    pub role: Role,
    /// How it takes part.
    pub kind: Kind,
}

/// One process copies the payload into a buffer.
pub const MEMCPY: Entry = Entry { name: "memcpy", role: Role::Limit, kind: Kind::Bare(bare) };
/// One cache line goes back and forth.
pub const LINE: Entry = Entry { name: "line", role: Role::Limit, kind: Kind::Bare(bare) };

impl Entry {
    /// Returns a contestant with two ends.
    pub const fn of<C: Contestant>(name: &'static str, role: Role) -> Self {
        let player = Player {
            check: C::check,
            can: C::can,
            patience: C::patience,
            about: C::about,
            kernel_bytes: C::kernel_bytes,
            play: play::<C>,
        };
        Entry { name, role, kind: Kind::Ends(player) }
    }

    /// Returns a contestant that was not compiled in, and how to add it.
    pub const fn not_built(name: &'static str, how: &'static str) -> Self {
        Entry { name, role: Role::Rival, kind: Kind::NotBuilt(how) }
    }

    /// Returns it without its type, if it has two ends.
    pub fn player(&self) -> Option<Player> {
        match self.kind {
            Kind::Ends(player) => Some(player),
            _ => None,
        }
    }

    /// Returns why it cannot run here, if so.
    pub fn absent(&self) -> Option<String> {
        match self.kind {
            Kind::Ends(player) => (player.check)().err(),
            Kind::NotBuilt(how) => Some(how.to_owned()),
            Kind::Bare(_) => None,
        }
    }

    /// Returns whether it is the one that copies within one process.
    pub fn is_memcpy(&self) -> bool {
        self.name == MEMCPY.name
    }
}

/// The operations of a contestant that has two ends, without its types.
#[derive(Clone, Copy)]
pub struct Player {
    /// See [`Contestant::check`].
    pub check: fn() -> Result<(), String>,
    /// See [`Contestant::can`].
    pub can: fn() -> Can,
    /// See [`Contestant::patience`].
    pub patience: fn(Duration) -> Duration,
    /// See [`Contestant::about`].
    pub about: fn(&Setup) -> About,
    /// See [`Contestant::kernel_bytes`].
    pub kernel_bytes: fn(&Setup) -> Option<u64>,
    /// Plays a part, up to the end of the sample.
    pub play: fn(&Part, &Stage<'_>) -> Result<()>,
}

/// Plays a part of a contestant that has two ends.
fn play<C: Contestant>(part: &Part, stage: &Stage<'_>) -> Result<()> {
    let (path, setup) = (&part.path, &part.setup);
    // Ends, and what they are held by, live until all parts have ended.
    match &part.duty {
        Duty::Send(limit) => {
            stage.created()?;
            let mut sender = C::sender(path, setup, part.index)?;
            stage.done(
                sized!(setup.payload, N => duty::send::<N>(&mut sender, part, *limit, stage))?,
            )
        }
        Duty::Receive { audience, yields } => {
            let _held = match part.index {
                0 => Some(C::create(path, setup)?),
                _ => None,
            };
            stage.created()?;
            let mut receiver = C::receiver(path, setup, part.index)?;
            let polling = (*audience, *yields);
            stage.done(sized!(
                setup.payload,
                N => duty::receive::<N>(&mut receiver, part, polling, stage)
            )?)
        }
        Duty::Offer(limit) => {
            stage.created()?;
            let mut sender = C::sender(path, setup, part.index)?;
            stage.done(duty::offer::<SMALL>(&mut sender, part, *limit, stage)?)
        }
        // Both open there and then back: an end that waits for its other end finds it.
        Duty::Ask { limit, warm_up, back } => {
            let _held = C::create(back, setup)?;
            stage.created()?;
            let mut there = C::sender(path, setup, 0)?;
            let mut back = C::receiver(back, setup, 0)?;
            let (limits, sleeping) = ((*limit, *warm_up), setup.sleeping);
            stage.done(duty::ask::<SMALL>(&mut there, &mut back, limits, sleeping, stage)?)
        }
        Duty::Answer { back } => {
            let _held = C::create(path, setup)?;
            stage.created()?;
            let mut there = C::receiver(path, setup, 0)?;
            let mut back = C::sender(back, setup, 0)?;
            stage.done(duty::answer::<SMALL>(&mut there, &mut back, setup.sleeping, stage)?)
        }
        Duty::ColdReceive(times) => duty::cold_receive::<C>(part, *times, stage),
        Duty::ColdSend(times) => duty::cold_send::<C>(part, *times, stage),
        Duty::HoldReceive { rings, records } => {
            duty::hold_receive::<C>(part, *rings, *records, stage)
        }
        Duty::HoldSend { rings, records } => duty::hold_send::<C>(part, *rings, *records, stage),
        other => Err(BenchError::Usage(format!("{other:?} has no two ends"))),
    }
}

/// Plays a part of memcpy or of the line.
fn bare(part: &Part, stage: &Stage<'_>) -> Result<()> {
    stage.created()?;
    let found = match &part.duty {
        Duty::Copy(limit) => duty::copy(part, *limit, stage)?,
        Duty::AskLine(trips) => duty::ask_line(*trips, stage)?,
        Duty::AnswerLine(trips) => duty::answer_line(*trips, stage)?,
        other => return Err(BenchError::Usage(format!("{other:?} has two ends"))),
    };
    stage.done(found)
}
