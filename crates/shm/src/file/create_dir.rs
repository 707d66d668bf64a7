//! Directories of rings.

use std::fs::{DirBuilder, Permissions, metadata, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Creates a directory with this mode, regardless of the umask.
///
/// A directory that inherits its parent's group (set-group-ID) keeps the bit. Its files then belong to the group of
/// their readers, for example in a volume of several containers.
///
/// # Errors
/// The errors of `mkdir` and `chmod`; [`io::ErrorKind::AlreadyExists`] if the name exists.
pub fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode & 0o777).create(path)?;
    let inherited = metadata(path)?.mode() & 0o2000;
    set_permissions(path, Permissions::from_mode(mode | inherited))
}
