//! A contestant without its types, and the parts that it can play.

use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Setup};
use crate::duty;
use crate::part::{Duty, Found, Part};
use crate::stage::Stage;
use crate::workload::{SMALL, Workload};
use perfring_bench::payload::sized;
use std::marker::PhantomData;

/// The operations of any contestant that has two ends.
pub trait Player: Sync {
    /// See [`Contestant::check`].
    ///
    /// # Errors
    /// The reason.
    fn check(&self) -> Result<(), String>;

    /// See [`Contestant::can`].
    fn can(&self) -> Can;

    /// See [`Contestant::cannot`].
    fn cannot(&self) -> Cannot;

    /// See [`Contestant::own_channels`].
    fn own_channels(&self) -> bool;

    /// See [`Contestant::remark`].
    fn remark(&self, workload: Workload) -> Option<&'static str>;

    /// See [`Contestant::about`].
    fn about(&self, setup: &Setup) -> About;

    /// See [`Contestant::kernel_bytes`].
    fn kernel_bytes(&self, setup: &Setup) -> Option<u64>;

    /// Plays a part, up to the end of the sample.
    ///
    /// # Errors
    /// Any error of the contestant.
    fn play(&self, part: &Part, stage: &Stage<'_>) -> Result<(), CompareError>;
}

/// The contestant of this type, without its type.
pub struct Of<C>(PhantomData<fn() -> C>);

impl<C> Of<C> {
    /// It holds nothing.
    pub const NEW: Self = Of(PhantomData);
}

impl<C: Contestant> Player for Of<C> {
    fn check(&self) -> Result<(), String> {
        C::check()
    }

    fn can(&self) -> Can {
        C::can()
    }

    fn cannot(&self) -> Cannot {
        C::cannot()
    }

    fn own_channels(&self) -> bool {
        C::own_channels()
    }

    fn remark(&self, workload: Workload) -> Option<&'static str> {
        C::remark(workload)
    }

    fn about(&self, setup: &Setup) -> About {
        C::about(setup)
    }

    fn kernel_bytes(&self, setup: &Setup) -> Option<u64> {
        C::kernel_bytes(setup)
    }

    fn play(&self, part: &Part, stage: &Stage<'_>) -> Result<(), CompareError> {
        let payload = part.setup.payload;
        match &part.duty {
            Duty::Send(limit) => {
                stage.created()?;
                let mut sender = C::sender(&part.path, &part.setup, part.index)?;
                let found = by_size(
                    payload,
                    |size| sized!(size, N => Ok(duty::send::<N>(&mut sender, part, *limit, stage))),
                )?;
                stage.done(found)
            }
            Duty::Receive { audience, yields } => {
                let _held = match part.index {
                    0 => Some(C::create(&part.path, &part.setup)?),
                    _ => None,
                };
                stage.created()?;
                let mut receiver = C::receiver(&part.path, &part.setup, part.index)?;
                let polling = (*audience, *yields);
                let found = by_size(
                    payload,
                    |size| sized!(size, N => Ok(duty::receive::<N>(&mut receiver, part, polling, stage))),
                )?;
                stage.done(found)
            }
            Duty::Offer(limit) => {
                stage.created()?;
                let mut sender = C::sender(&part.path, &part.setup, part.index)?;
                let found = duty::offer::<SMALL>(&mut sender, part, *limit, stage)?;
                stage.done(found)
            }
            // Both open there and then back: an end that waits for its other end finds it.
            Duty::Ask { limit, warm_up, back } => {
                let _held = C::create(back, &part.setup)?;
                stage.created()?;
                let mut there = C::sender(&part.path, &part.setup, 0)?;
                let mut back = C::receiver(back, &part.setup, 0)?;
                let found = duty::ask::<SMALL>(
                    &mut there,
                    &mut back,
                    (*limit, *warm_up),
                    part.setup.sleeping,
                    stage,
                )?;
                stage.done(found)
            }
            Duty::Answer { back } => {
                let _held = C::create(&part.path, &part.setup)?;
                stage.created()?;
                let mut there = C::receiver(&part.path, &part.setup, 0)?;
                let mut back = C::sender(back, &part.setup, 0)?;
                let found =
                    duty::answer::<SMALL>(&mut there, &mut back, part.setup.sleeping, stage)?;
                stage.done(found)
            }
            Duty::ColdReceive(times) => duty::cold_receive::<C>(part, *times, stage),
            Duty::ColdSend(times) => duty::cold_send::<C>(part, *times, stage),
            Duty::HoldReceive { rings, records } => {
                duty::hold_receive::<C>(part, *rings, *records, stage)
            }
            Duty::HoldSend { rings, records } => {
                duty::hold_send::<C>(part, *rings, *records, stage)
            }
            Duty::Copy(_) | Duty::AskLine(_) | Duty::AnswerLine(_) => bare(part, stage),
        }
    }
}

/// The inner result is the contestant's, the outer one fails if there is no such length.
fn by_size(
    payload: usize,
    body: impl FnOnce(usize) -> Result<Result<Found, CompareError>, perfring_bench::BenchError>,
) -> Result<Found, CompareError> {
    body(payload)?
}

/// Plays a part of memcpy or of the line.
///
/// # Errors
/// If the conductor has ended.
pub fn bare(part: &Part, stage: &Stage<'_>) -> Result<(), CompareError> {
    stage.created()?;
    let found = match &part.duty {
        Duty::Copy(limit) => duty::copy(part, *limit, stage)?,
        Duty::AskLine(trips) => duty::ask_line(*trips, stage)?,
        Duty::AnswerLine(trips) => duty::answer_line(*trips, stage)?,
        other => return Err(CompareError::Usage(format!("{other:?} has two ends"))),
    };
    stage.done(found)
}
