//! Files that are locked.

use rustix::fs::{Mode, OFlags, open as open_file};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Opens a file for its locks, and creates it if there is none: for this user alone, because any process that can open it can
/// lock it. No link is followed, and no FIFO is waited for.
///
/// # Errors
/// The system's error, or a sentence: it is of another user, or no file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags =
        OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(open_file(path, flags, Mode::RUSR | Mode::WUSR)?);
    let meta = file.metadata()?;
    let advice = "remove it, or use a directory that only this user may write to";
    if !meta.is_file() {
        return Err(io::Error::other(format!("it is no regular file: {advice}")));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("it belongs to uid {}: {advice}", meta.uid())));
    }
    if meta.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?; // of an earlier version
    }
    Ok(file)
}
