//! `perfring doctor`: checks this machine and its rings, and advises what to do.

mod consumers;
mod files;
mod leftovers;
mod machine;
mod owners;
mod read_locks;
mod remove_ipc;
mod report;
mod ring;

use crate::args;
use crate::columns;
use crate::failure::Failure;
use crate::output::figures_format::FiguresFormat;
use perfring_consumer::Location;
use report::{Report, SHM};
use std::path::Path;

/// Check this machine and its rings, and give advice
///
/// One line per check: ok, note (information), warn (needs attention) or FAIL (does not work).
/// Without a RING, every ring in /dev/shm that can be read is checked. For a recording it reports
/// the intact part. In a directory it names files that a killed process did not finish. Changes
/// nothing, and disturbs no process.
///
/// JSON has an object per check: subject, check, level, message, advice.
///
/// Exits with 0 if nothing needs attention and 1 otherwise; 3 and 4 as in all commands.
///
/// Example: perfring doctor /dev/shm/ticks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Paths, shm:NAME, or directories of rings; recordings, and directories of them
    #[arg(value_name = "RING", value_parser = args::location())]
    rings: Vec<Location>,
    #[command(flatten)]
    format: FiguresFormat,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut report = Report::new(args.format.is_json(), columns::width());
    report.subject("this machine")?;
    machine::check(&mut report)?;
    let mut leftovers = Vec::new();
    let rings = if args.rings.is_empty() {
        files::rings_in(Path::new(SHM)).into_iter().map(Location::from).collect()
    } else {
        let mut rings = Vec::new();
        for named in &args.rings {
            let found = leftovers::of(named);
            match files::rings_of(named) {
                Ok(of) if found.is_empty() || named.path().is_dir() => rings.extend(of),
                Err(Failure::NotFound(why)) if found.is_empty() && named.path().is_dir() => {
                    report.subject(&named.to_string())?;
                    report.note("rings", why)?;
                }
                // One that cannot be listed is checked as what it was named as, which says why.
                Err(_) if found.is_empty() => rings.push(named.clone()),
                _ => {}
            }
            leftovers.extend(found);
        }
        rings
    };
    if rings.is_empty() && args.rings.is_empty() {
        report.ok("rings", format!("none in {SHM} that can be read"))?;
    }
    let mut folders = vec![Path::new(SHM).to_owned()];
    for location in &rings {
        report.subject(&location.to_string())?;
        ring::check(&mut report, location)?;
        let path = location.path();
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => Path::new(".").to_owned(),
        };
        if !folders.contains(&folder) {
            files::check_drafts(&mut report, &folder)?;
            folders.push(folder);
        }
    }
    // Directories without a ring, and sets that have none yet.
    let named =
        args.rings.iter().flat_map(|named| perfring_set::dirs(named.path()).unwrap_or_default());
    for folder in named.filter(|folder| !folders.contains(folder)) {
        report.subject(&folder.display().to_string())?;
        files::check_drafts(&mut report, &folder)?;
    }
    for leftover in &leftovers {
        leftovers::check(&mut report, leftover)?;
    }
    report.end()
}
