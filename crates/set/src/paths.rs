//! The paths at which a directory may have rings: its entries, and the rings of the sets of rings per CPU in it.

use crate::not_read::{NotRead, Why};
use perfring_consumer::files::{cpu_of_ring, is_in_set};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The most names of one directory that are read.
pub(crate) const NAMES_MAX: usize = 100_000;

/// The kind of a directory below a directory of rings.
pub(crate) enum Below {
    /// A set of rings per CPU, with files of these names.
    Set(Vec<OsString>),
    /// A directory without files: it may become a set.
    Empty,
    /// Another directory, or a directory that cannot be read, with the reason.
    No(Why),
}

/// Reads a directory below a directory of rings.
pub(crate) fn below(dir: &Path) -> Below {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return unreadable(&error),
    };
    let mut rings = Vec::new();
    let (mut is_set, mut empty) = (false, true);
    for entry in entries.take(NAMES_MAX) {
        let name = match entry {
            Ok(entry) => entry.file_name(),
            Err(error) => return unreadable(&error),
        };
        empty &= is_hidden(&name);
        is_set |= cpu_of_ring(&name).is_some();
        if is_in_set(&name) {
            rings.push(name);
        }
    }
    match is_set {
        true => Below::Set(rings),
        false if empty => Below::Empty,
        false => Below::No(
            "a directory without rings per CPU: name it to see its rings".to_owned().into(),
        ),
    }
}

fn unreadable(error: &io::Error) -> Below {
    match error.kind() {
        // It was removed or replaced after the directory above was read.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Below::Empty,
        io::ErrorKind::PermissionDenied => {
            let sentence =
                "no permission to read this directory: it may have rings per CPU".to_owned();
            Below::No(Why { sentence, reason: NotRead::Permission })
        }
        _ => {
            let sentence = format!("reading this directory: {error}");
            Below::No(Why { sentence, reason: NotRead::Other })
        }
    }
}

/// Returns whether the entry is a draft of a ring, or another program's file.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Returns the name in its set, of a ring in a set below the directory: `cpu3` of `requests/cpu3`.
pub(crate) fn in_set(name: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let path = Path::new(name);
    let set = path.parent().filter(|set| !set.as_os_str().is_empty())?;
    Some((set.as_os_str(), path.file_name()?))
}

/// Returns the path of everything in a directory that may be a ring, sorted: its entries, except for names that begin with a
/// dot. A directory in it that has rings per CPU counts as these rings, and those with priority beside them: `requests/cpu3`
/// and `requests/priority`. A directory without files is left
/// out. No other directory is searched.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// std::fs::create_dir(dir.join("requests"))?;
/// for file in ["ring", "requests/cpu3", "requests/notes"] {
///     std::fs::write(dir.join(file), "")?;
/// }
/// assert_eq!(perfring_set::paths(dir)?, [dir.join("requests/cpu3"), dir.join("ring")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The system's, if the directory is missing, or cannot be read.
pub fn paths(dir: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if is_hidden(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        match entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| below(&path)) {
            Some(Below::Set(rings)) => paths.extend(rings.iter().map(|ring| path.join(ring))),
            Some(Below::Empty) => {}
            Some(Below::No(_)) | None => paths.push(path),
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the directories in which a directory of rings may have rings, sorted: itself, and the sets of rings per CPU in it,
/// also those without a ring yet.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// std::fs::create_dir(dir.join("requests"))?;
/// assert_eq!(perfring_set::dirs(dir)?, [dir, &dir.join("requests")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The system's, if the directory is missing, or cannot be read.
pub fn dirs(dir: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
    let mut dirs = vec![dir.as_ref().to_owned()];
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && !is_hidden(&entry.file_name()) && !matches!(below(&entry.path()), Below::No(_))
        {
            dirs.push(entry.path());
        }
    }
    dirs.sort();
    Ok(dirs)
}
