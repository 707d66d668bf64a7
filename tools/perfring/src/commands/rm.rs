//! `perfring rm`.

use crate::args;
use crate::failure::Failure;
use perfring_consumer::{AttachError, Location};
use perfring_producer::Removal;

/// Remove a ring
///
/// Refuses while any producer or the consumer is attached, and refuses files that are no rings.
/// Observers do not count: they keep what they have mapped.
///
/// Example: perfring rm shm:ticks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::location())]
    ring: Location,
    /// Remove it even if processes are attached: they continue on a ring that has no name
    #[arg(long, short)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let removal = if args.force { Removal::Always } else { Removal::IfFree };
    perfring_producer::remove(&args.ring, removal).map_err(|error| match &error {
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
