//! Directories of rings.

use std::fs::{DirBuilder, Permissions, metadata, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Creates a directory with this mode, whatever the umask is.
///
/// A directory that inherits its parent's group (set-group-ID) keeps that: what is made in it then belongs to the group of
/// those that read it, as in a volume of several containers.
///
/// # Errors
/// Those of `mkdir` and `chmod`; [`io::ErrorKind::AlreadyExists`] if there is something of that name.
pub fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode & 0o777).create(path)?;
    let inherited = metadata(path)?.mode() & 0o2000;
    set_permissions(path, Permissions::from_mode(mode | inherited))
}
