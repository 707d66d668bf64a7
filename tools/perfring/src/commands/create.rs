//! `perfring create`.

use crate::args;
use crate::failure::{Failure, note};
use perfring_consumer::{Location, files::FileSystem};
use perfring_producer::{CpuProducer, Evict, Options, Policy, Producers, Report};

/// Create a ring
///
/// Allocates the ring's whole space now, so that a full disk is an error here and not later. It
/// warns on file systems that do not guarantee this (btrfs and others that copy on write, network
/// file systems).
///
/// Example: perfring create /dev/shm/ticks --size 64M --policy overwrite
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::location())]
    ring: Location,
    /// Bytes for records: a power of two, at least a page
    #[arg(long, short, default_value = "1M", value_parser = args::parse_size)]
    size: u64,
    /// What a full ring does with a new record: drop refuses it, overwrite evicts the oldest
    #[arg(long, default_value = "drop",
        value_parser = args::one_of([("drop", Policy::Drop), ("overwrite", Policy::Overwrite)]))]
    policy: Policy,
    /// One producer at a time, many that share the ring, or a directory with a ring for each CPU. The
    /// command makes the ring of its CPU, and publishers make the others
    #[arg(long, default_value = "one",
        value_parser = args::one_of([("one", Producers::One), ("many", Producers::Many), ("cpu", Producers::Cpu)]))]
    producers: Producers,
    /// With --producers many or cpu: the most producers, or processes, at a time, 1 to 4096 [default: 64]
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Store a timestamp with each record: 8 bytes and some ns each
    #[arg(long)]
    time: bool,
    /// With --producers cpu and --time: store with each record which thread wrote it, its pid and its tid: 8 bytes
    #[arg(long)]
    sample_id: bool,
    /// Named consumers, each of which gets every record: a full ring waits for the slowest. At most 32; 0 for
    /// one consumer
    #[arg(long, value_name = "N", default_value_t = 0)]
    consumers: u32,
    /// Mode bits of the file, regardless of the umask: 0640 lets a group observe it
    #[arg(long, default_value = "0600", value_parser = args::mode)]
    mode: u32,
    /// How an overwrite ring makes room: record by record, or half the ring at a time
    #[arg(long, default_value = "exact",
        value_parser = args::one_of([("exact", Evict::Exact), ("half", Evict::Half)]))]
    evict: Evict,
    /// Report losses in the stream and the counters, or only in the counters
    #[arg(long, default_value = "stream",
        value_parser = args::one_of([("stream", Report::InStream), ("counters", Report::CountersOnly)]))]
    losses: Report,
    /// Bytes for the table of record types, rounded up to whole pages, at most 16M; 0 creates a
    /// ring without one. A type takes some hundred bytes
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = args::parse_size)]
    types_size: u64,
    /// Bytes for payloads that are too long for the data area, and the length limit of each: a
    /// power of two from 64K, or 0 for none
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = args::parse_size)]
    aux_size: u64,
    /// Bytes for the values of instruments, which `perfring metrics` shows: at most 1G, or 0 for none; with
    /// `--producers many`. For each process that ever runs, a counter or a gauge takes 128 bytes, and 64 more for each further stripe;
    /// a histogram takes 5.1K for each stripe
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = args::parse_size)]
    metrics_size: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.evict == Evict::Half && args.policy == Policy::Drop {
        return Err(Failure::Usage(
            "--evict half is for overwrite rings: add --policy overwrite".to_owned(),
        ));
    }
    if args.metrics_size > 0 && args.producers != Producers::Many {
        return Err(Failure::Usage(
            "--metrics-size is for rings of many producers: add --producers many".to_owned(),
        ));
    }
    if args.slots.is_some() && args.producers == Producers::One {
        return Err(Failure::Usage(
            "--slots is for shared rings: add --producers many, or cpu".to_owned(),
        ));
    }
    if args.sample_id && (args.producers != Producers::Cpu || !args.time || args.aux_size != 0) {
        return Err(Failure::Usage(
            "--sample-id is for rings per CPU with timestamps and without an AUX area: add --producers cpu and \
             --time, and leave out --aux-size"
                .to_owned(),
        ));
    }
    let options = Options {
        size: args.size,
        policy: args.policy,
        evict: args.evict,
        report: args.losses,
        producers: args.producers,
        slots: args.slots.unwrap_or_else(|| Options::many().slots),
        time: args.time,
        sample_id: args.sample_id,
        mode: args.mode,
        types_size: args.types_size,
        aux_size: args.aux_size,
        consumers: args.consumers,
        metrics_size: args.metrics_size,
        ..Options::default()
    };
    if args.producers == Producers::Cpu {
        let Location::File(dir) = &args.ring else {
            let message =
                "rings per CPU need a directory, and no shm: name: try a path in /dev/shm";
            return Err(Failure::Usage(message.to_owned()));
        };
        CpuProducer::create(dir, &options)?;
    } else {
        perfring_producer::files::create(&args.ring, &options)?;
    }
    if let Ok(fs) = FileSystem::of(&args.ring)
        && let Some(warning) = fs.warning()
    {
        note(&format!("warning: {} is on {}: {warning}", args.ring, fs.name()));
    }
    Ok(())
}
