//! The files of one output, one after the other: `run.perfrec`, `run.000002.perfrec` and so on.

use super::replace::directory;
use crate::duration::{read_duration, read_size};
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// When an output begins its next file, and which of the finished ones it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rotation {
    /// Bytes after which a file is finished and another one begun; 0 for never. What completes an
    /// event is still written to it. What waits in memory, as Parquet's rows do, counts as so many
    /// bytes as that became in the file before; in the first file as it is. Without it,
    /// `keep_bytes` finishes a file at an eighth of that.
    #[serde(deserialize_with = "read_size")]
    pub max_bytes: u64,
    /// How long after its first record a file is finished; 0 for never.
    #[serde(deserialize_with = "read_duration")]
    pub max_age: Duration,
    /// How many finished files are kept, the newest; 0 for all.
    pub keep: usize,
    /// Bytes that all files have together, at most: before there are more, the oldest finished ones
    /// are removed. 0 for any number.
    #[serde(deserialize_with = "read_size")]
    pub keep_bytes: u64,
}

/// Finished files that were removed, as an output keeps so many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The last one.
    pub last: PathBuf,
}

impl Rotation {
    /// The keys of a configuration.
    pub const KEYS: [&str; 4] = ["max_bytes", "max_age", "keep", "keep_bytes"];

    /// Checks that its limits do not contradict each other.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.keep_bytes > 0 && self.max_bytes > self.keep_bytes {
            let what =
                "keep_bytes is the limit of all files together: it must be at least max_bytes";
            return Err(what.to_owned());
        }
        Ok(())
    }

    /// Returns whether it says anything.
    pub fn is_any(&self) -> bool {
        *self != Rotation::default()
    }

    /// Returns the bytes after which a file is finished, if there are any.
    pub fn most_bytes(&self) -> Option<u64> {
        match (self.max_bytes, self.keep_bytes) {
            (0, 0) => None,
            (0, all) => Some((all / 8).max(1)),
            (max, _) => Some(max),
        }
    }

    /// Returns whether a file with so many bytes is finished, if its first record was written then.
    pub fn is_due(&self, bytes: u64, since: Option<Instant>, now: Instant) -> bool {
        let is_full = self.most_bytes().is_some_and(|most| bytes >= most);
        let is_old = |since| now.saturating_duration_since(since) >= self.max_age;
        since.is_some() && is_full || !self.max_age.is_zero() && since.is_some_and(is_old)
    }

    /// Removes the oldest of the finished files, given with the oldest first, if there are more than are
    /// kept beside a current one of so many bytes. Returns the bytes of the others.
    pub fn tidy(
        &self,
        finished: &[PathBuf],
        current: u64,
        removed: &mut Pruned,
    ) -> io::Result<u64> {
        let sizes = finished.iter().map(|path| size(path)).collect::<io::Result<Vec<u64>>>()?;
        let mut bytes: u64 = sizes.iter().sum();
        for (nth, (path, size)) in finished.iter().zip(sizes).enumerate() {
            let too_many = self.keep > 0 && finished.len() - nth > self.keep;
            let too_large = self.keep_bytes > 0 && bytes.saturating_add(current) > self.keep_bytes;
            if !too_many && !too_large {
                break;
            }
            remove(path)?;
            bytes -= size;
            removed.files += 1;
            removed.bytes += size;
            removed.last.clone_from(path);
        }
        Ok(bytes)
    }
}

/// Returns the bytes of a file, or of the files in a directory.
fn size(path: &Path) -> io::Result<u64> {
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        return Ok(meta.len());
    }
    let mut bytes = 0;
    for entry in path.read_dir()? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Removes a file, or a directory that has only files.
fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    for entry in path.read_dir()? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(path)
}

/// Returns the path, or if a file or a directory with something in it has it or a numbered one, the
/// one after the newest of `run.000002.perfrec`, `run.000003.perfrec` and so on.
pub fn free_path(path: &Path) -> PathBuf {
    let is_free = match path.metadata() {
        Ok(meta) if meta.is_dir() => path.read_dir().is_ok_and(|mut dir| dir.next().is_none()),
        Ok(meta) if !meta.is_file() => return path.to_owned(), // a device is written to
        Ok(_) => false,
        Err(_) => path.symlink_metadata().is_err(),
    };
    // Of a directory that cannot be read, opening says why.
    match numbers(path).unwrap_or_default().last() {
        None if is_free => path.to_owned(),
        newest => numbered(path, newest.map_or(2, |(number, _)| number.saturating_add(1).max(2))),
    }
}

/// Returns the file at the path, if there is one, and those numbered after it: the oldest first.
pub fn series(path: &Path) -> io::Result<Vec<PathBuf>> {
    let first = path.symlink_metadata().is_ok().then(|| path.to_owned());
    Ok(first.into_iter().chain(numbers(path)?.into_iter().map(|(_, path)| path)).collect())
}

/// Returns `events.000017.jsonl` for `events.jsonl`.
pub fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number:06}"));
    if let Some(ending) = path.extension().map(OsStr::to_owned) {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// Returns the numbered files of a path and their numbers, oldest first.
pub fn numbers(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut before: OsString = path.file_stem().unwrap_or_default().to_owned();
    before.push(".");
    let mut after = OsString::new();
    if let Some(ending) = path.extension() {
        after.push(".");
        after.push(ending);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(directory(path))? {
        let name = entry?.file_name();
        let number = name
            .as_encoded_bytes()
            .strip_prefix(before.as_encoded_bytes())
            .and_then(|rest| rest.strip_suffix(after.as_encoded_bytes()))
            .filter(|digits| digits.len() >= 6 && digits.iter().all(u8::is_ascii_digit))
            .and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        if let Some(number) = number {
            found.push((number, path.with_file_name(name)));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn the_name_after_the_newest_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.perfrec");
        for name in ["run.perfrec", "run.000002.perfrec", "run.000003.perfrec"] {
            assert_eq!(free_path(&path), dir.path().join(name));
            fs::write(free_path(&path), "").unwrap();
        }
        // Not that of an older one which was removed.
        fs::remove_file(&path).unwrap();
        fs::remove_file(dir.path().join("run.000002.perfrec")).unwrap();
        assert_eq!(free_path(&path), dir.path().join("run.000004.perfrec"));
        assert_eq!(series(&path).unwrap(), [dir.path().join("run.000003.perfrec")]);
    }

    #[test]
    fn the_oldest_are_removed_until_what_is_kept_is_within_both_limits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let of = |numbers: &[u64]| numbers.iter().map(|n| numbered(&path, *n)).collect::<Vec<_>>();
        for path in of(&[2, 4, 5]) {
            fs::write(path, [0; 100]).unwrap();
        }
        fs::create_dir(numbered(&path, 3)).unwrap();
        fs::write(numbered(&path, 3).join("a"), [0; 60]).unwrap();
        fs::write(numbered(&path, 3).join("b"), [0; 40]).unwrap();
        fs::write(dir.path().join("run.2"), [0; 1000]).unwrap();
        let mut removed = Pruned::default();
        let three = Rotation { keep: 3, ..Rotation::default() };
        assert_eq!(three.tidy(&series(&path).unwrap(), 0, &mut removed).unwrap(), 300);
        assert_eq!(series(&path).unwrap(), of(&[3, 4, 5]));
        let bounded = Rotation { keep_bytes: 250, ..Rotation::default() };
        assert_eq!(bounded.tidy(&series(&path).unwrap(), 50, &mut removed).unwrap(), 200);
        assert_eq!(series(&path).unwrap(), of(&[4, 5]));
        assert_eq!(bounded.tidy(&series(&path).unwrap(), 51, &mut removed).unwrap(), 100);
        assert_eq!(removed, Pruned { files: 3, bytes: 300, last: numbered(&path, 4) });
    }
}
