//! A file of lines, and the finished files before it.

use crate::delivery::replace::{directory, numbered};
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::{self, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where lines are written, and how.
///
/// ```
/// use perfring_export::json::Options;
/// let options = Options { path: "events.jsonl".into(), ..Options::default() };
/// assert_eq!((options.keep, options.sync), (10, false));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The file that is written to, or `-` for stdout.
    pub path: PathBuf,
    /// Bytes after which a file is finished and another one started; 0 for never. The line that
    /// exceeds the limit is still written to the file.
    pub max_bytes: u64,
    /// Seconds after which a file that holds something is finished; 0 for never.
    pub max_age_seconds: u64,
    /// How many finished files are kept, the newest; 0 for all. Their names are the file's with a
    /// number before the extension: `events.000017.jsonl`.
    pub keep: usize,
    /// Whether lines count as delivered only once they are on the disk, and not as soon as the
    /// kernel has them. Without it they survive the death of any process, but not of the machine.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { path: "-".into(), max_bytes: 0, max_age_seconds: 0, keep: 10, sync: false }
    }
}

/// The current file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) options: Options,
    file: fs::File,
    /// Whether it is a regular file: only such files are finished, renamed and removed.
    is_regular: bool,
    len: u64,
    /// When its first line was written, as far as this process knows.
    since: Option<Instant>,
}

impl File {
    pub(super) fn open(options: &Options) -> Result<Self, String> {
        let path = &options.path;
        let (file, len) = match begin(path) {
            Ok(begun) => begun,
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another process writes to {}: end it, or choose another file",
                    path.display()
                ));
            }
            Err(TryLockError::Error(error)) => {
                return Err(format!(
                    "cannot write to {}: {error}; the directory must exist, and be writable",
                    path.display()
                ));
            }
        };
        let regular = file.metadata().map(|meta| meta.is_file());
        let is_regular =
            regular.map_err(|error| format!("cannot inspect {}: {error}", path.display()))?;
        let since = (len > 0).then(Instant::now);
        Ok(File { options: options.clone(), file, is_regular, len, since })
    }

    /// Writes from `written` on, and keeps it up to date. Returns `true` once all is delivered.
    pub(super) fn write(&mut self, lines: &[u8], written: &mut usize) -> io::Result<bool> {
        self.write_on(lines, written)?;
        if self.options.sync
            && self.is_regular
            && let Err(error) = self.file.sync_data()
        {
            // The kernel reports only once that it lost written data, and the next sync succeeds.
            *written = 0;
            return Err(error);
        }
        Ok(true)
    }

    fn write_on(&mut self, lines: &[u8], written: &mut usize) -> io::Result<()> {
        while let Some(rest) = lines.get(*written..).filter(|rest| !rest.is_empty()) {
            let room = match self.options.max_bytes {
                _ if !self.is_regular => usize::MAX,
                0 => usize::MAX,
                max => usize::try_from(max.saturating_sub(self.len)).unwrap_or(usize::MAX),
            };
            // Also a line that was written in part: it ends in the file that it began in.
            let at_start = *written == 0 || lines.get(*written - 1) == Some(&b'\n');
            if at_start && self.len > 0 && (room == 0 || self.is_old()) {
                if self.options.sync
                    && let Err(error) = self.file.sync_data()
                {
                    *written = 0;
                    return Err(error);
                }
                self.rotate()?;
                continue;
            }
            let part = rest.get(..to_line_end(rest, room)).unwrap_or(rest);
            match self.file.write(part) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => {
                    *written += more;
                    self.len += more as u64;
                    self.since.get_or_insert_with(Instant::now);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes the last bytes again, if they are all in the current file.
    pub(super) fn take_back(&mut self, bytes: u64) -> io::Result<()> {
        if self.is_regular && bytes > 0 && bytes <= self.len {
            self.file.set_len(self.len - bytes)?;
            self.len -= bytes;
        }
        Ok(())
    }

    /// Finishes a file that has reached its age, when all lines are complete.
    pub(super) fn rotate_if_old(&mut self) -> io::Result<()> {
        if self.len > 0 && self.is_old() { self.rotate() } else { Ok(()) }
    }

    fn is_old(&self) -> bool {
        let max = Duration::from_secs(self.options.max_age_seconds);
        self.is_regular && !max.is_zero() && self.since.is_some_and(|since| since.elapsed() >= max)
    }

    /// Renames the file to that of a finished one, and starts another.
    fn rotate(&mut self) -> io::Result<()> {
        let path = &self.options.path;
        // If another file has taken its name, that one must not be renamed.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            let why = "another file has its name: remove that, or choose another file";
            return Err(io::Error::other(why));
        }
        let finished = finished(path)?;
        let next = finished.last().map_or(1, |(number, _)| number.saturating_add(1));
        match fs::rename(path, numbered(path, next)) {
            // It was renamed already: the last attempt failed after that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        (self.file, self.len) = begin(path).map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => io::ErrorKind::ResourceBusy.into(),
        })?;
        self.since = (self.len > 0).then(Instant::now);
        if self.options.sync {
            fs::File::open(directory(path))?.sync_all()?;
        }
        let keep = match self.options.keep {
            0 => usize::MAX,
            keep => keep - 1, // and the one just finished
        };
        let old = finished.len().saturating_sub(keep);
        for (_, old) in finished.iter().take(old) {
            fs::remove_file(old)?;
        }
        Ok(())
    }
}

/// Opens the file to append to it, for this process alone, and removes an incomplete last line.
fn begin(path: &Path) -> Result<(fs::File, u64), TryLockError> {
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).append(true).create(true).open(path);
    let mut file = file.map_err(TryLockError::Error)?;
    let kind = file.metadata().map_err(TryLockError::Error)?.file_type();
    if kind.is_char_device() {
        return Ok((file, 0)); // /dev/null can be shared
    }
    if !kind.is_file() {
        let why = "it is not a regular file; for a pipe write to stdout, with -, and redirect that";
        return Err(TryLockError::Error(io::Error::other(why)));
    }
    file.try_lock()?;
    let len = whole_lines(&mut file).map_err(TryLockError::Error)?;
    Ok((file, len))
}

/// Returns the length up to the last line's end, after truncating what follows.
fn whole_lines(file: &mut fs::File) -> io::Result<u64> {
    let len = file.seek(SeekFrom::End(0))?;
    let mut end = len;
    let mut block = [0; 4096];
    while end > 0 {
        let size = end.min(block.len() as u64);
        let block = block.get_mut(..size as usize).unwrap_or_default();
        file.seek(SeekFrom::Start(end - size))?;
        file.read_exact(block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            end = end - size + at as u64 + 1;
            break;
        }
        end -= size;
    }
    if end < len {
        file.set_len(end)?;
    }
    Ok(end)
}

/// Returns as many bytes as there is room for, extended to the end of the line.
fn to_line_end(lines: &[u8], room: usize) -> usize {
    let from = room.saturating_sub(1);
    let rest = lines.get(from..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| from + at + 1)
}

/// Returns the finished files and their numbers, oldest first.
fn finished(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
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
