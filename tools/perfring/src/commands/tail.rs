//! `perfring tail`: shows records of a ring, or of a directory's rings, as they arrive, as an observer.

use crate::args;
use crate::commands::follow::{self, FollowArgs, Source};
use crate::commands::kernel::{self, KernelArgs};
use crate::commands::tail_dir;
use crate::failure::Failure;
use crate::output::last::Records;
use crate::stop::Stop;
use perfring_consumer::{Location, Observer, Start};

/// Show records without touching the ring
///
/// Reads as an observer: needs read permission, changes nothing. If it is too slow for an overwrite ring, it reports
/// the loss. With --perf, kernel events are merged with the ring's records in the order of time, until their process
/// ends. With --bpf, the records of BPF programs in a ring-buffer map are merged, too; -f shows later ones.
///
/// The rings of a directory are merged in the order of time; each line of text begins with the ring's name, and JSON has
/// it as "ring". With -f, rings that come later are read, too, and records are shown a tenth of a second late, so that
/// they are in order. Rings without timestamps are shown one after the other.
///
/// Example: perfring tail -f --format json /dev/shm/ticks
///
/// Example: perfring tail -f /dev/shm/rings
///
/// Example: perfring tail --perf context-switches --pid 1234 /dev/shm/log
///
/// Example: perfring tail --perf switches --all --perf-overwrite
///
/// Example: perfring tail -f --bpf /sys/fs/bpf/events /dev/shm/log
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, shm:NAME, FILE@0xOFFSET for a ring inside a larger file, or a directory of rings (not with --perf or --bpf);
    /// optional with these
    #[arg(value_parser = args::location(), required_unless_present_any = ["perf", "bpf"])]
    ring: Option<Location>,
    /// The first record: the oldest present, or only new ones. Older records are then not shown,
    /// whatever --since says
    #[arg(long, default_value = "oldest", value_parser = args::start())]
    from: Start,
    /// Show the last N of the records that are there, and with -f those that follow
    #[arg(short = 'n', long = "records", value_name = "N", conflicts_with = "first")]
    last: Option<usize>,
    /// End after N records were shown, the oldest first
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    follow: FollowArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let start = args.from;
    if start == Start::Latest && !args.kernel.waits(&args.follow) {
        let why = "--from latest has nothing to show without -f or --timeout";
        return Err(Failure::Usage(why.to_owned()));
    }
    let records = match (args.first, args.last) {
        (Some(first), _) => Records::First(first),
        (_, Some(_)) if args.kernel.is_wanted() && !args.kernel.perf_overwrite => {
            let option = args.kernel.option();
            let why =
                format!("-n shows the last records, and {option} has no last one: use --first");
            return Err(Failure::Usage(why));
        }
        (_, Some(last)) => Records::Last(last),
        _ => Records::All,
    };
    if args.kernel.perf_overwrite && args.follow.follow {
        let why = "-f shows records as they come, and --perf-overwrite shows the newest ones at the end: leave out one of the two";
        return Err(Failure::Usage(why.to_owned()));
    }
    args.follow.format.check()?;
    let stop = Stop::install()?;
    let observe = |ring: &Location| Observer::attach(ring, start);
    match &args.ring {
        Some(Location::File(dir)) if dir.is_dir() => {
            if args.kernel.is_wanted() {
                let what = match args.kernel.option() {
                    "--bpf" => "--bpf merges the records of maps",
                    _ => "--perf merges the kernel's events",
                };
                let why = format!("{what} with one ring: name a ring of the directory");
                return Err(Failure::Usage(why));
            }
            tail_dir::run(&args.follow, records, dir, start, &stop)
        }
        ring if args.kernel.is_wanted() => {
            let ring = match ring {
                Some(ring) => Some((ring, observe(ring)?)),
                None => None,
            };
            kernel::tail(&args.kernel, &args.follow, records, ring, &stop)
        }
        Some(ring) => {
            follow::run(&args.follow, records, ring, Source::Observer(observe(ring)?), &stop)
        }
        None => Err(Failure::Usage("a ring is missing; see `perfring tail --help`".to_owned())),
    }
}
