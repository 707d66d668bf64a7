//! `perfring why`: says why threads wrote late, and why records were lost.

mod live;
mod print;

use crate::args;
use crate::events::input::{self, Input, newest};
use crate::failure::Failure;
use crate::output::figures_format::FiguresFormat;
use crate::stop::Stop;
use perfring_consumer::Location;
use perfring_set::RingSet;
use perfring_why::{Analysis, Facts, Options, TOP};
use std::time::Duration;

/// Find the causes of late and of lost records
///
/// In a recording made with `perfring record --why`, the kernel's context switches explain each gap between two records of one
/// thread: preemption by a named task, blocking, page faults, its own code, and stops or throttling from /proc. The holders of
/// the ring's seats explain losses. For live rings, the command reports the present state of seats, locks and /proc. A cause is
/// never guessed: where the evidence is missing, it is "unknown", with the reason.
///
/// One sentence per finding, with its time and its certainty (certain, likely, unknown): owners of seats, losses, late reads,
/// gaps and the machine, the worst of each first; then a line with the sums. JSON has an object per finding, and one with the sums.
///
/// Exits with 0 whatever was found; 3 and 4 as in all commands.
///
/// Example: perfring record /dev/shm/perfring-1000 --why -o run.perfrec --for 10s && perfring why run.perfrec
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recording, or rings and directories of rings [default: the directory of ring sets]
    #[arg(value_name = "DIR|RING|RECORDING", value_parser = args::location())]
    inputs: Vec<Location>,
    /// Explain gaps from this length on
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = args::interval)]
    slower_than: Duration,
    /// Only what happened in the last TIME before the newest record, like 10s
    #[arg(long, value_name = "TIME", value_parser = args::interval)]
    last: Option<Duration>,
    /// Show the N worst findings; the sums are of all
    #[arg(long, value_name = "N", default_value_t = TOP)]
    top: usize,
    #[command(flatten)]
    format: FiguresFormat,
}

/// Events between two checks of the signals.
const TURN: u64 = 1024;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let mut inputs = args.inputs.clone();
    if inputs.is_empty() {
        inputs.push(Location::from(RingSet::default_dir()));
    }
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let since = match args.last {
        Some(last) => newest(&inputs, "--last", &stop)?.saturating_sub(ns(last)),
        None => 0,
    };
    let options = Options { slower_than: ns(args.slower_than), since };
    let (mut analysis, mut facts) = (Analysis::new(options), Facts::default());
    let is_recording =
        matches!(inputs.iter().map(Input::of).collect::<Vec<_>>()[..], [Input::Recording(_)]);
    let rings = match is_recording {
        true => Vec::new(),
        false => live::rings(&inputs, &mut facts, &mut analysis)?,
    };
    let mut events = input::open(&inputs)?;
    let mut damaged = Ok(());
    for number in 1u64.. {
        match events.next() {
            Ok(Some(event)) => facts.read(&event).for_each(|evidence| analysis.add(evidence)),
            Ok(None) => break,
            // What precedes the damage is explained.
            Err(failure @ Failure::Damaged(_)) => {
                damaged = Err(failure);
                break;
            }
            Err(failure) => return Err(failure),
        }
        if number.is_multiple_of(TURN) {
            stop.check()?;
        }
    }
    facts.end().for_each(|evidence| analysis.add(evidence));
    live::seats(&rings, &mut facts, &mut analysis)?;
    let report = analysis.finish();
    print::report(&report, &facts, args.top, args.format.is_json())?;
    damaged
}
