//! Takes samples, in rounds in which the contestants take turns.

use crate::case::Case;
use crate::conductor::{Failure, Performance, Play, farthest_hop_ns, memory_dir, perform, sweep};
use crate::cores::{Distance, Placed, Places};
use crate::drive::tick_ns;
use crate::error::Result;
use crate::rows::Sample;
use crate::sample::sample;
use crate::scale::Scale;
use crate::workload::Workload;
use std::time::Duration;

/// Rounds, as a multiple of the repetitions, after which no further samples of one distance are
/// tried for: the machine may never settle.
pub const MAX_ROUNDS: usize = 3;
/// Channels that are measured together, where so many can exist at once.
const RINGS: u64 = 8;

/// A case and its samples.
pub struct Turn {
    /// The case.
    pub case: Case,
    /// Where its ends run.
    pub placed: Placed,
    /// In the order in which they were taken.
    pub samples: Vec<Sample>,
    /// It failed: no more samples are taken of it.
    pub out: bool,
}

impl Turn {
    /// Returns the turn of a case.
    pub fn new(case: Case, places: Option<&Places>) -> Self {
        Turn { case, placed: case.placed(places), samples: Vec::new(), out: false }
    }
}

/// Returns whether there are enough samples of every contestant at some distance.
pub fn complete<'a>(turns: impl Iterator<Item = &'a Turn> + Clone, repetitions: usize) -> bool {
    [Distance::Near, Distance::Far, Distance::None].iter().any(|distance| {
        turns.clone().filter(|turn| !turn.out && !turn.case.entry.is_memcpy()).all(|turn| {
            let here = turn.samples.iter().filter(|s| s.figures.distance == distance.name());
            here.count() >= repetitions
        })
    })
}

/// What all samples of a run have in common.
pub struct Bench {
    /// How much is measured.
    pub scale: Scale,
    /// The processors.
    pub places: Option<Places>,
    /// Nanoseconds of a tick of [`crate::raw::ticks`].
    pub tick_ns: f64,
}

impl Bench {
    /// Finds out about this machine.
    pub fn new(scale: Scale) -> Result<Self> {
        Ok(Bench { scale, places: Places::here()?, tick_ns: tick_ns() })
    }

    /// Takes one sample, with the hop before and after it.
    pub fn sample(&self, turn: &Turn, round: usize) -> Result<Sample, Failure> {
        let case = &turn.case;
        let before = self.hop_ns(&turn.placed)?;
        let weigh = case.kind.workload == Workload::Memory;
        let setup = case.setup(&self.scale);
        let kernel_bytes = case.entry.player().and_then(|player| (player.kernel_bytes)(&setup));
        let mut rings = if weigh { RINGS } else { 1 };
        let performance = match self.perform(turn, rings) {
            // The kernel may not allow a user so many.
            Err(Failure::Contestant { hung: false, .. }) if weigh => {
                rings = 1;
                self.perform(turn, rings)?
            }
            other => other?,
        };
        let mut sample = sample(case, &setup, round, &performance, (rings, kernel_bytes));
        sample.figures.cores = turn.placed.clone();
        let after = self.hop_ns(&turn.placed)?;
        if let (Some(before), Some(after), false) = (before, after, case.entry.is_memcpy()) {
            sample.figures.hop_before_ns = Some(before);
            sample.figures.hop_after_ns = Some(after);
            sample.figures.distance = Distance::of(before, after).name();
        }
        Ok(sample)
    }

    fn perform(&self, turn: &Turn, rings: u64) -> Result<Performance, Failure> {
        let (dir, case) = (memory_dir()?, &turn.case);
        let play = Play {
            contestant: case.entry.name,
            processes: case.processes(&self.scale, &turn.placed, rings, dir.path()),
            patience: self.patience(case),
            weigh: case.kind.workload == Workload::Memory,
        };
        let performed = perform(&play, dir.path());
        // A killed process has not removed its shared memory.
        sweep(dir.path());
        performed
    }

    /// Returns how long all of a sample may take.
    fn patience(&self, case: &Case) -> Duration {
        let Scale { patience, max_records, seconds_per_sample, .. } = self.scale;
        let patience = case.entry.player().map_or(patience, |player| (player.patience)(patience));
        match max_records {
            u64::MAX => patience + 2 * Duration::from_secs_f64(seconds_per_sample),
            _ => patience,
        }
    }

    /// Measures the hop between the receivers' core and that of the farthest sender.
    pub fn hop_ns(&self, placed: &Placed) -> Result<Option<f64>> {
        let Some(places) = &self.places else { return Ok(None) };
        let scale = (self.tick_ns, self.scale.round_trips);
        farthest_hop_ns(places.receivers(), &placed.senders, scale)
    }
}
