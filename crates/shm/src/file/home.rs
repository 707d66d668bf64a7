//! Where a ring lives: a file, or a named POSIX segment.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a ring lives.
///
/// A string that begins with `shm:` names a POSIX segment, any other is a path.
///
/// ```
/// use perfring_shm::Home;
/// assert_eq!(Home::from("shm:ticks"), Home::Segment("ticks".into()));
/// assert_eq!(Home::from("/run/ticks"), Home::File("/run/ticks".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// A file, best on a tmpfs.
    File(PathBuf),
    /// A segment as of `shm_open`, by its name without the slash. Linux keeps it in `/dev/shm`.
    Segment(String),
}

impl Home {
    /// Where the file system shows it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Home::File(path) => path.clone(),
            Home::Segment(name) => Path::new("/dev/shm").join(name),
        }
    }
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Home::File(path) => path.display().fmt(f),
            Home::Segment(name) => write!(f, "shm:{name}"),
        }
    }
}

impl From<&str> for Home {
    fn from(text: &str) -> Self {
        match text.strip_prefix("shm:") {
            Some(name) => Home::Segment(name.to_owned()),
            None => Home::File(text.into()),
        }
    }
}

impl From<String> for Home {
    fn from(text: String) -> Self {
        Home::from(text.as_str())
    }
}

impl From<&Path> for Home {
    fn from(path: &Path) -> Self {
        Home::File(path.to_owned())
    }
}

impl From<&PathBuf> for Home {
    fn from(path: &PathBuf) -> Self {
        Home::File(path.clone())
    }
}

impl From<PathBuf> for Home {
    fn from(path: PathBuf) -> Self {
        Home::File(path)
    }
}

impl From<&Home> for Home {
    fn from(home: &Home) -> Self {
        home.clone()
    }
}
