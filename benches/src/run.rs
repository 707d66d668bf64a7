//! The run: what is measured of whom, and the rows of it.

use crate::case::Case;
use crate::conductor::{Failure, INTERRUPTED};
use crate::contestant::{About, Location, Role};
use crate::entrants::Entrants;
use crate::error::{BenchError, Result};
use crate::kinds::{absent, describe, fits, kinds};
use crate::machine::Machine;
use crate::options::Options;
use crate::payload::SMALL;
use crate::player::Entry;
use crate::rows::{Absent, Contestant, Kind, Row, Sample, Use};
use crate::summary::medians;
use crate::turns::{Bench, MAX_ROUNDS, Turn, complete};
use crate::workload::Workload;
use std::io::Write;
use std::sync::atomic::Ordering;

/// How often a contestant may hang in a workload.
const MAX_HANGS: usize = 2;

/// Describes the contestant with the settings of this case.
fn about(case: &Case, options: &Options) -> About {
    case.entry.player().map_or_else(
        || About {
            version: "-".to_owned(),
            location: Location::Processes,
            settings: "one process that copies, or a cache line that goes back and forth"
                .to_owned(),
            waits: "-".to_owned(),
        },
        |player| (player.about)(&case.setup(&options.scale)),
    )
}

/// Returns a contestant's stream of records of 64 bytes.
fn usual(entry: Entry) -> Case {
    let lossy = entry.player().is_some_and(|player| (player.can)().lossless.is_err());
    let workload = if lossy { Workload::Overwrite } else { Workload::Throughput };
    Case { kind: Kind { lossy, ..Kind::of(workload, SMALL) }, entry }
}

/// Measures. Every row is passed to `each` as soon as it is known; all of them are returned.
///
/// # Errors
/// Errors that end the run. A failing contestant does not.
pub fn run(
    entrants: &Entrants,
    options: &Options,
    each: &mut dyn FnMut(&Row) -> Result<()>,
    log: &mut dyn Write,
) -> Result<Vec<Row>> {
    options.check()?;
    let entries = entrants.chosen(options)?;
    let bench = Bench::new(options.scale.clone())?;
    let places = bench.places.as_ref();
    let machine = Machine::of(&bench.scale, places, bench.tick_ns, entrants.commit)?;
    let mut run = Run { options, bench, rows: Vec::new(), each, hangs: Vec::new() };
    run.report(Row::Machine(Box::new(machine)))?;
    let able = run.entrants(entries)?;
    for (kind, mut turns) in run.groups(&able, entrants.workloads)? {
        let measured = run.measure(&kind, &mut turns, log);
        // At once, and also for a run that is interrupted: the table has what there is.
        let samples: Vec<Sample> = turns.into_iter().flat_map(|turn| turn.samples).collect();
        for median in medians(&samples) {
            run.report(Row::Median(Box::new(median)))?;
        }
        measured?;
    }
    Ok(run.rows)
}

struct Run<'a> {
    options: &'a Options,
    bench: Bench,
    rows: Vec<Row>,
    each: &'a mut dyn FnMut(&Row) -> Result<()>,
    /// The contestants that hung, and the workload.
    hangs: Vec<(&'static str, Workload)>,
}

impl Run<'_> {
    fn report(&mut self, row: Row) -> Result<()> {
        (self.each)(&row)?;
        self.rows.push(row);
        Ok(())
    }

    /// Reports which contestants take part and which do not, and returns the former.
    fn entrants(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>> {
        let mut able = Vec::new();
        for entry in entries {
            let name = entry.name;
            if let Some(reason) = entry.absent() {
                let (workload, part, failed) = (None, None, false);
                self.report(Row::Absent(Absent { name, workload, part, reason, failed }))?;
                continue;
            }
            let About { version, location, .. } = about(&usual(entry), self.options);
            able.push(entry);
            self.report(Row::Contestant(Contestant { name, version, location, role: entry.role }))?;
        }
        Ok(able)
    }

    /// Returns the cases that are compared with each other and take turns, kind by kind.
    fn groups(&mut self, able: &[Entry], usual: &[Workload]) -> Result<Vec<(Kind, Vec<Turn>)>> {
        let mut groups = Vec::new();
        let mut reported: Vec<Absent> = Vec::new();
        for kind in kinds(self.options, usual) {
            let mut turns = Vec::new();
            for &entry in able {
                match fits(&kind, &entry) {
                    Ok(()) => {
                        let turn = Turn::new(Case { kind, entry }, self.bench.places.as_ref());
                        let About { settings, waits, .. } = about(&turn.case, self.options);
                        let waits = turn.case.waits(&waits, &turn.placed);
                        let contestant = entry.name;
                        self.report(Row::Use(Use { contestant, kind, settings, waits }))?;
                        turns.push(turn);
                    }
                    // Once per workload is enough.
                    Err(Some(reason)) => {
                        let absent = absent(&kind, &entry, reason, false);
                        if !reported.contains(&absent) {
                            reported.push(absent.clone());
                            self.report(Row::Absent(absent))?;
                        }
                    }
                    Err(None) => {}
                }
            }
            groups.push((kind, turns));
        }
        Ok(groups)
    }

    /// Runs all rounds of a group.
    fn measure(&mut self, kind: &Kind, turns: &mut [Turn], log: &mut dyn Write) -> Result<()> {
        let repetitions = self.options.scale.repetitions;
        let rounds = if self.options.short { repetitions } else { repetitions * MAX_ROUNDS };
        for round in 0..rounds {
            if complete(turns.iter(), repetitions) {
                break;
            }
            writeln!(log, "{}, round {}", describe(kind), round + 1)?;
            // Each round begins with another contestant, so that none has the same neighbour every
            // time.
            let many = turns.len();
            for at in 0..many {
                let turn = &mut turns[(at + round) % many];
                if turn.out {
                    continue;
                }
                if INTERRUPTED.load(Ordering::Relaxed) {
                    return Err(BenchError::Interrupted);
                }
                match self.sample(turn, round) {
                    Ok(sample) => {
                        self.report(Row::Sample(Box::new(sample.clone())))?;
                        turn.samples.push(sample);
                    }
                    Err(Failure::Run(error)) => return Err(error),
                    // It leaves this group; if it hangs too often, the whole workload.
                    Err(Failure::Contestant { reason, hung }) => {
                        turn.out = true;
                        let entry = turn.case.entry;
                        let reason = format!("{}: {reason}", describe(kind));
                        writeln!(log, "{} failed at {reason}", entry.name)?;
                        if hung {
                            self.hangs.push((entry.name, kind.workload));
                        }
                        self.report(Row::Absent(absent(kind, &entry, reason, true)))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn sample(&self, turn: &Turn, round: usize) -> Result<Sample, Failure> {
        let here = (turn.case.entry.name, turn.case.kind.workload);
        if self.hangs.iter().filter(|hang| **hang == here).count() >= MAX_HANGS {
            let reason = format!("not tried, as it hung {MAX_HANGS} times before");
            return Err(Failure::Contestant { reason, hung: false });
        }
        self.bench.sample(turn, round)
    }
}

/// Writes names, roles, and whether they can run here.
pub(crate) fn list(entrants: &Entrants, options: &Options, out: &mut dyn Write) -> Result<()> {
    for entry in entrants.all() {
        let role = match entry.role {
            Role::Limit => "limit",
            Role::Ours => "ours",
            Role::Rival => "rival",
        };
        let what = match entry.absent() {
            Some(reason) => format!("absent: {reason}"),
            None => about(&usual(*entry), options).settings,
        };
        writeln!(out, "{} ({role}): {what}", entry.name)?;
    }
    Ok(())
}
