//! Places in observed rings, saved in a file.

use super::replace::{beside, replace};
use perfring_consumer::{Count, Saved};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;
use uuid::Uuid;

/// Places that nobody has come back to for so long are forgotten: 30 days, in seconds.
const FORGOTTEN: u64 = 30 * 24 * 3600;
/// As many places are kept, the newest.
const MAX: usize = 65_536;

/// Why places cannot be saved or read.
#[derive(Debug, Error)]
pub enum PlacesError {
    /// Another process has the file.
    #[error("another sidecar saves its places in {}: give this one a file of its own", .0.display())]
    Taken(PathBuf),
    /// It cannot be read or written.
    #[error("cannot use {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It holds something else.
    #[error(
        "{} holds no places of a sidecar ({what}): remove it, and observed rings are read from \
         their oldest records", .path.display()
    )]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saves {
    version: u32,
    rings: BTreeMap<Uuid, Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// The position of the next record.
    pos: u64,
    /// Records and bytes that stood before it since the ring was made.
    records: u64,
    bytes: u64,
    /// When it was saved, seconds since 1970.
    at: u64,
}

/// The saved places.
#[derive(Debug)]
pub(crate) struct Places {
    file: Option<PathBuf>,
    /// Held for as long as this lives.
    _lock: Option<File>,
    saved: BTreeMap<Uuid, Place>,
    dirty: bool,
}

impl Places {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, PlacesError> {
        let Some(path) = path else {
            return Ok(Places { file: None, _lock: None, saved: BTreeMap::new(), dirty: false });
        };
        let io = |source| PlacesError::Io { path: path.to_owned(), source };
        // On a volume that lives as long as the rings nobody else makes it.
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir).map_err(io)?;
        }
        // Of a file beside it, as the file itself is replaced at each saving.
        let lock = File::create(beside(path, ".lock")).map_err(io)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => PlacesError::Taken(path.to_owned()),
            TryLockError::Error(error) => io(error),
        })?;
        let saved = match fs::read(path) {
            // Empty: a machine that went down before the disk had it. Its rings are gone as well.
            Ok(text) if text.is_empty() => BTreeMap::new(),
            Ok(text) => {
                read(&text).map_err(|what| PlacesError::Bad { path: path.to_owned(), what })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(io(error)),
        };
        Ok(Places { file: Some(path.to_owned()), _lock: Some(lock), saved, dirty: false })
    }

    /// Where to go on in a ring.
    pub(crate) fn get(&self, uuid: &[u8; 16]) -> Option<Saved> {
        let place = self.saved.get(&Uuid::from_bytes(*uuid))?;
        let before = Count { records: place.records, bytes: place.bytes };
        Some(Saved { pos: place.pos, before })
    }

    /// Takes places over.
    pub(crate) fn update(&mut self, places: HashMap<[u8; 16], Saved>) {
        let at = now();
        for (uuid, saved) in places {
            let Count { records, bytes } = saved.before;
            let place = Place { pos: saved.pos, records, bytes, at };
            let before = self.saved.insert(Uuid::from_bytes(uuid), place);
            // A ring that is quiet is seen all the same, from time to time.
            let news = before.is_none_or(|before| before.pos != place.pos || at - before.at > 3600);
            if !news && let Some(before) = before {
                self.saved.insert(Uuid::from_bytes(uuid), before);
            }
            self.dirty |= news;
        }
    }

    /// A ring that comes no more.
    pub(crate) fn forget(&mut self, uuid: &[u8; 16]) {
        self.dirty |= self.saved.remove(&Uuid::from_bytes(*uuid)).is_some();
    }

    /// Writes them, if they are others than at the last call: all or nothing, at any death.
    pub(crate) fn save(&mut self) -> Result<(), PlacesError> {
        let Some(path) = &self.file else { return Ok(()) };
        if !self.dirty {
            return Ok(());
        }
        let oldest = now().saturating_sub(FORGOTTEN);
        self.saved.retain(|_, place| place.at >= oldest);
        if self.saved.len() > MAX {
            let mut times: Vec<u64> = self.saved.values().map(|place| place.at).collect();
            times.sort_unstable();
            let oldest = times.get(times.len() - MAX).copied().unwrap_or(0);
            self.saved.retain(|_, place| place.at >= oldest);
        }
        let write = || -> io::Result<()> {
            let saves = Saves { version: 1, rings: self.saved.clone() };
            let mut text = serde_json::to_vec(&saves)?;
            text.push(b'\n');
            replace(path, &text)
        };
        write().map_err(|source| PlacesError::Io { path: path.clone(), source })?;
        self.dirty = false;
        Ok(())
    }
}

fn read(text: &[u8]) -> Result<BTreeMap<Uuid, Place>, String> {
    let saves: Saves = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match saves.version {
        1 => Ok(saves.rings),
        version => Err(format!("version {version}, and this program reads version 1")),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    #[test]
    fn places_come_back_and_only_one_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let saved = Saved { pos: 640, before: Count { records: 10, bytes: 640 } };
        let mut places = Places::open(Some(&path)).unwrap();
        places.update([([7; 16], saved), ([8; 16], Saved::default())].into());
        places.forget(&[8; 16]);
        assert!(matches!(Places::open(Some(&path)), Err(PlacesError::Taken(_))));
        places.save().unwrap();
        drop(places);
        let places = Places::open(Some(&path)).unwrap();
        assert_eq!((places.get(&[7; 16]), places.get(&[8; 16])), (Some(saved), None));
    }

    #[test]
    fn what_is_no_state_is_refused_and_an_empty_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        fs::write(&path, "").unwrap();
        assert_eq!(Places::open(Some(&path)).unwrap().get(&[7; 16]), None);
        for text in ["{", "{}", r#"{"version":2,"rings":{}}"#, r#"{"version":1,"rings":{"x":{}}}"#]
        {
            fs::write(&path, text).unwrap();
            let error = Places::open(Some(&path)).unwrap_err();
            assert!(error.to_string().contains("remove it"), "{error}");
        }
    }
}
