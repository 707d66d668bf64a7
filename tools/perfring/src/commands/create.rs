//! `perfring create`.

use crate::args;
use crate::failure::Failure;
use clap::ValueEnum;
use perfring_consumer::Home;
use perfring_producer::{Evict, Options, Policy, Producers, SLOTS_DEFAULT, Tell};

/// Make a ring
///
/// The whole of its space is allocated now, so that a full disk is an error here and not later.
///
/// Example: perfring create /dev/shm/ticks --size 64M --policy overwrite
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::home())]
    ring: Home,
    /// Bytes for records: a power of two, at least a page
    #[arg(long, short, default_value = "1M", value_parser = args::size)]
    size: u64,
    /// What a full ring does with a new record: drop refuses it, overwrite gives up the oldest
    #[arg(long, value_enum, default_value_t = PolicyArg::Drop)]
    policy: PolicyArg,
    /// One producer at a time, or many that share the ring
    #[arg(long, value_enum, default_value_t = ProducersArg::One)]
    producers: ProducersArg,
    /// With --producers many: the most at a time, 1 to 4096 [default: 64]
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Stamp each record with the time: 8 bytes and some ns each
    #[arg(long)]
    time: bool,
    /// Mode bits of the file, whatever the umask: 0640 lets a group watch
    #[arg(long, default_value = "0600", value_parser = args::mode)]
    mode: u32,
    /// How an overwrite ring makes room: for each record, or half the ring at a time
    #[arg(long, value_enum, default_value_t = EvictArg::Exact)]
    evict: EvictArg,
    /// Where losses are told: in the stream and the counters, or in the counters alone
    #[arg(long, value_enum, default_value_t = LossesArg::Stream)]
    losses: LossesArg,
    /// Bytes for the table of record types, taken up to whole pages, at most 16M; 0 makes a ring
    /// without one. A type takes some hundred bytes
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = args::size)]
    types_size: u64,
    /// Bytes for payloads that are too long for the records' area, up to as many each: a power of
    /// two from 64K, or 0 for none
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = args::size)]
    aux_size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyArg {
    Drop,
    Overwrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProducersArg {
    One,
    Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EvictArg {
    Exact,
    Half,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LossesArg {
    Stream,
    Counters,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.evict == EvictArg::Half && args.policy == PolicyArg::Drop {
        return Err(Failure::Usage(
            "--evict half is for overwrite rings: add --policy overwrite".to_owned(),
        ));
    }
    if args.slots.is_some() && args.producers == ProducersArg::One {
        return Err(Failure::Usage("--slots is for shared rings: add --producers many".to_owned()));
    }
    let options = Options {
        size: args.size,
        policy: match args.policy {
            PolicyArg::Drop => Policy::Drop,
            PolicyArg::Overwrite => Policy::Overwrite,
        },
        evict: match args.evict {
            EvictArg::Exact => Evict::Exact,
            EvictArg::Half => Evict::Half,
        },
        tell: match args.losses {
            LossesArg::Stream => Tell::InStream,
            LossesArg::Counters => Tell::CountersOnly,
        },
        producers: match args.producers {
            ProducersArg::One => Producers::One,
            ProducersArg::Many => Producers::Many,
        },
        slots: args.slots.unwrap_or(SLOTS_DEFAULT),
        time: args.time,
        mode: args.mode,
        types_size: args.types_size,
        aux_size: args.aux_size,
    };
    perfring_producer::create(&args.ring, &options)?;
    Ok(())
}
