//! A process that the demo's parent started.

use super::files::Files;
use super::stations::STATIONS;
use super::{producer, sidecar};
use crate::failure::Failure;
use clap::ValueEnum;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use perfring_producer::files::Removal;
use std::path::{Path, PathBuf};

/// A process of the demo
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    #[arg(value_enum)]
    role: Role,
    /// The directory of the rings.
    dir: PathBuf,
    /// The process that started this one.
    parent: i32,
    /// A producer's ring.
    ring: Option<String>,
    /// The directory for the sidecar's files.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Children end when their parent is killed.
    #[arg(long)]
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    Producer,
    Sidecar,
}

pub(crate) fn child(args: &ChildArgs) -> Result<(), Failure> {
    let orphaned = || getppid().as_raw() != args.parent;
    match args.role {
        Role::Sidecar => {
            // It ends when its stdin closes, and cleans up after a parent that was killed.
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
                return Ok(()); // the parent ended before the call above
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
        // A file that was removed already is no error.
        let _ = perfring_producer::files::remove(dir.join(station.name), Removal::Always);
    }
    let _ = std::fs::remove_dir(dir);
}
