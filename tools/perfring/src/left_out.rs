//! What a command leaves out of a directory: files that are no rings, and rings for which the process has no descriptor left.

use crate::failure::{Failure, note};
use perfring_consumer::AttachError;
use perfring_export::recording::is_recording;
use perfring_figures::owner::{count, printable};
use perfring_set::{NoRing, NotRead};
use rustix::process::{Resource, getrlimit};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Files that are printed.
const FILES: usize = 5;
/// Reasons for which one more file is printed each.
const REASONS: usize = 5;

static LEFT_OUT: Mutex<Option<LeftOut>> = Mutex::new(None);

#[derive(Default)]
struct LeftOut {
    reasons: HashSet<String>,
    printed: HashSet<PathBuf>,
    /// Files that are not printed.
    more: HashSet<PathBuf>,
    /// Rings, or files that may be rings.
    unopened: HashSet<PathBuf>,
    /// Rings that this user may not read, and rings that are damaged.
    forbidden: HashSet<PathBuf>,
    damaged: HashSet<PathBuf>,
}

impl LeftOut {
    fn with<T>(act: impl FnOnce(&mut LeftOut) -> T) -> T {
        let mut all = LEFT_OUT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        act(all.get_or_insert_default())
    }
}

/// Reports entries of a directory that are left out: a line for each of the first, and for the first of a few more
/// reasons. [`end`] counts the others.
pub(crate) fn report<'a>(others: impl IntoIterator<Item = &'a NoRing>) {
    for NoRing { path, why, reason, .. } in others {
        noted(path, *reason);
        match reason {
            NotRead::Limit => unopened(path),
            NotRead::Foreign if is_recording(path) => entry(path, &recording(path)),
            _ => entry(path, why),
        }
    }
}

/// Says how a recording among the files of a directory is read.
pub(crate) fn recording(path: &Path) -> String {
    let path = printable(&path.display().to_string());
    format!("it is a recording: `perfring why {path}` and `perfring export {path}` read it")
}

/// Reports a ring of a directory that is left out.
pub(crate) fn ring(path: &Path, error: &AttachError) {
    noted(path, NotRead::of(error));
    if error.is_shortage() { unopened(path) } else { entry(path, &error.to_string()) }
}

fn noted(path: &Path, reason: NotRead) {
    LeftOut::with(|all| match reason {
        NotRead::Permission => drop(all.forbidden.insert(path.to_owned())),
        NotRead::Damaged => drop(all.damaged.insert(path.to_owned())),
        _ => {}
    });
}

/// Fails if rings were left out that are still there: for a command that has read none.
pub(crate) fn none_was_read() -> Result<(), Failure> {
    let number = |paths: &HashSet<PathBuf>| {
        let is_gone = |path: &&PathBuf| {
            path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        paths.iter().filter(|path| !is_gone(path)).count() as u64
    };
    match LeftOut::with(|all| (number(&all.forbidden), number(&all.damaged))) {
        (0, 0) => Ok(()),
        (0, damaged) => Err(Failure::Damaged(format!(
            "no ring was read: {} left out as damaged; `perfring dump` shows what can still be read",
            count(damaged, "ring")
        ))),
        (rings, damaged) => Err(forbidden(rings, damaged, "")),
    }
}

/// Says that there are rings, and that this user may read none. `damaged` is the number of other rings, which are damaged.
pub(crate) fn forbidden(rings: u64, damaged: u64, place: &str) -> Failure {
    let rings = count(rings, "ring");
    let others = match damaged {
        0 => "no other is there".to_owned(),
        1 => "the only other one is damaged".to_owned(),
        more => format!("all {more} others are damaged"),
    };
    let how = "run the command as their owner or as root, or have the owner allow it (`chmod go+r`, or `--mode` of \
               `perfring create`)";
    Failure::Forbidden(format!("no permission to read {rings}{place}, and {others}: {how}"))
}

/// Reports a ring that is left out, because this other file has the same ring.
pub(crate) fn copy(path: &Path, of: &Path) {
    let of = printable(&of.display().to_string());
    entry(path, &format!("a copy of {of}, which is read: name one of them"));
}

/// Counts a ring for which there is no descriptor left: the command ends with an error.
pub(crate) fn unopened(path: &Path) {
    LeftOut::with(|all| all.unopened.insert(path.to_owned()));
}

/// Notes that a ring could be opened after all.
pub(crate) fn opened(path: &Path) {
    LeftOut::with(|all| {
        for paths in [&mut all.unopened, &mut all.forbidden, &mut all.damaged] {
            paths.remove(path);
        }
    });
}

fn entry(path: &Path, why: &str) {
    // Without what differs from file to file, such as the magic.
    let reason = why.split(": ").next().unwrap_or(why);
    LeftOut::with(|all| {
        if all.printed.contains(path) || all.more.contains(path) {
            return; // a command that repeats
        }
        let is_new = all.reasons.len() < REASONS && all.reasons.insert(reason.to_owned());
        if is_new || all.printed.len() < FILES {
            all.printed.insert(path.to_owned());
            note(&format!("{} is left out: {why}", printable(&path.display().to_string())));
        } else {
            all.more.insert(path.to_owned());
        }
    });
}

/// Reports what was left out and not named. Fails if rings were left out for want of descriptors.
pub(crate) fn end() -> Result<(), Failure> {
    let Some(all) = LEFT_OUT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() else {
        return Ok(());
    };
    if !all.more.is_empty() {
        let files = count(all.more.len() as u64, "more file");
        let (are, like) = if all.more.len() == 1 { ("is", "its") } else { ("are", "their") };
        note(&format!("{files} {are} left out; `perfring doctor FILE` says {like} reason"));
    }
    if all.unopened.is_empty() {
        return Ok(());
    }
    let rings = count(all.unopened.len() as u64, "ring");
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or("so many".to_owned(), |limit| limit.to_string());
    Err(Failure::General(format!(
        "{rings} left out: this process may have {limit} files open: raise that limit (`ulimit -n`, LimitNOFILE of a systemd \
         unit), or name fewer rings"
    )))
}
