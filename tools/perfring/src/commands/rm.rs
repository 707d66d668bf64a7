//! `perfring rm`.

use crate::args;
use crate::events::input::rings_of;
use crate::failure::Failure;
use perfring_consumer::{AttachError, Location, Producers, stat::Stat};
use perfring_figures::accounts::is_fed;
use perfring_producer::files::Removal;
use std::path::Path;

/// Remove a ring, or a directory that has a ring for each CPU
///
/// Refuses while any producer or the consumer is attached, and refuses files that are no rings.
/// Observers do not count: they keep what they have mapped. For other directories, `perfring prune`
/// removes dead and read rings.
///
/// Example: perfring rm shm:ticks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, shm:NAME, or a directory of rings per CPU
    #[arg(value_parser = args::location())]
    ring: Location,
    /// Remove it even if processes are attached: they continue on a ring that has no name
    #[arg(long, short)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.ring {
        Location::File(path) if path.is_dir() => remove_set(args, path),
        ring => remove(ring, args.force),
    }
}

/// Removes all rings of a set, or none that is in use.
fn remove_set(args: &Args, dir: &Path) -> Result<(), Failure> {
    let rings = rings_of(&args.ring)?;
    for ring in &rings {
        if let Some(set) = ring.path().parent().filter(|set| *set != dir) {
            return Err(Failure::Usage(format!(
                "{} has sets of rings per CPU, such as {}: name the set to remove",
                dir.display(),
                set.display()
            )));
        }
        let stat = Stat::read(ring)?;
        if stat.layout.producers != Producers::Cpu {
            let dir = dir.display();
            return Err(Failure::General(format!(
                "{ring} is not the ring of a CPU: name the rings in {dir} to remove, or use `perfring prune {dir}`"
            )));
        }
        if !args.force && (is_fed(&stat) || stat.consumer.is_alive()) {
            return Err(Failure::General(format!(
                "a process is attached to {ring}; end it first, or remove the rings with --force"
            )));
        }
    }
    rings.iter().try_for_each(|ring| remove(ring, args.force))?;
    // It stays if others have files in it.
    let _ = std::fs::remove_dir(dir);
    Ok(())
}

fn remove(ring: &Location, force: bool) -> Result<(), Failure> {
    let removal = if force { Removal::Always } else { Removal::IfFree };
    perfring_producer::files::remove(ring, removal).map_err(|error| match &error {
        AttachError::Busy { .. } => {
            Failure::General(format!("{error}; end it first, or remove the ring with --force"))
        }
        AttachError::NotFound { .. } => {
            Failure::NotFound(format!("{error}, so there is nothing to remove"))
        }
        AttachError::Bad { .. } => {
            Failure::Damaged(format!("{error}; to remove it anyway, use rm(1)"))
        }
        _ => error.into(),
    })
}
