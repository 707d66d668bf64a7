//! `perfring tail DIR`: records of all rings of a directory, as an observer: those that are there now, or as they
//! arrive.

use crate::commands::follow::{FollowArgs, TURN};
use crate::events::input;
use crate::events::live::{How, Live};
use crate::events::untold::{sum, untold};
use crate::failure::{Failure, summary};
use crate::output::last::Records;
use crate::output::{FormatArgs, Output};
use crate::records::shapes::Shapes;
use crate::records::time::Since;
use crate::stop::Stop;
use perfring_consumer::{Layout, Location, Start, stat::Refused};
use perfring_figures::owner::count;
use std::path::Path;
use std::time::{Duration, Instant};

/// For how long a record is held back so that others can be put before it.
const DELAY: Duration = Duration::from_millis(100);

pub(crate) fn run(
    args: &FollowArgs,
    records: Records,
    dir: &Path,
    start: Start,
    stop: &Stop,
) -> Result<(), Failure> {
    let since = since(&args.format, dir)?.map(Since::before_now).transpose()?;
    let mut output = Output::of_many(&args.format, Vec::new(), since);
    output.show(records);
    let mut live = match args.waits() {
        true => Some(Live::new(How::Observe(start), DELAY)?),
        false => None,
    };
    let ended = match &mut live {
        Some(live) => follow(args, records, dir, live, &mut output, stop),
        None => show(records, dir, &mut output, stop),
    };
    if matches!(ended, Err(Failure::ClosedPipe)) {
        return ended;
    }
    let flushed = output.end(None);
    let rings = rings(dir).unwrap_or_default(); // removed meanwhile
    report_unknown(&args.format, &rings);
    if args.fail_on_loss && matches!(ended, Ok(()) | Err(Failure::Timeout(_) | Failure::Signal(_)))
    {
        let counted = |(ring, layout): &(Location, Layout)| {
            sum(untold(ring, &layout.uuid, Refused::default()))
        };
        let untold = live.map_or_else(
            || rings.iter().map(counted).sum::<u64>().saturating_sub(output.lost_at_end()),
            |live| live.untold(),
        );
        let lost = output.lost().saturating_add(untold);
        if lost > 0 {
            let dir = dir.display();
            let what = format!("{lost} records of the rings in {dir} were lost");
            return flushed.and(Err(Failure::Loss(format!("{what}: see `perfring ls {dir}`"))));
        }
    }
    ended.and(flushed)
}

/// Shows what the rings hold now, or so many of their first records.
pub(super) fn show(
    records: Records,
    dir: &Path,
    output: &mut Output<'_>,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut events = input::open(&[Location::from(dir)])?;
    let mut left = records.most();
    while left > 0 {
        stop.check()?;
        for _ in 0..TURN.min(left) {
            let Some(event) = events.next()? else { return Ok(()) };
            left -= output.event(&event)?;
        }
    }
    Ok(())
}

/// Shows what the rings hold and what arrives, of rings that come later too.
fn follow(
    args: &FollowArgs,
    records: Records,
    dir: &Path,
    live: &mut Live,
    output: &mut Output<'_>,
    stop: &Stop,
) -> Result<(), Failure> {
    live.follow(dir.to_owned())?;
    let deadline = args.deadline();
    let mut left = records.most();
    let began = Instant::now();
    let mut names_at = began;
    loop {
        stop.check()?;
        let mut some = false;
        for _ in 0..TURN.min(left) {
            let Some(event) = live.next()? else { break };
            some = true;
            left -= output.event(&event)?;
        }
        // What was there at the start has come by then.
        if began.elapsed() >= DELAY && !some || began.elapsed() >= 10 * DELAY {
            output.show_last()?;
        }
        output.flush()?;
        if left == 0 {
            break;
        }
        output.report_unmet();
        let wait = args.wait(deadline, records, left)?;
        if names_at.elapsed() >= NAMES {
            names_at = Instant::now();
            live.poll_names();
            if live.rings() == 0 && !dir.exists() {
                summary(&format!("{} was removed: the end", dir.display()));
                break;
            }
        }
        if !some {
            live.wait(wait.min(NAMES));
        }
    }
    if live.damaged > 0 {
        let rings = count(live.damaged, "ring");
        return Err(Failure::Damaged(format!("{rings} in {} could not be read on", dir.display())));
    }
    Ok(())
}

/// Between two looks which rings have come or gone.
const NAMES: Duration = Duration::from_millis(20);

/// Returns the bound of `--since`, if it was given and every ring has timestamps.
pub(super) fn since(format: &FormatArgs, dir: &Path) -> Result<Option<Since>, Failure> {
    for (location, layout) in rings(dir)? {
        format.since(&location, &layout)?;
    }
    Ok(format.select.since)
}

pub(super) fn rings(dir: &Path) -> Result<Vec<(Location, Layout)>, Failure> {
    let (rings, _) = perfring_set::list(dir).map_err(Failure::general)?;
    Ok(rings.into_iter().map(|ring| (Location::from(ring.path), ring.layout)).collect())
}

/// Reports names of types that no ring has.
pub(super) fn report_unknown(format: &FormatArgs, rings: &[(Location, Layout)]) {
    let Some((first, _)) = rings.first() else { return };
    let shapes = rings.iter().filter_map(|(ring, layout)| Shapes::follow(ring, layout).ok());
    format.select.report_unknown(Some(first), &shapes.collect::<Vec<_>>());
}
