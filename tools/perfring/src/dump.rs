//! `perfring dump`: what a ring holds, whoever wrote it and whether or not they live.

use crate::args;
use crate::failure::{Failure, note};
use crate::output::{FormatArgs, Output};
use crate::stop::Stop;
use perfring_consumer::{AttachError, Home, Snapshot, Stat, Totals};

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
        Err(error) => {
            if let AttachError::Corrupt { source, .. } = &error {
                counters_of_the_unreadable(&args.ring);
                return Err(Failure::Damaged(format!(
                    "{}: {source}, so no record of it can be shown",
                    args.ring
                )));
            }
            return Err(error.into());
        }
    };
    let mut records = 0u64;
    let mut damage = None;
    for item in &snapshot {
        stop.check()?;
        match item {
            Ok(item) => {
                records += u64::from(matches!(item, perfring_consumer::Item::Record(_)));
                output.item(item)?;
            }
            Err(error) => damage = Some(error),
        }
    }
    output.flush()?;
    counters(snapshot.totals(), records);
    match damage {
        None => Ok(()),
        Some(error) => Err(Failure::Damaged(format!(
            "{}: {error}; the {records} records before it are whole, what follows cannot be read",
            args.ring
        ))),
    }
}

fn counters_of_the_unreadable(home: &Home) {
    if let Ok(Stat { totals: Some(totals), .. }) = Stat::read(home) {
        counters(&totals, 0);
    }
}

/// The loss counters, as a sentence.
fn counters(totals: &Totals, records: u64) {
    let producer = &totals.producer;
    let lost = [
        ("full", producer.full.records),
        ("too_large", producer.too_large.records),
        ("overwritten", totals.overwritten.records),
        ("lapped", totals.consumer.lapped.records),
        ("discarded", producer.discarded.records),
    ];
    let lost: Vec<String> = lost
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    let lost = if lost.is_empty() { "nothing lost".to_owned() } else { lost.join(", ") };
    let read = totals.consumer.read.records;
    note(&format!(
        "{records} records shown; since the ring was made: written {}, read {read}, {lost}",
        producer.written.records
    ));
}
