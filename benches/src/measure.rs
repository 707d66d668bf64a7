//! The order of the measurements of `perfring bench`, and their number.

use crate::cores::Places;
use crate::error::{BenchError, Result};
use crate::groups::{Group, groups};
use crate::machine::Machine;
use crate::many::crew::{self, Found};
use crate::options::{Options, Part};
use crate::report;
use crate::turns::{Bench, MAX_ROUNDS, failed};
use std::io::Write;

/// Implements [`crate::run`].
pub(crate) fn run(options: &Options, out: &mut dyn Write, log: &mut dyn Write) -> Result<()> {
    options.check()?;
    let bench = Bench::new(options.scale())?;
    let scale = &bench.scale;
    let machine = Machine::of(scale, bench.places.as_ref().map(Places::two))?;
    let mut groups = groups(options, bench.places.as_ref());
    for round in 0..scale.repetitions * MAX_ROUNDS {
        let mut open: Vec<&mut Group> =
            groups.iter_mut().filter(|group| !group.is_complete(scale.repetitions)).collect();
        if open.is_empty() {
            break;
        }
        writeln!(log, "round {}", round + 1)?;
        for turn in open.iter_mut().flat_map(|group| &mut group.turns) {
            let name = turn.case.entry.name;
            let sample = bench.sample(turn, round).map_err(|failure| failed(name, failure))?;
            turn.samples.push(sample);
        }
    }
    let found = if options.parts.contains(&Part::Many) {
        crew::run(options, &bench, log)?
    } else {
        Found::default()
    };
    report::write(&machine, options, &groups, &found, out)?;
    judge(&groups, &found)
}

/// Checks that nothing was lost where producers wait, and nothing damaged.
fn judge(groups: &[Group], found: &Found) -> Result<()> {
    let samples = || groups.iter().flat_map(|group| &group.turns).flat_map(|turn| &turn.samples);
    let lossless = samples().filter(|sample| sample.lossless);
    let lost = lossless.map(|sample| sample.figures.lost).sum::<u64>() + found.lost_while_waiting();
    let bad = samples().map(|sample| sample.figures.bad).sum::<u64>() + found.bad();
    if lost == 0 && bad == 0 { Ok(()) } else { Err(BenchError::Damaged { lost, bad }) }
}
