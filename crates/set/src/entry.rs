//! An entry of a directory of rings: a ring, or something else.

use crate::dir::SetError;
use perfring_consumer::{AttachError, Identity, Layout, RingFile};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A ring in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingEntry {
    /// Its name in the directory, with `\u{fffd}` for what is not UTF-8.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// The ring's identity. Attaching goes by path: in a directory that others may write to, compare this
    /// with the identity of the attached ring.
    pub identity: Identity,
    /// Its layout.
    pub layout: Layout,
}

/// A directory entry that is not a ring, or cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRing {
    /// Its path.
    pub path: PathBuf,
    /// Why, as a sentence.
    pub why: String,
}

/// What a directory holds: its rings, opened, and its other entries.
pub type Listing = (Vec<(RingEntry, RingFile)>, Vec<NoRing>);

/// Why an entry is not reported as a ring.
pub(crate) enum Not {
    /// The entry does not exist any more.
    Gone,
    /// It is something else, or cannot be read.
    Because(String),
}

/// Opens a ring of a directory for inspection: a regular file, no symbolic link.
pub(crate) fn inspect(path: &Path, meta: &fs::Metadata) -> Result<(RingEntry, RingFile), Not> {
    if meta.is_symlink() {
        return Err(Not::Because("a symbolic link: it is not followed".to_owned()));
    }
    if !meta.is_file() {
        return Err(Not::Because("not a regular file".to_owned()));
    }
    let not = |error: AttachError| match error {
        AttachError::NotFound { .. } => Not::Gone,
        AttachError::Bad { source, .. } => Not::Because(source.to_string()),
        AttachError::Permission { .. } => Not::Because("no permission to read it".to_owned()),
        AttachError::Io { step, source, .. } => Not::Because(format!("{step}: {source}")),
        other => Not::Because(other.to_string()),
    };
    let file = RingFile::inspect(path).map_err(not)?;
    let entry = RingEntry {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_owned(),
        identity: file.identity().map_err(not)?,
        layout: *file.layout(),
    };
    Ok((entry, file))
}

/// Returns whether the entry is a draft of a ring, or another program's file.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Returns what a directory holds now, sorted by name: its rings, opened, and its other entries. It opens
/// what a [`Follower`](crate::Follower) would.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("rings");
/// let set = perfring_set::RingSet::open(&dir)?;
/// let producer = set.producer("one")?;
/// std::fs::write(dir.join("readme"), "rings of the shop")?;
/// let (rings, others) = perfring_set::list(&dir)?;
/// assert_eq!(rings[0].0.name, "one");
/// assert!(others[0].path.ends_with("readme"), "{}", others[0].why);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SetError::Dir`] if the directory is missing, or cannot be read.
pub fn list(dir: impl AsRef<Path>) -> Result<Listing, SetError> {
    let dir = dir.as_ref();
    let failed = |source| SetError::Dir { dir: dir.to_owned(), step: "reading it", source };
    let (mut rings, mut others) = (Vec::new(), Vec::new());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !is_hidden(&entry.file_name()) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    for path in paths {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        match inspect(&path, &meta) {
            Ok(ring) => rings.push(ring),
            Err(Not::Gone) => {}
            Err(Not::Because(why)) => others.push(NoRing { path, why }),
        }
    }
    Ok((rings, others))
}
