//! Detects that a followed ring was removed, or that another one took its name.

use perfring_consumer::Location;
use std::os::unix::fs::MetadataExt;

/// The name of a ring, which it may lose.
pub(crate) struct Name {
    path: std::path::PathBuf,
    identity: Option<(u64, u64)>,
}

impl Name {
    pub(crate) fn of(location: &Location) -> Self {
        let path = location.path();
        let identity = std::fs::metadata(&path).ok().map(|meta| (meta.dev(), meta.ino()));
        Name { path, identity }
    }

    pub(crate) fn is_current(&self) -> bool {
        match std::fs::metadata(&self.path) {
            Ok(meta) => self.identity == Some((meta.dev(), meta.ino())),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }
}
