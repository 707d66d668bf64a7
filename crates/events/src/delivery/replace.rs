//! Files that are replaced as a whole.

use super::terms::FileMode;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file by one with this content and mode: at any moment, also after a crash of the machine, it
/// has either the old content or the new one.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("status.json");
/// perfring_events::replace(&path, b"{}", perfring_events::FileMode::default())?;
/// assert_eq!(std::fs::read(&path)?, b"{}");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The system's; and that it is something else than a regular file, as `/dev/null`.
pub fn replace(path: &Path, content: &[u8], mode: FileMode) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::other("it is not a regular file, and is not replaced"));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let draft = path.with_file_name(name);
    let mut file = mode.create(&draft)?;
    let written = file.write_all(content).and_then(|()| file.sync_data());
    let named = written.and_then(|()| rename(&draft, path));
    if named.is_err() {
        let _ = fs::remove_file(&draft); // it takes room that may be what is missing
    }
    named
}

/// Renames a file that is on the disk, and waits until its new name is there, too.
///
/// # Errors
/// The system's.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    // Some file systems have no such thing.
    match File::open(directory(to)).and_then(|dir| dir.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}

/// Returns the directory of a file.
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn only_a_regular_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("status");
        replace(&path, b"one", FileMode::PRIVATE).unwrap();
        replace(&path, b"two", FileMode::PRIVATE).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        // A socket stands for a device here.
        let socket = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(
            replace(&socket, b"three", FileMode::PRIVATE).is_err()
                && !fs::metadata(&socket).unwrap().is_file()
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
