//! `perfring dump`: shows what a ring holds, whether or not its processes are alive.

use crate::args;
use crate::failure::{Failure, note};
use crate::output::{FormatArgs, Output};
use crate::records::shapes::Shapes;
use crate::stop::Stop;
use perfring_consumer::{
    AttachError, Item, Location, Observer, ReadError, RingTotals, Snapshot, Start,
};

/// Show everything that a ring holds, after a crash or in full flight
///
/// Copies all intact records at one moment and changes nothing. The file of killed processes, or a
/// copy of it from another machine, can be dumped as well. Ends with the loss counters, on stderr.
///
/// Records whose types the ring knows are shown with their fields (`perfring types` shows which). A
/// damaged type table is reported on stderr; its records are then shown as bytes, and the exit code
/// is 4.
///
/// Example: perfring dump --positions /dev/shm/flight | tail -20
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::location())]
    ring: Location,
    #[command(flatten)]
    format: FormatArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    args.format.check()?;
    let snapshot = match Snapshot::take(&args.ring) {
        Ok(snapshot) => snapshot,
        Err(AttachError::Corrupt { .. }) => return salvage(args, &stop),
        Err(error) => return Err(error.into()),
    };
    let since = args.format.since(&args.ring, snapshot.layout())?;
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
    let ended = output.end(Some(&args.ring));
    counters(snapshot.totals(), &output.sum());
    damage.map_or(ended, |error| Err(damaged(&args.ring, error, output.seen())))
}

/// Shows what can be read of a ring whose totals are invalid: a snapshot would not be trustworthy,
/// but an observer checks record by record.
fn salvage(args: &Args, stop: &Stop) -> Result<(), Failure> {
    let mut observer = Observer::open(&args.ring, Start::Oldest)?;
    let since = match args.format.since(&args.ring, observer.layout())? {
        Some(since) => Some(since.before(newest(args, stop)?)),
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
    let _ = output.end(Some(&args.ring));
    output.flush()?;
    Err(damaged(&args.ring, ended, output.seen()))
}

/// Returns the timestamp of the last record that can be read.
fn newest(args: &Args, stop: &Stop) -> Result<u64, Failure> {
    let mut observer = Observer::open(&args.ring, Start::Oldest)?;
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

/// Prints the loss counters as a sentence.
fn counters(totals: &RingTotals, shown: &str) {
    let producer = &totals.producer;
    let lost = [
        ("full", producer.refused.full.records),
        ("too_large", producer.refused.too_large.records),
        ("contended", producer.refused.contended.records),
        ("pending", producer.refused.pending.records),
        ("overwritten", totals.overwritten.records),
        ("lapped", totals.consumer.lapped.records),
        ("discarded", producer.discarded.records),
        ("reclaimed", producer.reclaimed.records),
    ];
    let lost: Vec<String> = lost
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    let lost = if lost.is_empty() { "nothing lost".to_owned() } else { lost.join(", ") };
    let read = totals.consumer.read.records;
    let stranded = match totals.stranded.records {
        0 => String::new(),
        stranded => format!(
            ", of them {stranded} stranded behind a dead producer's reservation (`perfring \
             recover` publishes them)"
        ),
    };
    note(&format!(
        "{shown}{stranded}; since the ring was created: written {}, read {read}, {lost}",
        producer.written.records
    ));
}
