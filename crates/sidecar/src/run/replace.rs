//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces a file by one with this content: atomically, at any crash.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    // /dev/null, or a directory, must not be replaced.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::other("it is not a regular file, and is not replaced"));
    }
    let draft = beside(path, ".new");
    File::create(&draft)?.write_all(content)?;
    fs::rename(&draft, path)
}

/// Appends to a path's file name.
pub(crate) fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(more);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    #[test]
    fn only_a_regular_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("status");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        // A socket stands for a device here.
        let socket = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(replace(&socket, b"three").is_err() && !fs::metadata(&socket).unwrap().is_file());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
