//! The run: rounds in which the contestants take turns.

use crate::CompareError;
use crate::case::{Case, RINGS, absent, fits, kinds};
use crate::conductor::{
    Failure, INTERRUPTED, Performance, Play, farthest_hop_ns, memory_dir, perform, sweep,
};
use crate::contestant::{About, Can};
use crate::entrants::{Entry, Kind as Entrant, chosen};
use crate::machine;
use crate::options::Options;
use crate::places::{Placed, Places};
use crate::rows::{Absent, Contestant, Kind, Row, Sample, Use};
use crate::sample::sample;
use crate::summary::medians;
use crate::words::{about, describe, usual};
use crate::workload::Workload;
use perfring_bench::cores::Distance;
use perfring_bench::drive::tick_ns;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Rounds, as a multiple of the repetitions, after which no further samples of one distance are
/// tried for: the machine may never settle.
const MAX_ROUNDS: usize = 3;
/// How often a contestant may hang in a workload.
const MAX_HANGS: usize = 2;

/// A case and its samples.
struct Turn {
    case: Case,
    about: About,
    placed: Placed,
    samples: Vec<Sample>,
    /// It failed, and was reported as absent.
    out: bool,
}

/// Cases that are compared with each other and take turns.
struct Group {
    kind: Kind,
    turns: Vec<Turn>,
}

impl Group {
    /// Returns whether there are enough samples of every contestant at some distance.
    fn is_complete(&self, repetitions: usize) -> bool {
        [Distance::Near, Distance::Far, Distance::None].iter().any(|distance| {
            let counted = self
                .turns
                .iter()
                .filter(|turn| !turn.out && !matches!(turn.case.entry.kind, Entrant::Memcpy));
            counted.clone().all(|turn| {
                let here = turn.samples.iter().filter(|s| s.figures.distance == distance.name());
                here.count() >= repetitions
            })
        })
    }
}

/// Measures. Every row is passed to `each` as soon as it is known; all of them are returned.
///
/// # Errors
/// Errors that end the run. A failing contestant does not.
pub fn run(
    options: &Options,
    each: &mut dyn FnMut(&Row) -> Result<(), CompareError>,
    log: &mut dyn Write,
) -> Result<Vec<Row>, CompareError> {
    options.check()?;
    let entries = chosen(options)?;
    let (places, tick_ns) = (Places::here()?, tick_ns());
    let machine = machine::of(options, places.as_ref(), tick_ns)?;
    let mut run = Run { options, places, tick_ns, rows: Vec::new(), each, hangs: Vec::new() };
    run.report(Row::Machine(machine))?;
    let able = run.entrants(entries)?;
    let mut groups = run.groups(&able)?;
    for group in &mut groups {
        let measured = run.measure(group, log);
        // At once, and also for a run that is interrupted: a report can be made of what is present.
        let turns = group.turns.iter_mut();
        let samples: Vec<Sample> = turns.flat_map(|turn| turn.samples.drain(..)).collect();
        for median in medians(&samples) {
            run.report(Row::Median(Box::new(median)))?;
        }
        measured?;
    }
    Ok(run.rows)
}

struct Run<'a> {
    options: &'a Options,
    places: Option<Places>,
    tick_ns: f64,
    rows: Vec<Row>,
    each: &'a mut dyn FnMut(&Row) -> Result<(), CompareError>,
    /// The contestants that hung, and the workload.
    hangs: Vec<(&'static str, Workload)>,
}

impl Run<'_> {
    fn report(&mut self, row: Row) -> Result<(), CompareError> {
        (self.each)(&row)?;
        self.rows.push(row);
        Ok(())
    }

    /// Reports which contestants take part and which do not, and returns the former.
    fn entrants(
        &mut self,
        entries: Vec<&'static Entry>,
    ) -> Result<Vec<(&'static Entry, Option<Can>)>, CompareError> {
        let mut able = Vec::new();
        for entry in entries {
            let reason = match entry.kind {
                Entrant::Ends(player) => player.check().err(),
                Entrant::NotBuilt(how) => Some(how.to_owned()),
                Entrant::Memcpy | Entrant::Line => None,
            };
            if let Some(reason) = reason {
                let name = entry.name.to_owned();
                self.report(Row::Absent(Absent {
                    name,
                    workload: None,
                    part: None,
                    reason,
                    failed: false,
                }))?;
                continue;
            }
            let can = match entry.kind {
                Entrant::Ends(player) => Some(player.can()),
                _ => None,
            };
            able.push((entry, can));
            let about = about(&usual(entry), self.options);
            self.report(Row::Contestant(Contestant {
                name: entry.name.to_owned(),
                version: about.version,
                location: about.location,
                role: entry.role,
                own_channels: entry.own_channels(),
            }))?;
        }
        Ok(able)
    }

    fn groups(
        &mut self,
        able: &[(&'static Entry, Option<Can>)],
    ) -> Result<Vec<Group>, CompareError> {
        let mut groups = Vec::new();
        let mut reported: Vec<Absent> = Vec::new();
        for kind in kinds(self.options) {
            let mut turns = Vec::new();
            for &(entry, can) in able {
                match fits(&kind, entry, can.as_ref()) {
                    Ok(()) => {
                        let case = Case { kind, entry, can };
                        let turn = self.turn(case);
                        self.report(Row::Use(used(&turn)))?;
                        turns.push(turn);
                    }
                    // Once per workload is enough.
                    Err(Some(reason)) => {
                        let absent = absent(&kind, entry, reason, false);
                        if !reported.contains(&absent) {
                            reported.push(absent.clone());
                            self.report(Row::Absent(absent))?;
                        }
                    }
                    Err(None) => {}
                }
            }
            groups.push(Group { kind, turns });
        }
        Ok(groups)
    }

    fn turn(&self, case: Case) -> Turn {
        let mut about = about(&case, self.options);
        let placed = case.placed(self.places.as_ref());
        about.waits = case.waits(&about.waits, &placed);
        Turn { case, about, placed, samples: Vec::new(), out: false }
    }

    /// Runs all rounds of a group.
    fn measure(&mut self, group: &mut Group, log: &mut dyn Write) -> Result<(), CompareError> {
        let repetitions = self.options.repetitions;
        let rounds = if self.options.short { repetitions } else { repetitions * MAX_ROUNDS };
        for round in 0..rounds {
            if group.is_complete(repetitions) {
                break;
            }
            writeln!(log, "{}, round {}", describe(&group.kind), round + 1)?;
            // Each round begins with another contestant, so that none has the same neighbour every
            // time.
            let many = group.turns.len();
            for at in 0..many {
                let turn = &mut group.turns[(at + round) % many];
                if turn.out {
                    continue;
                }
                if INTERRUPTED.load(Ordering::Relaxed) {
                    return Err(CompareError::Interrupted);
                }
                match self.sample(turn, round) {
                    Ok(sample) => {
                        self.report(Row::Sample(Box::new(sample.clone())))?;
                        turn.samples.push(sample);
                    }
                    Err(Failure::Run(error)) => return Err(error),
                    Err(Failure::Contestant { reason, hung }) => {
                        turn.out = self.fails(&turn.case, &reason, hung, log)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reports that it failed. It leaves this group; if it hangs too often, the whole workload.
    fn fails(
        &mut self,
        case: &Case,
        reason: &str,
        hung: bool,
        log: &mut dyn Write,
    ) -> Result<bool, CompareError> {
        let reason = format!("{}: {reason}", describe(&case.kind));
        writeln!(log, "{} failed at {reason}", case.entry.name)?;
        if hung {
            self.hangs.push((case.entry.name, case.kind.workload));
        }
        self.report(Row::Absent(absent(&case.kind, case.entry, reason, true)))?;
        Ok(true)
    }

    /// Takes one sample, with the hop before and after it.
    fn sample(&self, turn: &Turn, round: usize) -> Result<Sample, Failure> {
        let case = &turn.case;
        let here = (case.entry.name, case.kind.workload);
        if self.hangs.iter().filter(|hang| **hang == here).count() >= MAX_HANGS {
            let reason = format!("not tried, as it hung {MAX_HANGS} times before");
            return Err(Failure::Contestant { reason, hung: false });
        }
        let before = self.hop(&turn.placed)?;
        let weigh = case.kind.workload == Workload::Memory;
        let setup = case.setup(self.options);
        let kernel_bytes = match case.entry.kind {
            Entrant::Ends(player) => player.kernel_bytes(&setup),
            _ => Some(0),
        };
        let mut rings = if weigh { RINGS } else { 1 };
        let performance = match self.perform(turn, rings) {
            // The kernel may not allow a user so many.
            Err(Failure::Contestant { hung: false, .. }) if weigh => {
                rings = 1;
                self.perform(turn, rings)?
            }
            other => other?,
        };
        let mut sample = sample(case, self.options, round, &performance, (rings, kernel_bytes));
        sample.figures.cores = turn.placed.clone();
        let after = self.hop(&turn.placed)?;
        let alone = matches!(case.entry.kind, Entrant::Memcpy);
        if let (Some(before), Some(after), false) = (before, after, alone) {
            sample.figures.hop_before_ns = Some(before);
            sample.figures.hop_after_ns = Some(after);
            sample.figures.distance = Distance::of(before, after).name().to_owned();
        }
        Ok(sample)
    }

    fn perform(&self, turn: &Turn, rings: u64) -> Result<Performance, Failure> {
        let (dir, case) = (memory_dir()?, &turn.case);
        let seconds = Duration::from_secs_f64(self.options.seconds_per_sample);
        let play = Play {
            contestant: case.entry.name,
            processes: case.processes(
                self.options,
                &turn.placed,
                turn.about.location,
                rings,
                dir.path(),
            ),
            patience: self.options.patience + 2 * seconds,
            weigh: case.kind.workload == Workload::Memory,
        };
        let performed = perform(&play, dir.path());
        // A killed process has not removed its shared memory.
        sweep(dir.path());
        performed
    }

    /// Measures the hop between the receivers' core and that of the farthest sender.
    fn hop(&self, placed: &Placed) -> Result<Option<f64>, CompareError> {
        let Some(places) = &self.places else { return Ok(None) };
        farthest_hop_ns(places.receivers(), &placed.senders, self.tick_ns)
    }
}

/// Returns its settings, as a row.
fn used(turn: &Turn) -> Use {
    let Case { kind, entry, .. } = turn.case;
    let remark = match entry.kind {
        Entrant::Ends(player) => player.remark(kind.workload).map(str::to_owned),
        _ => None,
    };
    let (settings, waits) = (turn.about.settings.clone(), turn.about.waits.clone());
    Use { contestant: entry.name.to_owned(), kind, settings, waits, remark }
}
