//! `perfring demo`: producers, a sidecar and a murder, in a few seconds.
//!
//! The parent starts one process per ring and a sidecar that follows them all and writes what they
//! say to files, kills a producer in mid-stream, and ends the rest in order. Every process is this program, started anew.

mod books;
mod engine;
mod files;
mod host;
mod metrics;
mod mortem;
mod parent;
mod producer;
mod records;
mod says;
mod screen;
mod sidecar;
mod watch;

use crate::failure::Failure;
use clap::ValueEnum;
use files::Files;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::getppid;
use perfring_producer::{Policy, Removal};
use std::path::{Path, PathBuf};

/// See rings at work: producers, a sidecar that follows them all, and one kill -9
///
/// Six processes publish what this host is doing, each into a ring of its own; a sidecar process
/// follows all of them in one order of time, shows them, and writes a trace for Perfetto and lines of
/// JSON. One producer is killed in mid-stream, and its file is read post-mortem. At the end the books
/// must balance. The rings live in a directory that is removed again; the two files stay.
///
/// Example: perfring demo --seconds 20 --out traces
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long it takes
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// Where the trace and the lines are put; without it, in a fresh directory among the
    /// temporary ones
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) use parent::run;

/// A process of the demo
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    #[arg(value_enum)]
    role: Role,
    /// Where the rings are.
    dir: PathBuf,
    /// The process that started this one.
    parent: i32,
    /// A producer's ring.
    ring: Option<String>,
    /// Where a sidecar puts its files.
    #[arg(long)]
    out: Option<PathBuf>,
    /// They go with a parent that was killed.
    #[arg(long)]
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    Producer,
    Sidecar,
}

/// One ring of the demo, with the process that feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Station {
    /// Of the ring's file, and for people.
    name: &'static str,
    topic: Topic,
    policy: Policy,
    size: u64,
}

/// What a station publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    /// OpenTelemetry's signals: gauges, spans, log records.
    Metrics,
    Cpu,
    Io,
    Processes,
    /// Bursts of looks at the clock, larger than the ring: it must refuse some.
    Burst,
    /// Looks at the clock in a steady stream.
    Flight,
}

const fn station(name: &'static str, topic: Topic, policy: Policy, kib: u64) -> Station {
    Station { name, topic, policy, size: kib << 10 }
}

const STATIONS: [Station; 6] = [
    // So large that its sink can say what its process is at any time.
    station("metrics", Topic::Metrics, Policy::Drop, 1024),
    station("cpu", Topic::Cpu, Policy::Drop, 256),
    station("io", Topic::Io, Policy::Drop, 256),
    station("processes", Topic::Processes, Policy::Drop, 256),
    station("burst", Topic::Burst, Policy::Drop, 64),
    station("flight", Topic::Flight, Policy::Overwrite, 1024),
];

/// The station whose producer is killed.
const VICTIM: &str = "flight";

pub(crate) fn child(args: &ChildArgs) -> Result<(), Failure> {
    let orphaned = || getppid().as_raw() != args.parent;
    match args.role {
        Role::Sidecar => {
            // It ends with its stdin, and cleans up after a parent that was killed.
            let out = args.out.as_deref().ok_or_else(|| Failure::Usage("demo: no --out".into()))?;
            let files = Files::of(out);
            let ended = sidecar::run(&args.dir, &files);
            if matches!(ended, Ok(sidecar::Ended::Abandoned)) || orphaned() {
                clean_up(&args.dir);
                if args.fresh {
                    files.remove();
                }
            }
            ended.map(drop)
        }
        Role::Producer => {
            let failed = |errno| Failure::General(format!("demo: prctl: {errno}"));
            set_pdeathsig(Signal::SIGKILL).map_err(failed)?;
            if orphaned() {
                return Ok(()); // before the call above
            }
            let station = STATIONS.iter().find(|known| Some(known.name) == args.ring.as_deref());
            let station = station.ok_or_else(|| Failure::Usage("demo: no such ring".to_owned()))?;
            producer::run(station, &args.dir)
        }
    }
}

/// Removes the rings, and the directory if nothing else is in it.
fn clean_up(dir: &Path) {
    for station in &STATIONS {
        // What is gone already need not be removed.
        let _ = perfring_producer::remove(dir.join(station.name), Removal::Always);
    }
    let _ = std::fs::remove_dir(dir);
}

/// `CLOCK_BOOTTIME`, which all processes of a machine share, and the rings' stamps are of, in ns.
fn now_ns() -> u64 {
    // Cannot fail for this clock.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
