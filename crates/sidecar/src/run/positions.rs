//! Positions in observed rings, saved in a file.

use super::lock_file;
use perfring_consumer::{
    Cause,
    advanced::Saved,
    stat::{Count, Refused},
};
use perfring_export::{FileMode, replace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;
use uuid::Uuid;

/// Positions of rings that were not read for so long are forgotten: 30 days, in seconds.
const FORGOTTEN: u64 = 30 * 24 * 3600;
/// The limit of positions that are kept, the newest.
const MAX: usize = 65_536;

/// Why positions cannot be saved or read.
#[derive(Debug, Error)]
pub enum PositionsError {
    /// Another process uses the file.
    #[error("another sidecar saves its positions in {}: give this one a file of its own", .0.display())]
    Taken(PathBuf),
    /// It cannot be read or written.
    #[error("cannot use {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It has another content.
    #[error(
        "{} holds no positions of a sidecar ({what}): remove it, and observed rings are read from \
         their oldest records", .path.display()
    )]
    Bad {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saves {
    version: u32,
    rings: BTreeMap<Uuid, Position>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// The position of the next record.
    pos: u64,
    /// Records and bytes before it since the ring was created.
    records: u64,
    bytes: u64,
    /// What was told of refused records: of each cause, as `Cause::REFUSED` has them. Files from before have none.
    #[serde(default)]
    told: [(u64, u64); Cause::REFUSED.len()],
    /// When it was saved, seconds since 1970.
    at: u64,
}

/// The saved positions.
#[derive(Debug)]
pub(crate) struct Positions {
    file: Option<PathBuf>,
    /// Held for as long as this lives.
    _lock: Option<File>,
    saved: BTreeMap<Uuid, Position>,
    dirty: bool,
}

impl Positions {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, PositionsError> {
        let Some(path) = path else {
            return Ok(Positions { file: None, _lock: None, saved: BTreeMap::new(), dirty: false });
        };
        let io = |source| PositionsError::Io { path: path.to_owned(), source };
        // On a volume that lives as long as the rings, no other program creates it.
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir).map_err(io)?;
        }
        // Lock a file beside it, as the file itself is replaced at each save.
        let lock = beside(path, ".lock");
        let lock = lock_file::open(&lock).map_err(io)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => PositionsError::Taken(path.to_owned()),
            TryLockError::Error(error) => io(error),
        })?;
        let saved = match fs::read(path) {
            // Empty: the machine crashed before the file was on disk. Its rings are lost as well.
            Ok(text) if text.is_empty() => BTreeMap::new(),
            Ok(text) => {
                read(&text).map_err(|what| PositionsError::Bad { path: path.to_owned(), what })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(io(error)),
        };
        Ok(Positions { file: Some(path.to_owned()), _lock: Some(lock), saved, dirty: false })
    }

    /// Returns where to continue in a ring.
    pub(crate) fn get(&self, uuid: &[u8; 16]) -> Option<Saved> {
        let position = self.saved.get(&Uuid::from_bytes(*uuid))?;
        let before = Count { records: position.records, bytes: position.bytes };
        let [full, too_large, contended, pending] =
            position.told.map(|(records, bytes)| Count { records, bytes });
        let told = Refused { full, too_large, contended, pending };
        Some(Saved { pos: position.pos, before, told })
    }

    /// Takes over new positions.
    pub(crate) fn update(&mut self, positions: HashMap<[u8; 16], Saved>) {
        self.update_at(positions, now());
    }

    fn update_at(&mut self, positions: HashMap<[u8; 16], Saved>, at: u64) {
        for (uuid, saved) in positions {
            let Count { records, bytes } = saved.before;
            let told = saved.told.by_cause().map(|(_, count)| (count.records, count.bytes));
            let position = Position { pos: saved.pos, records, bytes, told, at };
            let before = self.saved.insert(Uuid::from_bytes(uuid), position);
            // The time of a quiet ring is also updated, from time to time; the clock may step back.
            let news = before.is_none_or(|before| {
                (before.pos, before.told) != (position.pos, position.told)
                    || at.abs_diff(before.at) > 3600
            });
            if !news && let Some(before) = before {
                self.saved.insert(Uuid::from_bytes(uuid), before);
            }
            self.dirty |= news;
        }
    }

    /// Forgets a ring that was removed.
    pub(crate) fn forget(&mut self, uuid: &[u8; 16]) {
        self.dirty |= self.saved.remove(&Uuid::from_bytes(*uuid)).is_some();
    }

    /// Writes the positions, if they changed since the last call: atomically, at any crash.
    pub(crate) fn save(&mut self) -> Result<(), PositionsError> {
        let Some(path) = &self.file else { return Ok(()) };
        if !self.dirty {
            return Ok(());
        }
        let oldest = now().saturating_sub(FORGOTTEN);
        self.saved.retain(|_, position| position.at >= oldest);
        if self.saved.len() > MAX {
            let mut times: Vec<u64> = self.saved.values().map(|position| position.at).collect();
            times.sort_unstable();
            let oldest = times.get(times.len() - MAX).copied().unwrap_or(0);
            self.saved.retain(|_, position| position.at >= oldest);
        }
        let write = || -> io::Result<()> {
            let saves = Saves { version: 1, rings: self.saved.clone() };
            let mut text = serde_json::to_vec(&saves)?;
            text.push(b'\n');
            replace(path, &text, FileMode::PRIVATE)
        };
        write().map_err(|source| PositionsError::Io { path: path.clone(), source })?;
        self.dirty = false;
        Ok(())
    }
}

fn read(text: &[u8]) -> Result<BTreeMap<Uuid, Position>, String> {
    let saves: Saves = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match saves.version {
        1 => Ok(saves.rings),
        version => Err(format!("version {version}, and this program reads version 1")),
    }
}

/// Appends to a path's file name.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(more);
    path.with_file_name(name)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    fn some_place() -> Saved {
        let told = Refused { too_large: Count { records: 3, bytes: 96 }, ..Refused::default() };
        Saved { pos: 640, before: Count { records: 10, bytes: 640 }, told }
    }

    #[test]
    fn a_file_from_before_has_no_losses_and_a_new_loss_is_saved_at_the_same_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let ring = Uuid::from_bytes([7; 16]);
        let old = format!(
            r#"{{"version":1,"rings":{{"{ring}":{{"pos":640,"records":10,"bytes":640,"at":{}}}}}}}"#,
            now()
        );
        fs::write(&path, old).unwrap();
        let mut positions = Positions::open(Some(&path)).unwrap();
        let saved = some_place();
        let before = Saved { told: Refused::default(), ..saved };
        assert_eq!(positions.get(&[7; 16]), Some(before));
        positions.update([([7; 16], saved)].into());
        positions.save().unwrap();
        drop(positions);
        assert_eq!(Positions::open(Some(&path)).unwrap().get(&[7; 16]), Some(saved));
    }

    #[test]
    fn positions_are_restored_and_only_one_process_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let saved = some_place();
        let mut positions = Positions::open(Some(&path)).unwrap();
        positions.update([([7; 16], saved), ([8; 16], Saved::default())].into());
        positions.forget(&[8; 16]);
        assert!(matches!(Positions::open(Some(&path)), Err(PositionsError::Taken(_))));
        positions.save().unwrap();
        drop(positions);
        let positions = Positions::open(Some(&path)).unwrap();
        assert_eq!((positions.get(&[7; 16]), positions.get(&[8; 16])), (Some(saved), None));
    }

    #[test]
    fn a_clock_that_steps_back_keeps_positions() {
        let saved = some_place();
        let mut positions = Positions::open(None).unwrap();
        for at in [1_000_000, 999_999, 10, 5_000_000] {
            positions.update_at([([7; 16], saved)].into(), at);
            assert_eq!(positions.get(&[7; 16]), Some(saved), "{at}");
        }
        assert_eq!(positions.saved.values().map(|one| one.at).max(), Some(5_000_000));
    }

    #[test]
    fn an_invalid_state_is_refused_and_an_empty_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        fs::write(&path, "").unwrap();
        assert_eq!(Positions::open(Some(&path)).unwrap().get(&[7; 16]), None);
        for text in ["{", "{}", r#"{"version":2,"rings":{}}"#, r#"{"version":1,"rings":{"x":{}}}"#]
        {
            fs::write(&path, text).unwrap();
            let error = Positions::open(Some(&path)).unwrap_err();
            assert!(error.to_string().contains("remove it"), "{error}");
        }
    }
}
