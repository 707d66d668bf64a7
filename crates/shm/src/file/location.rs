//! The location of a ring: a file, or a named POSIX segment.

use perfring_abi::{Layout, Producers};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The location of a ring.
///
/// Functions accept every kind of string and path as a location. A string that begins with `shm:`
/// names a POSIX segment, any other is a path. A `Path` is always a path.
///
/// A path `FILE@0xOFFSET` where nothing has that name leads to the ring at that offset of `FILE`: of a disk's image, of the file behind a
/// guest's persistent memory, or of a kernel's core file. Such a ring can only be read.
///
/// ```
/// use perfring_shm::Location;
/// assert_eq!(Location::from("shm:ticks"), Location::Segment("ticks".into()));
/// let path = String::from("/run/ticks");
/// assert_eq!(Location::from(&path), Location::File("/run/ticks".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file, best on a tmpfs.
    File(PathBuf),
    /// A segment as of `shm_open`, by its name without the slash. Linux keeps it in `/dev/shm`.
    Segment(String),
}

impl Location {
    /// Returns the path of the ring's file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.as_path().into_owned()
    }

    /// Returns the path of the file, without an allocation if the location is a path.
    pub(crate) fn as_path(&self) -> Cow<'_, Path> {
        match self {
            Location::File(path) => path.into(),
            Location::Segment(name) => Path::new("/dev/shm").join(name).into(),
        }
    }

    /// Returns the name of the ring with this layout: the name of its file, with `\u{fffd}` for bytes that are not UTF-8. The
    /// name of a ring per CPU, or of a priority ring beside these, begins with its directory, as in `requests/cpu3`, because the
    /// rings of all sets have the same names.
    #[must_use]
    pub fn name(&self, layout: &Layout) -> String {
        let path = match self {
            Location::File(path) => path,
            Location::Segment(name) => return name.clone(),
        };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        if layout.producers != Producers::Cpu && !(is_priority(&name) && has_rings_per_cpu(path)) {
            return name.into_owned();
        }
        // A relative path, such as cpu3, does not have the name of the directory.
        let dir = || std::path::absolute(path).ok()?.parent()?.canonicalize().ok();
        let set = match path.parent().and_then(Path::file_name) {
            Some(set) => Some(set.to_owned()),
            None => dir().and_then(|dir| Some(dir.file_name()?.to_owned())),
        };
        match set {
            Some(set) => format!("{}/{name}", set.to_string_lossy()),
            None => name.into_owned(),
        }
    }
}

/// Returns whether a ring with priority is in the directory of a set.
fn has_rings_per_cpu(path: &Path) -> bool {
    let entries = std::fs::read_dir(dir_of(path)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| cpu_of_ring(&name).is_some())
}

/// Returns the directory that a path leads into.
pub(crate) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns whether a ring of this name has priority: `priority`, or a name that ends with `.priority`. A number from 2 to 9
/// after that is of rings beside it. The name of a set may come first: `requests/priority`.
///
/// ```
/// use perfring_shm::is_priority;
/// assert!(["priority", "shop.priority", "shop.priority.2", "a/priority"].map(is_priority) == [true; 4]);
/// assert!(["shop", "priority.shop", "shop-priority"].map(is_priority) == [false; 3]);
/// ```
#[must_use]
pub fn is_priority(name: &str) -> bool {
    let beside =
        |(name, number): (_, &str)| matches!(number.as_bytes(), [b'2'..=b'9']).then_some(name);
    let name = name.rsplit_once('.').and_then(beside).unwrap_or(name);
    name.strip_suffix("priority")
        .is_some_and(|before| before.is_empty() || before.ends_with(['.', '/']))
}

/// Returns whether a ring in the directory of a set of rings per CPU may have this name: the ring of a CPU, or a ring with
/// priority beside these.
#[must_use]
pub fn is_in_set(name: &OsStr) -> bool {
    cpu_of_ring(name).is_some() || is_priority(&name.to_string_lossy())
}

/// Returns the name of the ring of a CPU, in the directory of its set.
#[must_use]
pub fn cpu_ring(cpu: u32) -> String {
    format!("cpu{cpu}")
}

/// Returns the number of the CPU that the ring of this name is for, in the directory of a set; `None` if a set has no ring
/// of this name.
#[must_use]
pub fn cpu_of_ring(name: &OsStr) -> Option<u32> {
    let cpu = name.to_str()?.strip_prefix("cpu")?.parse().ok()?;
    // Not cpu+3, nor cpu03.
    (OsStr::new(&cpu_ring(cpu)) == name).then_some(cpu)
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(path) => path.display().fmt(f),
            Location::Segment(name) => write!(f, "shm:{name}"),
        }
    }
}

/// Converts a string: `shm:` and a name, or a path.
fn of_str(text: &str) -> Location {
    match text.strip_prefix("shm:") {
        Some(name) => Location::Segment(name.to_owned()),
        None => Location::File(text.into()),
    }
}

/// Converts an OS string like a string. An OS string that is not UTF-8 is a path.
fn of_os_str(text: &OsStr) -> Location {
    text.to_str().map_or_else(|| Location::File(text.into()), of_str)
}

/// Converts a path, even if it begins with `shm:`.
fn of_path(path: &Path) -> Location {
    Location::File(path.to_owned())
}

macro_rules! from {
    ($of:ident: $($from:ty),+) => {$(
        impl From<$from> for Location {
            fn from(from: $from) -> Self {
                $of(from.as_ref())
            }
        }
    )+};
}

from!(of_str: &str, String, &String, Cow<'_, str>, &Cow<'_, str>);
from!(of_str: &&str, &&String, Box<str>, &Box<str>, Arc<str>, &Arc<str>);
from!(of_os_str: &OsStr, &&OsStr, OsString, &OsString, Cow<'_, OsStr>, &Cow<'_, OsStr>, Box<OsStr>);
from!(of_path: &Path, &PathBuf, Cow<'_, Path>, &Cow<'_, Path>);
from!(of_path: &&Path, &&PathBuf, Box<Path>, &Box<Path>, Arc<Path>, &Arc<Path>);

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

impl From<&&Location> for Location {
    fn from(location: &&Location) -> Self {
        (*location).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{Location, cpu_of_ring, cpu_ring};
    use std::borrow::Cow;
    use std::ffi::{OsStr, OsString};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    #[test]
    fn every_kind_of_string_is_a_path_or_names_a_segment() {
        for (text, location) in [
            ("/run/ticks", Location::File("/run/ticks".into())),
            ("ticks", Location::File("ticks".into())),
            ("shm:ticks", Location::Segment("ticks".into())),
            ("shm:", Location::Segment(String::new())),
        ] {
            let (string, os) = (text.to_owned(), OsString::from(text));
            let of_this: Vec<Location> = vec![
                text.into(),
                (&text).into(),
                string.clone().into(),
                (&string).into(),
                (&&string).into(),
                Cow::Borrowed(text).into(),
                (&Cow::<str>::Owned(string.clone())).into(),
                Box::<str>::from(text).into(),
                (&Box::<str>::from(text)).into(),
                Arc::<str>::from(text).into(),
                (&Arc::<str>::from(text)).into(),
                OsStr::new(text).into(),
                (&OsStr::new(text)).into(),
                os.clone().into(),
                (&os).into(),
                Cow::Borrowed(OsStr::new(text)).into(),
                (&Cow::<OsStr>::Owned(os.clone())).into(),
                Box::<OsStr>::from(OsStr::new(text)).into(),
                (&location).into(),
                (&&location).into(),
                location.clone(),
            ];
            assert!(of_this.iter().all(|one| *one == location), "{of_this:?}");
        }
    }

    #[test]
    fn every_kind_of_path_is_a_path_even_if_it_begins_as_a_segment() {
        for text in ["/run/ticks", "shm:ticks"] {
            let (path, buf) = (Path::new(text), PathBuf::from(text));
            let of_this: Vec<Location> = vec![
                path.into(),
                (&path).into(),
                buf.clone().into(),
                (&buf).into(),
                (&&buf).into(),
                Cow::Borrowed(path).into(),
                (&Cow::<Path>::Owned(buf.clone())).into(),
                Box::<Path>::from(path).into(),
                (&Box::<Path>::from(path)).into(),
                Arc::<Path>::from(path).into(),
                (&Arc::<Path>::from(path)).into(),
            ];
            assert!(of_this.iter().all(|one| *one == Location::File(text.into())), "{of_this:?}");
        }
    }

    #[test]
    fn the_name_of_a_ring_in_a_set_is_one_that_its_creator_gives() {
        for cpu in [0, 9, 10, 8191] {
            assert_eq!(cpu_of_ring(OsStr::new(&cpu_ring(cpu))), Some(cpu));
        }
        for no in ["cpu", "cpu+3", "cpu03", "cpu-1", "cpu3 ", "CPU3", "xcpu3", "cpu99999999999"] {
            assert_eq!(cpu_of_ring(OsStr::new(no)), None, "{no}");
        }
    }
}
