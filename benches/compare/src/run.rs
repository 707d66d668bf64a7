//! The run: rounds in which the contestants take turns.

use crate::CompareError;
use crate::case::{Case, RINGS, absent, fits, kinds};
use crate::conductor::{Failure, INTERRUPTED, Performance, Play, hop_ns, memory_dir, perform};
use crate::contest::all::{ALL, Entry, Kind as Entrant, Role};
use crate::contest::{About, Can, Home};
use crate::machine;
use crate::options::{Options, Workload};
use crate::rows::{Absent, Contestant, Kind, Row, Sample};
use crate::sample::sample;
use crate::summary::medians;
use perfring_bench::cores::{Distance, two_cores};
use perfring_bench::drive::tick_ns;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Rounds, as a multiple of the repetitions, after which there is no more trying for as many
/// samples of one distance: the machine may never settle.
const MAX_ROUNDS: usize = 3;
/// So often a contestant may hang in a workload.
const MAX_HANGS: usize = 2;

/// A case and its samples.
struct Turn {
    case: Case,
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
    /// Whether at some distance there are enough samples of everybody.
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

/// Measures. Every row goes to `each` as soon as it is known; all of them are returned.
///
/// # Errors
/// What ends the run. That contestants fail does not.
pub fn run(
    options: &Options,
    each: &mut dyn FnMut(&Row) -> Result<(), CompareError>,
    log: &mut dyn Write,
) -> Result<Vec<Row>, CompareError> {
    options.check()?;
    let cores = two_cores()?;
    let mut run =
        Run { options, cores, tick_ns: tick_ns(), rows: Vec::new(), each, hangs: Vec::new() };
    run.tell(Row::Machine(machine::of(options, cores)?))?;
    let able = run.entrants()?;
    let mut groups = run.groups(&able)?;
    for group in &mut groups {
        let measured = run.measure(group, log);
        // At once, and also of a run that is interrupted: a report can be made of what there is.
        let turns = group.turns.iter_mut();
        let samples: Vec<Sample> = turns.flat_map(|turn| turn.samples.drain(..)).collect();
        for median in medians(&samples) {
            run.tell(Row::Median(Box::new(median)))?;
        }
        measured?;
    }
    Ok(run.rows)
}

struct Run<'a> {
    options: &'a Options,
    cores: Option<[usize; 2]>,
    tick_ns: f64,
    rows: Vec<Row>,
    each: &'a mut dyn FnMut(&Row) -> Result<(), CompareError>,
    /// Who hung, where.
    hangs: Vec<(&'static str, Workload)>,
}

impl Run<'_> {
    fn tell(&mut self, row: Row) -> Result<(), CompareError> {
        (self.each)(&row)?;
        self.rows.push(row);
        Ok(())
    }

    /// Tells who takes part and who does not, and returns the former.
    fn entrants(&mut self) -> Result<Vec<(&'static Entry, Option<Can>)>, CompareError> {
        let mut able = Vec::new();
        for entry in self.options.entries() {
            let reason = match entry.kind {
                Entrant::Ends(player) => player.check().err(),
                Entrant::NotBuilt(how) => Some(how.to_owned()),
                Entrant::Memcpy | Entrant::Line => None,
            };
            if let Some(reason) = reason {
                let name = entry.name.to_owned();
                self.tell(Row::Absent(Absent { name, workload: None, reason, failed: false }))?;
                continue;
            }
            let can = match entry.kind {
                Entrant::Ends(player) => Some(player.can()),
                _ => None,
            };
            able.push((entry, can));
            let about = about(entry, self.options);
            self.tell(Row::Contestant(Contestant {
                name: entry.name.to_owned(),
                version: about.version,
                home: about.home,
                settings: about.settings,
                waits: about.waits,
                role: entry.role,
            }))?;
        }
        Ok(able)
    }

    fn groups(
        &mut self,
        able: &[(&'static Entry, Option<Can>)],
    ) -> Result<Vec<Group>, CompareError> {
        let mut groups = Vec::new();
        let mut told: Vec<Absent> = Vec::new();
        for kind in kinds(self.options) {
            let mut turns = Vec::new();
            for &(entry, can) in able {
                match fits(&kind, entry, can.as_ref()) {
                    Ok(()) => {
                        let case = Case { kind, entry, can };
                        turns.push(Turn { case, samples: Vec::new(), out: false });
                    }
                    // Once for a workload is enough.
                    Err(Some(reason)) => {
                        let absent = absent(&kind, entry, reason, false);
                        if !told.contains(&absent) {
                            told.push(absent.clone());
                            self.tell(Row::Absent(absent))?;
                        }
                    }
                    Err(None) => {}
                }
            }
            groups.push(Group { kind, turns });
        }
        Ok(groups)
    }

    /// All rounds of a group.
    fn measure(&mut self, group: &mut Group, log: &mut dyn Write) -> Result<(), CompareError> {
        let repetitions = self.options.repetitions;
        let rounds = if self.options.short { repetitions } else { repetitions * MAX_ROUNDS };
        for round in 0..rounds {
            if group.is_complete(repetitions) {
                break;
            }
            writeln!(log, "{}, round {}", describe(&group.kind), round + 1)?;
            // Each round begins with another one: nobody has the same neighbour every time.
            let many = group.turns.len();
            for at in 0..many {
                let turn = &mut group.turns[(at + round) % many];
                if turn.out {
                    continue;
                }
                if INTERRUPTED.load(Ordering::Relaxed) {
                    return Err(CompareError::Interrupted);
                }
                match self.sample(&turn.case, round) {
                    Ok(sample) => {
                        self.tell(Row::Sample(Box::new(sample.clone())))?;
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

    /// Says that it failed. It is out of this group; who hangs too often, of the whole workload.
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
        self.tell(Row::Absent(absent(&case.kind, case.entry, reason, true)))?;
        Ok(true)
    }

    /// One sample, with the hop before and after it.
    fn sample(&mut self, case: &Case, round: usize) -> Result<Sample, Failure> {
        let here = (case.entry.name, case.kind.workload);
        if self.hangs.iter().filter(|hang| **hang == here).count() >= MAX_HANGS {
            let reason = format!("not tried, as it hung {MAX_HANGS} times before");
            return Err(Failure::Contestant { reason, hung: false });
        }
        let before = self.hop()?;
        let weigh = case.kind.workload == Workload::Memory;
        let setup = case.setup(self.options);
        let kernel_bytes = match case.entry.kind {
            Entrant::Ends(player) => player.kernel_bytes(&setup),
            _ => None,
        };
        let mut rings = if weigh { RINGS } else { 1 };
        let performance = match self.perform(case, rings) {
            // The kernel may not give a user so many.
            Err(Failure::Contestant { hung: false, .. }) if weigh => {
                rings = 1;
                self.perform(case, rings)?
            }
            other => other?,
        };
        let mut sample = sample(case, self.options, round, &performance, (rings, kernel_bytes));
        let after = self.hop()?;
        let alone = matches!(case.entry.kind, Entrant::Memcpy);
        if let (Some(before), Some(after), false) = (before, after, alone) {
            sample.figures.hop_before_ns = Some(before);
            sample.figures.hop_after_ns = Some(after);
            sample.figures.distance = Distance::of(before, after).name().to_owned();
        }
        Ok(sample)
    }

    fn perform(&self, case: &Case, rings: u64) -> Result<Performance, Failure> {
        let dir = memory_dir()?;
        let home = about(case.entry, self.options).home;
        let seconds = Duration::from_secs_f64(self.options.seconds_per_sample);
        let play = Play {
            contestant: case.entry.name,
            processes: case.processes(self.options, self.cores, home, rings, dir.path()),
            patience: self.options.patience + 2 * seconds,
            weigh: case.kind.workload == Workload::Memory,
        };
        let performed = perform(&play, dir.path());
        // Who was killed has not removed its queues, and they are charged to the user for ever.
        crate::contest::mqueue::sweep(dir.path());
        performed
    }

    fn hop(&self) -> Result<Option<f64>, CompareError> {
        self.cores.map(|cores| hop_ns(cores, self.tick_ns)).transpose()
    }
}

/// Who it is, at 64 bytes.
pub fn about(entry: &'static Entry, options: &Options) -> About {
    let kind = Kind {
        workload: Workload::Throughput,
        payload: crate::player::SMALL,
        senders: 1,
        receivers: 1,
        audience: crate::part::Audience::Keen,
    };
    let bare = |settings: &str| About {
        name: entry.name,
        version: "-".to_owned(),
        home: Home::Processes,
        settings: settings.to_owned(),
        waits: "-".to_owned(),
    };
    match entry.kind {
        Entrant::Ends(player) => {
            player.about(&Case { kind, entry, can: Some(player.can()) }.setup(options))
        }
        Entrant::Memcpy => bare("one process copies the payload into a buffer of the ring's size"),
        Entrant::Line => bare("one cache line goes back and forth"),
        Entrant::NotBuilt(how) => bare(how),
    }
}

/// A kind in words.
pub fn describe(kind: &Kind) -> String {
    let Kind { workload, payload, senders, receivers, audience } = kind;
    match workload {
        Workload::Throughput => format!("throughput of {payload} bytes"),
        Workload::Producers => format!("{senders} producers"),
        Workload::Overwrite => format!("overwrite, reader {}", audience.name()),
        Workload::Fanout => format!("fanout to {receivers}"),
        other => other.name().to_owned(),
    }
}

/// What was lost where nothing may be, damaged, or told wrongly: sentences.
pub fn faults(rows: &[Row]) -> Vec<String> {
    let mut faults = Vec::new();
    for row in rows {
        match row {
            Row::Sample(sample) => {
                let (figures, lossless) = (&sample.figures, sample.lossless);
                let mut fault = |what: String| {
                    let kind = describe(&figures.kind);
                    faults.push(format!("{}, {kind}: {what}", figures.contestant));
                };
                if figures.bad > 0 {
                    fault(format!("{} records damaged or wrongly counted", figures.bad));
                }
                if lossless && figures.lost > 0 {
                    fault(format!("{} records lost where none may be", figures.lost));
                }
                // A refused record is told as lost by who counts those, and was not sent here.
                let told = figures.told_lost.filter(|_| figures.kind.workload != Workload::Full);
                if let Some(told) = told.filter(|told| *told != figures.lost) {
                    fault(format!("told of {told} losses, and {} were seen", figures.lost));
                }
            }
            Row::Absent(absent) if absent.failed => {
                faults.push(format!("{}: {}", absent.name, absent.reason));
            }
            _ => {}
        }
    }
    faults
}

/// Names, roles, and whether they can run here.
///
/// # Errors
/// If `out` fails.
pub fn list(options: &Options, out: &mut dyn Write) -> Result<(), CompareError> {
    for entry in ALL {
        let role = match entry.role {
            Role::Limit => "limit",
            Role::Ours => "ours",
            Role::Rival => "rival",
            Role::Reference => "reference, threads",
        };
        let about = about(entry, options);
        let absent = match entry.kind {
            Entrant::Ends(player) => player.check().err(),
            Entrant::NotBuilt(how) => Some(how.to_owned()),
            _ => None,
        };
        match absent {
            Some(reason) => writeln!(out, "{} ({role}): absent: {reason}", entry.name)?,
            None => writeln!(out, "{} ({role}): {}", entry.name, about.settings)?,
        }
    }
    Ok(())
}
