//! `perfring dump`: what a ring holds, whoever wrote it and whether or not they live.

use crate::args;
use crate::failure::{Failure, note};
use crate::output::{FormatArgs, Output};
use crate::stop::Stop;
use perfring_consumer::{AttachError, Corrupt, Home, Item, Observer, Snapshot, Start, Totals};

/// Show everything that a ring holds, after a crash or in full flight
///
/// Copies all intact records at one moment and changes nothing: the file of processes that were
/// killed, or a copy of it from another machine, will do. Ends with the loss counters, on stderr.
///
/// Example: perfring dump --positions /dev/shm/flight | tail -20
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::home())]
    ring: Home,
    #[command(flatten)]
    format: FormatArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let mut output = Output::new(&args.format)?;
    let snapshot = match Snapshot::take(&args.ring) {
        Ok(snapshot) => snapshot,
        Err(AttachError::Corrupt { .. }) => return salvage(args, &mut output, &stop),
        Err(error) => return Err(error.into()),
    };
    let mut records = 0u64;
    let mut damage = None;
    for item in &snapshot {
        stop.check()?;
        match item {
            Ok(item) => show(&mut output, item, &mut records)?,
            Err(error) => damage = Some(error),
        }
    }
    output.flush()?;
    counters(snapshot.totals(), records);
    damage.map_or(Ok(()), |error| Err(damaged(&args.ring, error, records)))
}

/// Shows what can be read of a ring whose books make no sense: a snapshot would be of what nobody
/// can vouch for, but an observer checks record by record.
fn salvage(args: &Args, output: &mut Output, stop: &Stop) -> Result<(), Failure> {
    let mut observer = Observer::open(&args.ring, Start::Oldest)?;
    let mut records = 0u64;
    let ended = loop {
        stop.check()?;
        match observer.read() {
            Ok(Some(item)) => show(output, item, &mut records)?,
            Ok(None) => break Corrupt { pos: observer.saved().pos },
            Err(error) => break error,
        }
    };
    output.flush()?;
    Err(damaged(&args.ring, ended, records))
}

fn show(output: &mut Output, item: Item<'_>, records: &mut u64) -> Result<(), Failure> {
    *records += u64::from(matches!(item, Item::Record(_)));
    output.item(item)
}

fn damaged(home: &Home, error: Corrupt, records: u64) -> Failure {
    let what = "records before it are whole, what follows cannot be read";
    Failure::Damaged(format!("{home}: {error}; the {records} {what}"))
}

/// The loss counters, as a sentence.
fn counters(totals: &Totals, records: u64) {
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
        "{records} records shown{stranded}; since the ring was made: written {}, read {read}, {lost}",
        producer.written.records
    ));
}
