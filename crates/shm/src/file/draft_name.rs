//! The temporary names of unfinished rings, on file systems without nameless files, and the names that killed processes left
//! behind.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A younger draft counts as being made, with or without a lock: a process locks the file after it has made it.
const YOUNG: Duration = Duration::from_secs(60);

/// Returns the name of a draft of the ring with this id.
pub(super) fn draft_name(uuid: [u8; 16]) -> String {
    format!(".perfring-{}.tmp", uuid::Uuid::from_bytes(uuid).simple())
}

/// Returns whether a file of this name is a ring in the making, or was one when its process was killed.
fn is_draft(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(".perfring-") && name.ends_with(".tmp"))
}

/// Keeps others from removing a draft, while the file is open and until [`File::unlock`]. On a file system without such locks,
/// the time of the last change decides.
pub(super) fn hold(draft: &File) {
    let _ = draft.try_lock();
}

/// Returns the files of rings in a directory that were never finished because their processes were killed, sorted by name.
/// [`remove_dead_drafts`] removes them.
///
/// # Errors
/// The errors of reading the directory.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let draft = dir.path().join(".perfring-8e0a4b2c6d1f43579b8d2e6f0a1c3b5d.tmp");
/// std::fs::write(&draft, "")?;
/// assert!(perfring_shm::dead_drafts(dir.path())?.is_empty(), "it may be in the making");
///
/// let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
/// std::fs::File::open(&draft)?.set_modified(hour_ago)?;
/// assert_eq!(perfring_shm::dead_drafts(dir.path())?, [draft]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn dead_drafts(dir: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.flatten().filter(|entry| is_draft(&entry.file_name()));
    let mut dead: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_dead).collect();
    dead.sort();
    Ok(dead)
}

/// Removes the files of [`dead_drafts`]. A creation that needs such a name and `perfring prune` call it. Files that this user
/// may not remove stay.
pub fn remove_dead_drafts(dir: impl AsRef<Path>) {
    for dead in dead_drafts(dir).unwrap_or_default() {
        let _ = fs::remove_file(dead);
    }
}

fn is_dead(draft: &PathBuf) -> bool {
    let Ok(meta) = fs::symlink_metadata(draft) else { return false };
    let is_old = meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > YOUNG));
    // The clock may have been set since the file was made: a process that still makes it has the lock.
    is_old && meta.is_file() && File::open(draft).map_or(true, |file| !is_held(&file))
}

fn is_held(draft: &File) -> bool {
    matches!(draft.try_lock(), Err(TryLockError::WouldBlock))
}
