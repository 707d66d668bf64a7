//! A file of lines, and the finished files before it.

use super::encode::Integers;
use super::packed::Packed;
use perfring_events::{
    Compression, FileMode, Pruned, Rotation, Terms, WriteError,
    delivery::{
        replace::directory,
        series::{numbered, numbers},
    },
    read_duration, read_size,
};
use serde::Deserialize;
use std::fs::{self, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where lines are written, and how.
///
/// ```
/// use perfring_files::json::Options;
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
    #[serde(deserialize_with = "read_size")]
    pub max_bytes: u64,
    /// How long after its first line a file is finished; 0 for never.
    #[serde(deserialize_with = "read_duration")]
    pub max_age: Duration,
    /// How many finished files are kept, the newest; 0 for all. Their names are the file's with a
    /// number before the extension: `events.000017.jsonl`.
    pub keep: usize,
    /// Bytes that all files have together, at most: before there are more, the oldest finished ones
    /// are removed. 0 for any number. Without `max_bytes` a file is finished at an eighth of it.
    #[serde(deserialize_with = "read_size")]
    pub keep_bytes: u64,
    /// How files are compressed. One of another process is then finished, and not appended to. What
    /// has been flushed can be decompressed at any time.
    pub compression: Compression,
    /// Whether lines count as delivered only once they are on the disk, and not as soon as the
    /// kernel has them. Without it they survive the death of any process, but not of the machine.
    pub sync: bool,
    /// How integers beyond 2^53 are written.
    pub integers: Integers,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

impl Options {
    /// All keys: serde does not name them in the errors of options that contain them.
    pub const KEYS: [&str; 8] =
        ["path", "max_bytes", "max_age", "keep", "keep_bytes", "compression", "sync", "integers"];

    pub(super) fn rotation(&self) -> Rotation {
        let Options { max_bytes, max_age, keep, keep_bytes, .. } = *self;
        Rotation { max_bytes, max_age, keep, keep_bytes }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            path: "-".into(),
            max_bytes: 0,
            max_age: Duration::ZERO,
            keep: 10,
            keep_bytes: 0,
            compression: Compression::None,
            sync: false,
            integers: Integers::Number,
            terms: Terms::default(),
        }
    }
}

/// The first bytes of what zstd has compressed.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The current file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) options: Options,
    rotation: Rotation,
    /// What is not in the file yet of compressed lines.
    packed: Option<Packed>,
    pub(super) removed: Pruned,
    /// Bytes of the finished files.
    kept: u64,
    file: fs::File,
    /// Whether it is a regular file: only such files are finished, renamed and removed.
    is_regular: bool,
    len: u64,
    /// When its first line was written, as far as this process knows.
    since: Option<Instant>,
}

impl File {
    pub(super) fn open(name: &str, options: &Options) -> Result<Self, String> {
        let path = &options.path;
        let is_packed = options.compression != Compression::None;
        let (file, len, is_ended) = match begin(path, is_packed, options.terms.mode) {
            Ok(begun) => begun,
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another process writes to {}: end it, or choose another file",
                    path.display()
                ));
            }
            Err(TryLockError::Error(error)) => {
                return Err(format!(
                    "cannot write to {}: {}; the directory must exist, and be writable",
                    path.display(),
                    WriteError(&error)
                ));
            }
        };
        let regular = file.metadata().map(|meta| meta.is_file());
        let is_regular =
            regular.map_err(|error| format!("cannot inspect {}: {error}", path.display()))?;
        let since = (len > 0).then(Instant::now);
        let mut this = File {
            options: options.clone(),
            rotation: options.rotation(),
            packed: Packed::new(name, options.compression).map_err(|error| error.sentence)?,
            removed: Pruned::default(),
            kept: 0,
            file,
            is_regular,
            len,
            since,
        };
        if this.is_regular {
            // The last bytes of a compressed file may be missing.
            let begun = if is_ended && len > 0 { this.rotate() } else { this.tidy() };
            begun.map_err(|error| {
                format!("cannot begin {}: {}", path.display(), WriteError(&error))
            })?;
        }
        Ok(this)
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
        if self.packed.is_some() {
            return self.write_packed(lines, written);
        }
        while let Some(rest) = lines.get(*written..).filter(|rest| !rest.is_empty()) {
            let room = match self.rotation.most_bytes() {
                Some(max) if self.is_regular => {
                    usize::try_from(max.saturating_sub(self.len)).unwrap_or(usize::MAX)
                }
                _ => usize::MAX,
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
            self.bound(rest.len().min(room) as u64)?;
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

    /// Writes compressed lines: they are written once all of them are.
    fn write_packed(&mut self, lines: &[u8], written: &mut usize) -> io::Result<()> {
        loop {
            let Some(packed) = &mut self.packed else { return Ok(()) };
            let (before, after) = packed.write(&mut self.file);
            self.len += before;
            after?;
            *written += packed.written();
            let rest = lines.get(*written..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            if packed.is_ended() {
                self.rotate()?;
            } else if self.is_regular && self.rotation.is_due(self.len, self.since, Instant::now())
            {
                packed.end()?;
            } else {
                packed.put(rest)?;
                self.since.get_or_insert_with(Instant::now);
                let more = packed.waiting();
                self.bound(more)?;
            }
        }
    }

    /// Ends what is compressed.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let Some(packed) = &mut self.packed else { return Ok(()) };
        packed.end()?;
        let (before, after) = packed.write(&mut self.file);
        self.len += before;
        after
    }

    /// Removes the oldest finished files before the current one gets so many bytes more, if there are
    /// too many then.
    fn bound(&mut self, more: u64) -> io::Result<()> {
        let most = self.rotation.keep_bytes;
        if most > 0 && self.kept > 0 && self.kept + self.len + more > most {
            self.len += more;
            let tidied = self.tidy();
            self.len -= more;
            return tidied;
        }
        Ok(())
    }

    /// Removes the last bytes again, if they are all in the current file.
    pub(super) fn take_back(&mut self, bytes: u64) -> io::Result<()> {
        if self.packed.is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.is_regular && bytes > 0 && bytes <= self.len {
            self.file.set_len(self.len - bytes)?;
            self.len -= bytes;
        }
        Ok(())
    }

    /// Finishes a file that has reached its age, when all lines are complete.
    pub(super) fn rotate_if_old(&mut self) -> io::Result<()> {
        if self.len == 0 || !self.is_old() {
            return Ok(());
        }
        self.finish()?;
        self.rotate()
    }

    fn is_old(&self) -> bool {
        self.is_regular && self.rotation.is_due(0, self.since, Instant::now())
    }

    /// Renames the file to that of a finished one, and starts another.
    fn rotate(&mut self) -> io::Result<()> {
        let path = &self.options.path;
        // If another file has taken its name, that one must not be renamed.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            let why = "another file has its name: remove that, or choose another file";
            return Err(io::Error::other(why));
        }
        let newest = numbers(path)?.last().map(|(number, _)| *number);
        let next = newest.map_or(1, |number| number.saturating_add(1));
        match fs::rename(path, numbered(path, next)) {
            // It was renamed already: the last attempt failed after that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        (self.file, self.len, _) = begin(path, self.packed.is_some(), self.options.terms.mode)
            .map_err(|error| match error {
                TryLockError::Error(error) => error,
                TryLockError::WouldBlock => io::ErrorKind::ResourceBusy.into(),
            })?;
        self.since = (self.len > 0).then(Instant::now);
        if let Some(packed) = &mut self.packed {
            packed.begin()?;
        }
        if self.options.sync {
            fs::File::open(directory(path))?.sync_all()?;
        }
        self.tidy()
    }

    /// Removes the oldest finished files, if there are more than are kept.
    fn tidy(&mut self) -> io::Result<()> {
        let finished: Vec<PathBuf> =
            numbers(&self.options.path)?.into_iter().map(|(_, path)| path).collect();
        self.kept = self.rotation.tidy(&finished, self.len, &mut self.removed)?;
        Ok(())
    }
}

/// Opens the file to append to it, for this process alone, and removes an incomplete last line.
///
/// Returns its length, and whether that is another process's end, as the file is or will be compressed.
fn begin(
    path: &Path,
    is_packed: bool,
    mode: FileMode,
) -> Result<(fs::File, u64, bool), TryLockError> {
    let mut options = fs::OpenOptions::new();
    let file = mode.open(options.read(true).append(true).create(true), path);
    let mut file = file.map_err(TryLockError::Error)?;
    let kind = file.metadata().map_err(TryLockError::Error)?.file_type();
    if kind.is_char_device() {
        return Ok((file, 0, false)); // /dev/null can be shared
    }
    if !kind.is_file() {
        let why = "it is not a regular file; for a pipe write to stdout, with -, and redirect that";
        return Err(TryLockError::Error(io::Error::other(why)));
    }
    file.try_lock()?;
    let mut magic = [0; ZSTD.len()];
    let is_zstd = file.read_exact(&mut magic).is_ok() && magic == ZSTD;
    let len = match is_packed || is_zstd {
        true => file.metadata().map(|meta| meta.len()),
        false => whole_lines(&mut file),
    };
    Ok((file, len.map_err(TryLockError::Error)?, is_packed || is_zstd))
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
