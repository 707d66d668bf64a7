//! An entry of a directory of rings: a ring, or something else.

use crate::dir::SetError;
use crate::not_read::{NotRead, Why};
use crate::paths::{Below, below, in_set, paths};
use perfring_consumer::{
    AttachError, Layout, Location, Producers,
    files::{Identity, RingFile, cpu_of_ring, irregular},
};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A ring in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingEntry {
    /// Its name in the directory, with `\u{fffd}` for bytes that are not UTF-8. A ring per CPU has the name of its set before
    /// that: see [`Location::name`].
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
    /// Its name in the directory: `requests/cpu3` of a set in it.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// The reason, as a sentence.
    pub why: String,
    /// The kind of the reason: except for [`NotRead::Foreign`], the entry is or may be a ring.
    pub reason: NotRead,
}

/// The content of a directory: its rings and its other entries.
pub type Listing = (Vec<RingEntry>, Vec<NoRing>);

/// Why an entry is not reported as a ring.
pub(crate) enum Not {
    /// The entry does not exist any more.
    Gone,
    /// It is something else, or cannot be read.
    Because(Why),
}

impl From<&str> for Not {
    fn from(sentence: &str) -> Self {
        sentence.to_owned().into()
    }
}

impl From<String> for Not {
    fn from(sentence: String) -> Self {
        Not::Because(sentence.into())
    }
}

impl NoRing {
    /// An entry with this path in a directory.
    pub(crate) fn new(dir: &Path, path: PathBuf, why: Why) -> Self {
        let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
        NoRing { name, path, why: why.sentence, reason: why.reason }
    }
}

/// Opens a ring of a directory for inspection: a regular file, no symbolic link. `name` is the entry's name in the
/// directory.
pub(crate) fn inspect(path: &Path, name: &OsStr) -> Result<(RingEntry, RingFile), Not> {
    regular(path, name)?;
    let not = |error| refusal(path, error);
    let file = RingFile::inspect(path).map_err(not)?;
    let is_cpus = in_set(name).is_some_and(|(_, ring)| cpu_of_ring(ring).is_some());
    if is_cpus && file.layout().producers != Producers::Cpu {
        return Err("not a ring per CPU: name its directory to see its rings".into());
    }
    let entry = RingEntry {
        name: Location::from(path).name(file.layout()),
        path: path.to_owned(),
        identity: file.identity().map_err(not)?,
        layout: *file.layout(),
    };
    Ok((entry, file))
}

/// Returns why the file at a path, which may be named there, is not reported as a ring.
pub(crate) fn refusal(path: &Path, error: AttachError) -> Not {
    let reason = NotRead::of(&error);
    let sentence = match error {
        AttachError::NotFound { .. } => return Not::Gone,
        _ if reason == NotRead::Limit => error.to_string(),
        AttachError::Bad { source, .. } => source.to_string(),
        AttachError::Permission { .. } => forbidden(path),
        AttachError::Io { step, source, .. } => format!("{step}: {source}"),
        other => other.to_string(),
    };
    Not::Because(Why { sentence, reason })
}

/// Returns why a file may not be read, with the numbers that say so.
fn forbidden(path: &Path) -> String {
    let mut sentence = "no permission to read it".to_owned();
    if let Ok(meta) = fs::metadata(path) {
        let (mode, owner) = (meta.mode() & 0o7777, meta.uid());
        let user = nix::unistd::Uid::effective();
        sentence += &format!(
            ": its mode is {mode:04o}, its owner uid {owner}, and this process is of uid {user}; \
             let that user read it, or run as its owner"
        );
    }
    sentence
}

/// Returns the reason if an entry is not a regular file. Nothing is opened: that could block, or have an effect on a device.
fn regular(path: &Path, name: &OsStr) -> Result<(), Not> {
    let meta = fs::symlink_metadata(path).map_err(|error| unknown(&error))?;
    Err(Not::from(match irregular(&meta) {
        _ if meta.is_symlink() => {
            let to = fs::read_link(path).unwrap_or_default();
            let missing = fs::metadata(path).is_err_and(|error| is_gone(&error));
            let then = if missing { "which does not exist" } else { "which is not followed" };
            format!("a symbolic link to {}, {then}", to.display())
        }
        Some(kind) => kind.to_owned(),
        None if !meta.is_dir() => return Ok(()),
        None if in_set(name).is_some() => "a directory, not a ring's file".to_owned(),
        None => match below(path) {
            Below::No(why) => return Err(Not::Because(why)),
            Below::Set(_) | Below::Empty => return Err(Not::Gone),
        },
    }))
}

/// Returns the reason if the metadata of an entry cannot be read.
pub(crate) fn unknown(error: &io::Error) -> Not {
    match error.kind() {
        _ if is_gone(error) => Not::Gone,
        io::ErrorKind::PermissionDenied => Not::Because(Why {
            sentence: "its directory may not be searched: that takes the execute bit (x) of the directory's mode"
                .to_owned(),
            reason: NotRead::Permission,
        }),
        _ => Not::Because(Why { sentence: error.to_string(), reason: NotRead::Other }),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the present content of a directory, sorted by name: its rings and its other entries. It opens one file after the
/// other, and keeps none open: a directory may hold more rings than a process may have open files. It opens the same
/// files as a [`Follower`](crate::Follower). The rings of a set of rings per CPU in the directory are rings of the
/// directory: see [`paths`](crate::paths()).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("rings");
/// let set = perfring_set::RingSet::open(&dir)?;
/// let producer = set.producer("one")?;
/// std::fs::write(dir.join("readme"), "rings of the shop")?;
/// let (rings, others) = perfring_set::list(&dir)?;
/// assert_eq!(rings[0].name, "one");
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
    for path in paths(dir).map_err(failed)? {
        match inspect(&path, path.strip_prefix(dir).unwrap_or(&path).as_os_str()) {
            Ok((ring, _)) => rings.push(ring),
            Err(Not::Gone) => {}
            Err(Not::Because(why)) => others.push(NoRing::new(dir, path, why)),
        }
    }
    Ok((rings, others))
}
