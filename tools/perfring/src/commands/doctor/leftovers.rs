//! What processes that were killed left behind: recordings without an end, files without their name.

use super::report::Report;
use crate::failure::Failure;
use perfring_consumer::Location;
use perfring_export::recording::{ReadError, Reader, is_recording};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that may be unfinished.
#[derive(Debug)]
pub(super) enum Leftover {
    Recording(PathBuf),
    /// A file that gets its name when it is finished, and the process that writes it.
    Part(PathBuf, i32),
}

/// Returns those that a name refers to: itself, or those in a directory and in the directories of Parquet files in it,
/// sorted by name.
pub(super) fn of(location: &Location) -> Vec<Leftover> {
    let Location::File(path) = location else { return Vec::new() };
    if !path.is_dir() {
        return leftover(path.clone()).into_iter().collect();
    }
    let mut all = Vec::new();
    for path in entries(path) {
        let parts = entries(&path).into_iter().filter_map(leftover);
        all.extend(parts.filter(|part| matches!(part, Leftover::Part(..))));
        all.extend(leftover(path));
    }
    all
}

/// Returns the paths in a directory, sorted; none of a file.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn leftover(path: PathBuf) -> Option<Leftover> {
    if is_recording(&path) {
        return Some(Leftover::Recording(path));
    }
    let name = path.file_name()?.to_str()?.strip_suffix(".part")?;
    let pid = name.rsplit_once('.')?.1.parse().ok()?;
    path.is_file().then_some(Leftover::Part(path, pid))
}

pub(super) fn check(report: &mut Report, leftover: &Leftover) -> Result<(), Failure> {
    match leftover {
        Leftover::Recording(path) => check_recording(report, path),
        Leftover::Part(path, pid) => check_part(report, path, *pid),
    }
}

fn check_recording(report: &mut Report, path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    report.subject(&shown.to_string())?;
    let (records, ended) = match Reader::open(path) {
        Ok(mut reader) => {
            let ended = loop {
                match reader.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            (reader.totals().records, ended)
        }
        Err(error) => (0, Some(error)),
    };
    match ended {
        None => report.ok("recording", format!("it is whole, with {records} records")),
        Some(ReadError::Truncated { .. }) if is_locked(path) => {
            report.note("recording", format!("it is being written; {records} records are whole"))
        }
        Some(error @ (ReadError::Truncated { .. } | ReadError::Damaged { .. })) => report.warn(
            "recording",
            error.to_string(),
            format!(
                "every command reads what is whole, and `perfring record --append -o '{shown}'` goes on \
                 behind it; `perfring export '{shown}' --to recording -o NEW` copies it into a file \
                 that has an end"
            ),
        ),
        Some(error) => report.fail("recording", error.to_string(), "read it with what wrote it"),
    }
}

/// Returns whether a process has locked the file, as one that writes a recording does.
fn is_locked(path: &Path) -> bool {
    let Ok(meta) = path.metadata() else { return false };
    let locks = procfs::locks().unwrap_or_default();
    locks.iter().any(|lock| lock.inode == meta.ino())
}

fn check_part(report: &mut Report, path: &Path, pid: i32) -> Result<(), Failure> {
    report.subject(&path.display().to_string())?;
    let size = path.metadata().map_or(0, |meta| meta.len());
    if Path::new("/proc").join(pid.to_string()).exists() {
        return report
            .note("part", format!("process {pid} has not finished it; {size} bytes so far"));
    }
    report.warn(
        "part",
        format!(
            "process {pid} was killed before it finished this perf.data or Parquet file of {size} \
             bytes, which cannot be read; what it promised to deliver is still in its rings"
        ),
        format!("remove it: rm '{}'", path.display()),
    )
}
