//! What the outputs of one program have in common.

use crate::duration::read_some_duration;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// What the outputs of one program have in common, where their own options say nothing else.
///
/// ```
/// use perfring_events::Terms;
/// let terms = Terms::default();
/// assert_eq!((terms.mode.to_string(), terms.max_backoff.as_secs()), ("0640".to_owned(), 5));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The mode of files that they create.
    pub mode: FileMode,
    /// The longest pause between two attempts of an output. The first pause is shorter, and each is twice the last.
    pub max_backoff: Duration,
    /// The directory for dead letters; without one, outputs that do not say where keep none.
    pub dead_letters: Option<PathBuf>,
}

impl Default for Terms {
    fn default() -> Self {
        let (mode, dead_letters) = (FileMode::default(), None);
        Terms { mode, max_backoff: Duration::from_secs(5), dead_letters }
    }
}

/// What an output's own options say of [`Terms`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnTerms {
    mode: Option<FileMode>,
    #[serde(deserialize_with = "read_some_duration")]
    max_backoff: Option<Duration>,
}

impl OwnTerms {
    /// The keys of these options.
    pub const KEYS: [&str; 2] = ["max_backoff", "mode"];

    /// Returns the terms of one output.
    pub fn or(self, all: &Terms) -> Terms {
        Terms {
            mode: self.mode.unwrap_or(all.mode),
            max_backoff: self.max_backoff.unwrap_or(all.max_backoff),
            ..all.clone()
        }
    }
}

/// Mode bits of a file that is created, regardless of the umask. Users that may read it may also enter a directory of such
/// files: 0640 makes directories of 0750.
///
/// ```
/// use perfring_events::FileMode;
/// assert_eq!("0640".parse(), Ok(FileMode::default()));
/// assert_eq!("600".parse(), Ok(FileMode::PRIVATE));
/// assert!("0755".parse::<FileMode>().unwrap_err().contains("no programs"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(u32);

impl Default for FileMode {
    fn default() -> Self {
        FileMode(0o640)
    }
}

impl std::fmt::Display for FileMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FileMode {
    /// The mode of files for their owner alone.
    pub const PRIVATE: FileMode = FileMode(0o600);

    /// Opens a file, which gets this mode if it is created. A file that exists keeps its own.
    pub fn open(self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        let mut create = options.clone();
        match create.mode(self.0).create_new(true).open(path) {
            Ok(file) => {
                // Some file systems have no modes.
                let _ = file.set_permissions(Permissions::from_mode(self.0));
                Ok(file)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                options.clone().mode(self.0).open(path)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a file with this mode, or empties one that exists and gives it this mode.
    pub fn create(self, path: &Path) -> io::Result<File> {
        let file = self.open(OpenOptions::new().write(true).create(true).truncate(true), path)?;
        let _ = file.set_permissions(Permissions::from_mode(self.0)); // as above
        Ok(file)
    }

    /// Creates a directory.
    pub fn create_dir(self, path: &Path) -> io::Result<()> {
        match perfring_consumer::create_dir(path, self.0 | (self.0 & 0o444) >> 2) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists && path.is_dir() => Ok(()), // as above
            done => done,
        }
    }
}

impl FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("mode = {text:?}: {why}: write it like \"0640\""));
        let is_octal =
            (3..=4).contains(&text.len()) && text.bytes().all(|b| (b'0'..b'8').contains(&b));
        match u32::from_str_radix(text, 8) {
            Ok(mode) if is_octal => match mode {
                mode if mode & 0o111 != 0 => {
                    wrong("output files are no programs: leave out the x bits")
                }
                mode if mode & !0o666 != 0 => {
                    wrong("it has bits that are not for reading and writing")
                }
                mode if mode & 0o600 != 0o600 => {
                    wrong("the owner must be able to read and to write")
                }
                mode => Ok(FileMode(mode)),
            },
            _ => wrong("a mode is three or four octal digits"),
        }
    }
}

impl<'de> Deserialize<'de> for FileMode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Number(i64),
        }
        match Written::deserialize(from)? {
            Written::Text(text) => text.parse().map_err(D::Error::custom),
            Written::Number(number) => Err(D::Error::custom(format!(
                "mode = {number}: a mode is octal digits in quotes: write it like \"0640\""
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn a_mode_that_is_none_has_a_sentence() {
        for (text, why) in [
            ("", "octal"),
            ("rw-r-----", "octal"),
            ("0o640", "octal"),
            ("+640", "octal"),
            ("64", "octal"),
            ("0648", "octal"),
            ("0750", "no programs"),
            ("4640", "not for reading"),
            ("0040", "the owner"),
            ("0400", "the owner"),
        ] {
            let said = text.parse::<FileMode>().unwrap_err();
            assert!(said.contains(why) && said.ends_with("write it like \"0640\""), "{said}");
        }
    }

    #[test]
    fn a_new_file_has_the_mode_and_another_one_keeps_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mode_of = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let (mode, path) = ("0666".parse::<FileMode>().unwrap(), dir.path().join("file"));
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        mode.open(&options, &path).unwrap();
        assert_eq!(mode_of(&path), 0o666, "whatever the umask is");
        FileMode::PRIVATE.open(&options, &path).unwrap();
        assert_eq!(mode_of(&path), 0o666);
        assert!(mode.open(options.create_new(true), &path).is_err());
        FileMode::PRIVATE.create(&path).unwrap();
        assert_eq!(mode_of(&path), 0o600);
        FileMode::default().create_dir(&dir.path().join("dir")).unwrap();
        assert_eq!(mode_of(&dir.path().join("dir")), 0o750);
    }
}
