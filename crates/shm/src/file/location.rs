//! Where a ring lives: a file, or a named POSIX segment.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a ring lives.
///
/// A string that begins with `shm:` names a POSIX segment, any other is a path.
///
/// ```
/// use perfring_shm::Location;
/// assert_eq!(Location::from("shm:ticks"), Location::Segment("ticks".into()));
/// assert_eq!(Location::from("/run/ticks"), Location::File("/run/ticks".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file, best on a tmpfs.
    File(PathBuf),
    /// A segment as of `shm_open`, by its name without the slash. Linux keeps it in `/dev/shm`.
    Segment(String),
}

impl Location {
    /// Where the file system shows it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Location::File(path) => path.clone(),
            Location::Segment(name) => Path::new("/dev/shm").join(name),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(path) => path.display().fmt(f),
            Location::Segment(name) => write!(f, "shm:{name}"),
        }
    }
}

impl From<&str> for Location {
    fn from(text: &str) -> Self {
        match text.strip_prefix("shm:") {
            Some(name) => Location::Segment(name.to_owned()),
            None => Location::File(text.into()),
        }
    }
}

impl From<String> for Location {
    fn from(text: String) -> Self {
        Location::from(text.as_str())
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Location::File(path.to_owned())
    }
}

impl From<&PathBuf> for Location {
    fn from(path: &PathBuf) -> Self {
        Location::File(path.clone())
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Location::File(path)
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Self {
        location.clone()
    }
}
