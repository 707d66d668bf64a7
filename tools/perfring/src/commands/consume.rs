//! `perfring consume`: takes records out of a ring as they arrive.

use crate::args;
use crate::commands::follow::{self, FollowArgs, Source};
use crate::failure::Failure;
use crate::output::last::Records;
use crate::stop::Stop;
use perfring_consumer::{Consumer, ConsumerOptions, Location};

/// Take records out of a ring
///
/// Reads as the ring's only consumer: the space is returned to the producer once the records have
/// been written to stdout, and the next consumer continues from there. Records that --type, --where
/// and --since leave out are consumed as well.
///
/// Example: perfring consume -n 100 --timeout 5s shm:ticks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::location())]
    ring: Location,
    /// The consumer's name: its seat, in a ring with named consumers
    #[arg(long, default_value = "perfring consume")]
    name: String,
    /// End after N records were shown
    #[arg(short = 'n', long = "records", value_name = "N")]
    records: Option<u64>,
    #[command(flatten)]
    follow: FollowArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    args.follow.format.check()?;
    let stop = Stop::install()?;
    let consumer = Consumer::attach_with(&args.ring, &ConsumerOptions::named(&args.name))?;
    let records = args.records.map_or(Records::All, Records::First);
    follow::run(&args.follow, records, &args.ring, Source::Consumer(consumer), &stop)
}
