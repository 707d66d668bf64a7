//! The reasons why the system does not open, make or remove a ring's file, with the path of the obstacle.

use crate::file::create_error::CreateError;
use crate::file::error::AttachError;
use crate::file::location::{Location, dir_of};
use nix::libc;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// Said of a ring inside a larger file.
pub(crate) const WITHIN: &str = "a ring inside a larger file can only be read";
/// The number of symbolic links that are followed to find the obstacle: as many as the system follows.
const LINKS: usize = 40;

/// Returns the error of an `open(2)` that failed like this, for reading or for `wanted`.
pub(crate) fn opening(location: &Location, source: io::Error, wanted: &'static str) -> AttachError {
    let path = location.path();
    let location = location.clone();
    let io = |source| AttachError::Io { location: location.clone(), step: "opening it", source };
    match source.raw_os_error() {
        Some(libc::ENOENT) => {
            AttachError::NotFound { leads_to: missing_target(&path), location, holder: None }
        }
        Some(libc::EROFS) => AttachError::ReadOnly { location },
        Some(libc::EACCES) => match unsearchable(&path) {
            Some(dir) => AttachError::NotReachable { location, dir },
            None => AttachError::Permission { location, wanted },
        },
        Some(libc::EPERM) => io(said(ErrorKind::PermissionDenied, ATTRIBUTE.to_owned())),
        Some(libc::EISDIR) => io(said(ErrorKind::IsADirectory, DIRECTORY.to_owned())),
        Some(libc::ENOTDIR) => io(not_a_directory(&path, source)),
        Some(libc::ELOOP) => io(match fs::read_link(&path) {
            Ok(to) if fs::metadata(&path).is_ok() || missing_target(&path).is_some() => {
                let to = to.display();
                said(
                    source.kind(),
                    format!("it is a symbolic link to {to}, and is not followed here"),
                )
            }
            _ => said(source.kind(), "the symbolic links on the way lead in a circle".to_owned()),
        }),
        // For example, a socket cannot be opened.
        _ => match fs::metadata(&path).as_ref().ok().and_then(irregular) {
            Some(kind) => io(said(ErrorKind::InvalidInput, kind.to_owned())),
            None => io(source),
        },
    }
}

impl CreateError {
    /// Returns the error of a file or directory that could not be made at this location. It names the obstacle if
    /// the system's error does not.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn of_system(location: &Location, step: &'static str, source: io::Error) -> Self {
        let path = location.path();
        let dir = dir_of(&path);
        let location = location.clone();
        let shown = dir.display();
        let source = match source.raw_os_error() {
            Some(libc::EACCES) => {
                let dir = unsearchable(&path).unwrap_or_else(|| dir.to_owned());
                return CreateError::Permission { location, dir };
            }
            Some(libc::EPERM) => said(ErrorKind::PermissionDenied, ATTRIBUTE.to_owned()),
            Some(libc::EROFS) => said(
                source.kind(),
                format!("{shown} is on a file system that is mounted read-only"),
            ),
            Some(libc::ENOENT) => said(
                source.kind(),
                match missing_target(dir) {
                    Some(to) => {
                        format!(
                            "{shown} is a symbolic link to {}, which does not exist",
                            to.display()
                        )
                    }
                    None => format!("there is no directory {shown}: make it first"),
                },
            ),
            Some(libc::ENOTDIR) => not_a_directory(&path, source),
            _ => source,
        };
        CreateError::Io { location, step, source }
    }
}

/// Returns the error of an `unlink(2)` that failed like this.
pub(crate) fn removing(location: &Location, source: io::Error) -> AttachError {
    let path = location.path();
    let sticky =
        || fs::metadata(dir_of(&path)).is_ok_and(|dir| dir.permissions().mode() & 0o1000 != 0);
    let location = location.clone();
    match source.raw_os_error() {
        Some(libc::ENOENT) => AttachError::NotFound { location, leads_to: None, holder: None },
        Some(libc::EROFS) => AttachError::ReadOnly { location },
        Some(libc::EPERM) if !sticky() => {
            let source = said(ErrorKind::PermissionDenied, ATTRIBUTE.to_owned());
            AttachError::Io { location, step: "removing it", source }
        }
        Some(libc::EACCES | libc::EPERM) => AttachError::NotRemovable { location },
        _ => AttachError::Io { location, step: "removing it", source },
    }
}

/// A directory that was opened as a ring.
pub(crate) const DIRECTORY: &str = "it is a directory: name a ring in it";
/// `EPERM` has nothing to do with the modes of files and directories.
const ATTRIBUTE: &str = "an attribute of the file or its directory forbids it, which `lsattr` shows, or a security policy does";

fn said(kind: ErrorKind, why: String) -> io::Error {
    io::Error::new(kind, why)
}

/// Returns the kind of a file that is neither a regular file nor a directory.
#[must_use]
pub fn irregular(meta: &fs::Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    Some(match () {
        () if kind.is_file() || kind.is_dir() => return None,
        () if kind.is_fifo() => "it is a FIFO, not a ring's file",
        () if kind.is_socket() => "it is a socket, not a ring's file",
        () if kind.is_symlink() => "it is a symbolic link",
        () => "it is a device, not a ring's file",
    })
}

/// Returns where a symbolic link leads at last, if nothing is there.
pub(crate) fn missing_target(path: &Path) -> Option<PathBuf> {
    let (_, last) = iter::successors(Some((0, path.to_owned())), |(nth, at)| {
        let to = fs::read_link(at).ok().filter(|_| *nth < LINKS)?;
        Some((nth + 1, dir_of(at).join(to)))
    })
    .last()?;
    let missing =
        fs::symlink_metadata(&last).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    (missing && last != path).then_some(last)
}

/// Returns the first directory on the way to a path, and on the way of the links to it, that this process may not search.
fn unsearchable(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let dirs: Vec<&Path> = dir_of(&path).ancestors().collect();
        let denied = |dir: &&&Path| {
            let inside = fs::metadata(dir.join("."));
            inside.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        };
        if let Some(dir) = dirs.iter().rev().find(denied) {
            return Some(dir.to_path_buf());
        }
        path = dir_of(&path).join(fs::read_link(&path).ok()?);
    }
    None
}

/// Returns the error for a path with a component that is no directory.
fn not_a_directory(path: &Path, source: io::Error) -> io::Error {
    let dirs: Vec<&Path> = dir_of(path).ancestors().collect();
    match dirs.iter().rev().find(|dir| fs::metadata(dir).is_ok_and(|meta| !meta.is_dir())) {
        Some(dir) => said(source.kind(), format!("{} is not a directory", dir.display())),
        None => source,
    }
}
