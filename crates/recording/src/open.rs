//! Opens the file to write to: a new one, or an existing one.

use super::block::{BLOCK_HEAD, BlockHead, fill, survey};
use super::error::Missing;
use super::head::{HEAD, head};
use perfring_events::{Compression, Terms, WriteError, read_size};
use serde::Deserialize;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

/// What to do if the file exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// Refuse.
    #[default]
    Refuse,
    /// Replace it with a new file. Programs that have the old one open keep reading that.
    Replace,
    /// Append to it, if it is a recording. A half-written block of a crash is truncated.
    Append,
}

/// Options of a [`Recording`](super::Recording).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The file. A device is written to as it is; a pipe is refused.
    pub path: PathBuf,
    /// What to do if it exists.
    pub existing: Existing,
    /// Bytes that are collected before they are written, with one checksum: at most 1 MiB. They are
    /// also written whenever nothing more arrives for now.
    #[serde(deserialize_with = "read_size")]
    pub block_bytes: u32,
    /// How blocks are compressed, each by itself: the larger they are, the better. One that is
    /// appended to is compressed if its first part was.
    pub compression: Compression,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            path: PathBuf::new(),
            existing: Existing::Refuse,
            block_bytes: 64 << 10,
            compression: Compression::None,
            terms: Terms::default(),
        }
    }
}

/// Opens the file according to the options.
pub(super) fn open(options: &Options) -> Result<Opened, Refused> {
    let meta = match fs::metadata(&options.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        meta => Some(meta?),
    };
    match (meta, options.existing) {
        (None, _) => Ok(Opened::New(create(options)?)),
        (Some(meta), _) if meta.is_dir() => {
            Err(Refused("is a directory: name a file in it".to_owned()))
        }
        // Opening one waits for a reader, and a reader of half a recording has none.
        (Some(meta), _) if meta.file_type().is_fifo() => {
            let what = "is a pipe: write to stdout, with -, and redirect that";
            Err(Refused(what.to_owned()))
        }
        (Some(meta), _) if !meta.is_file() => {
            Ok(Opened::Other(File::options().write(true).open(&options.path)?))
        }
        (_, Existing::Refuse) => {
            Err(Refused("exists: choose another name, or allow to replace it".to_owned()))
        }
        (_, Existing::Replace) => {
            lock(&File::open(&options.path)?)?;
            fs::remove_file(&options.path)?;
            Ok(Opened::New(create(options)?))
        }
        (_, Existing::Append) => append(options),
    }
}

/// Where a recording starts to write.
pub(super) enum Opened {
    New(File),
    Other(File),
    Old { file: File, at: u64, written: u64, truncated: u64, compressed: bool },
}

/// Why the file is not opened.
pub(super) struct Refused(pub(super) String);

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Refused(format!("cannot be opened: {}", WriteError(&error)))
    }
}

fn create(options: &Options) -> Result<File, Refused> {
    let mut open = File::options();
    let file = options.terms.mode.open(open.write(true).create_new(true), &options.path)?;
    lock(&file)?;
    Ok(file)
}

/// Locks the file against other writers.
fn lock(file: &File) -> Result<(), Refused> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(Refused("is being written by another process: end that first".to_owned()))
        }
        // The file system has no locks.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Finds the end of an existing recording: after its last complete block. It is not truncated where
/// complete blocks follow a damage: they can still be read.
fn append(options: &Options) -> Result<Opened, Refused> {
    let mut file = File::options().read(true).write(true).open(&options.path)?;
    lock(&file)?;
    let mut begin = [0; HEAD];
    let len = fill(&mut file, &mut begin)?;
    if len == 0 {
        return Ok(Opened::New(file)); // a crash before the first byte
    }
    let Some(compressed) = [false, true].into_iter().find(|how| begin == head(*how)) else {
        let what = "is not a recording that this program can append to: choose another name";
        return Err(Refused(what.to_owned()));
    };
    let size = file.metadata()?.len();
    // The headers of the blocks, and the whole of the last one.
    let (mut at, mut last) = (HEAD as u64, None);
    loop {
        file.seek(SeekFrom::Start(at))?;
        let mut bytes = [0; BLOCK_HEAD];
        if fill(&mut file, &mut bytes)? < BLOCK_HEAD {
            break;
        }
        let Some(head) = BlockHead::parse(&bytes, at) else {
            file.seek(SeekFrom::Start(at))?;
            let (_, missing) = survey(&mut file, at, None, 0)?;
            if missing != Missing::Unknown {
                return Err(Refused(format!(
                    "is damaged at byte {at}, and records follow that: choose another name, or \
                     `perfring export` what it holds and say that it may go"
                )));
            }
            break;
        };
        let end = at + (BLOCK_HEAD + head.len as usize) as u64;
        if end > size {
            break;
        }
        (at, last) = (end, Some(head));
    }
    if let Some(head) = last {
        file.seek(SeekFrom::Start(head.at + BLOCK_HEAD as u64))?;
        let mut frames = Vec::new();
        (&mut file).take(head.len.into()).read_to_end(&mut frames)?;
        if crc32fast::hash(&frames) != head.crc {
            (at, last) = (head.at, Some(BlockHead { records: 0, ..head }));
        }
    }
    file.set_len(at)?;
    file.seek(SeekFrom::Start(at))?;
    let written = last.map_or(0, |head| head.until());
    Ok(Opened::Old { file, at, written, truncated: size.saturating_sub(at), compressed })
}
