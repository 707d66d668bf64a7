//! `perfring dump`: shows what a ring holds, whether or not its processes are alive.

use crate::args;
use crate::commands::tail_dir;
use crate::events::input;
use crate::failure::{Failure, detail, summary};
use crate::figures::opened::opened;
use crate::figures::{agreed, boot};
use crate::image;
use crate::output::last::Records;
use crate::output::{FormatArgs, Output};
use crate::records::shapes::Shapes;
use crate::records::time::Since;
use crate::stop::Stop;
use perfring_consumer::{
    AttachError, Item, Layout, Location, Observer, ReadError, Snapshot, Start,
    metrics::MetricsFill,
    stat::{Count, RingTotals, Stat},
};
use perfring_figures::accounts;
use perfring_figures::owner::count;
use std::path::Path;

/// Show everything in a ring, after a crash or at full speed
///
/// Copies all intact records at one moment and changes nothing. The file of killed processes, or a copy
/// of it from another machine, can be dumped as well. Ends with the loss counters, on stderr. Values of
/// instruments are not records: `perfring metrics` shows them.
///
/// Records whose types the ring knows are shown with their fields (`perfring types` shows which). A
/// damaged type table is reported on stderr; its records are then shown as bytes, and the exit code
/// is 4.
///
/// For a directory it shows the records of all rings in the order of time, each with its ring's name,
/// like `perfring tail`, and the counters of all rings together.
///
/// A kernel that has died leaves rings in persistent memory, and in its core file (vmcore): a core file, and with --image any
/// file, is searched for rings at all pages. The only one is shown. Of several, a line each is printed, with a
/// location FILE@0xOFFSET that every command which reads takes; in JSON, an object each, as of `perfring stat --json`, with
/// the place and what can be read in `image`.
///
/// Example: perfring dump --positions /dev/shm/flight | tail -20
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, shm:NAME, a directory of rings, or FILE@0xOFFSET for a ring inside a larger file
    #[arg(value_parser = args::location())]
    ring: Location,
    /// RING is a larger file: the raw image of a disk or of a guest's memory. Find the ring in it
    #[arg(long)]
    image: bool,
    #[command(flatten)]
    format: FormatArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    args.format.check()?;
    if let Location::File(dir) = &args.ring
        && dir.is_dir()
        && !args.image
    {
        return directory(args, dir, &stop);
    }
    if !args.image && !image::is_core(&args.ring) {
        return one(args, &args.ring, &stop);
    }
    let (ring, others) = image::only_ring(&args.ring, args.format.is_json(), &stop)?;
    ring.map_or(Ok(()), |ring| one(args, &ring, &stop))?;
    others
}

/// Shows what one ring holds.
fn one(args: &Args, ring: &Location, stop: &Stop) -> Result<(), Failure> {
    let snapshot = match Snapshot::take(ring) {
        Ok(snapshot) => snapshot,
        Err(AttachError::Corrupt { .. }) => return salvage(args, ring, stop),
        Err(error) => return Err(error.into()),
    };
    detail(|| opened(ring, snapshot.layout()));
    let since = args.format.since(ring, snapshot.layout())?;
    let since = since.map(|since| since.before_newest(&snapshot));
    let shapes = Shapes::of(snapshot.types().clone(), *snapshot.anchors());
    let mut output = Output::new(&args.format, shapes, since);
    let mut damage = None;
    for item in &snapshot {
        stop.check()?;
        match item {
            Ok(item) => drop(output.item(item)?),
            Err(error) => damage = Some(error),
        }
    }
    output.flush()?;
    let ended = output.end(Some(ring));
    foreign(snapshot.layout());
    counters(snapshot.layout(), snapshot.totals(), &output.sum());
    if snapshot.layout().metrics_size > 0
        && let Ok(stat) = Stat::read(ring)
    {
        instruments(ring, &stat.metrics);
    }
    damage.map_or(ended, |error| Err(damaged(ring, error, output.seen())))
}

/// Shows what all rings of a directory hold.
fn directory(args: &Args, dir: &Path, stop: &Stop) -> Result<(), Failure> {
    let since = match tail_dir::since(&args.format, dir)? {
        Some(since @ Since::Ago(_)) => {
            Some(since.before(input::newest(std::slice::from_ref(&args.ring), "--since", stop)?))
        }
        since => since.map(|since| since.before(0)),
    };
    let mut output = Output::of_many(&args.format, Vec::new(), since);
    let ended = tail_dir::show(Records::All, dir, &mut output, stop);
    if matches!(ended, Err(Failure::ClosedPipe | Failure::NotFound(_))) {
        return ended;
    }
    if let Err(failure) = output.end(None) {
        return ended.and(Err(failure)); // what is shown is not known
    }
    let rings = tail_dir::rings(dir)?;
    tail_dir::report_unknown(&args.format, &rings);
    let stats: Vec<Stat> = rings.iter().filter_map(|(ring, _)| agreed::read(ring).ok()).collect(); // or removed
    sentence(&accounts::sums(stats.iter()), &output.sum(), "the rings were");
    let areas = stats.iter().fold(MetricsFill::default(), |sum, stat| sum.plus(stat.metrics));
    instruments(&args.ring, &areas);
    ended
}

/// Shows what can be read of a ring whose totals are invalid: a snapshot would not be trustworthy,
/// but an observer checks record by record.
fn salvage(args: &Args, ring: &Location, stop: &Stop) -> Result<(), Failure> {
    let mut observer = Observer::attach(ring, Start::Oldest)?;
    let since = match args.format.since(ring, observer.layout())? {
        Some(since) => Some(since.before(newest(ring, stop)?)),
        None => None,
    };
    let shapes = Shapes::of(observer.types(), observer.anchors());
    let mut output = Output::new(&args.format, shapes, since);
    let ended = loop {
        stop.check()?;
        match observer.read() {
            Ok(Some(item)) => drop(output.item(item)?),
            Ok(None) => break ReadError::Corrupt { pos: observer.saved().pos },
            Err(error) => break error,
        }
    };
    // Report the worse damage.
    let _ = output.end(Some(ring));
    output.flush()?;
    Err(damaged(ring, ended, output.seen()))
}

/// Returns the timestamp of the last record that can be read.
fn newest(ring: &Location, stop: &Stop) -> Result<u64, Failure> {
    let mut observer = Observer::attach(ring, Start::Oldest)?;
    let mut newest = None;
    while let Ok(Some(item)) = observer.read() {
        stop.check()?;
        if let Item::Record(record) = item {
            newest = record.time.or(newest);
        }
    }
    Ok(newest.unwrap_or(0))
}

fn damaged(location: &Location, error: ReadError, records: u64) -> Failure {
    let what = "records before it are intact, what follows cannot be read";
    Failure::Damaged(format!("{location}: {error}; the {records} {what}"))
}

/// Says that the processes in a ring's figures are not this kernel's.
fn foreign(layout: &Layout) {
    if let Some(boot) = boot::sentence(layout) {
        summary(&format!("the ring is {boot}: its processes are not here"));
    }
}

/// Prints the counters of a ring as a sentence.
fn counters(layout: &Layout, totals: &RingTotals, shown: &str) {
    sentence(&accounts::counts(layout, totals), shown, "the ring was");
}

/// Says where the values of instruments are shown: they are no records.
fn instruments(location: &Location, fill: &MetricsFill) {
    if fill.used > 0 && (fill.instruments > 0 || fill.trouble().is_some()) {
        let instruments = count(fill.instruments, "instrument");
        let trouble = fill.trouble().map(|trouble| format!("; {trouble}")).unwrap_or_default();
        summary(&format!(
            "`perfring metrics {location}` shows what {instruments} measured{trouble}"
        ));
    }
}

/// Prints what was written, read and lost since then.
fn sentence(counts: &[(&str, Count)], shown: &str, since: &str) {
    let of = |name: &str| {
        counts.iter().find(|(its, _)| *its == name).map_or(0, |(_, count)| count.records)
    };
    let lost: Vec<String> = LOSSES
        .iter()
        .filter(|name| of(name) > 0)
        .map(|name| format!("{name} {}", of(name)))
        .collect();
    let lost = if lost.is_empty() { "nothing lost".to_owned() } else { lost.join(", ") };
    let stranded = match of("stranded") {
        0 => String::new(),
        stranded => format!(
            ", of them {stranded} stranded behind a dead producer's reservation (`perfring \
             recover` publishes them)"
        ),
    };
    summary(&format!(
        "{shown}{stranded}; since {since} created: written {}, read {}, {lost}",
        of("written"),
        of("read")
    ));
}

/// The counts of what a reader did not get.
const LOSSES: [&str; 8] = [
    "full",
    "too_large",
    "contended",
    "pending",
    "overwritten",
    "lapped",
    "discarded",
    "reclaimed",
];
