//! Files that are being written.

use crate::delivery::compress::{Compression, Packer};
use crate::delivery::output::{Figures, OutputError};
use crate::delivery::replace::rename;
use crate::delivery::terms::{FileMode, Terms};
use crate::delivery::tries::Tries;
use crate::delivery::write_error::WriteError;
use std::fs::{DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that are written at once.
const CHUNK: usize = 64 << 10;
/// Bytes that wait while they cannot be written; what completes an event may exceed it.
const FULL: usize = 4 << 20;

/// A file that an output writes; its errors name the file and what to do. What cannot be written,
/// as the disk is full, waits and is tried again.
#[derive(Debug)]
pub struct Draft {
    output: String,
    /// Its final path.
    path: PathBuf,
    /// Its path until it is finished, if that is another one.
    part: Option<PathBuf>,
    file: File,
    is_regular: bool,
    packer: Option<Packer>,
    /// Whether the packer holds something.
    is_packing: bool,
    /// Bytes that are not written, of which the first `done` are.
    held: Vec<u8>,
    done: usize,
    tries: Tries,
    trouble: Option<String>,
    pub retries: u64,
    /// Bytes put into it so far.
    pub written: u64,
    /// Bytes that the file has or will have of them, compressed if it is.
    pub stored: u64,
}

impl Draft {
    /// Creates a file that is readable at any time, under its final name.
    pub fn in_place(
        output: &str,
        path: &Path,
        overwrite: bool,
        terms: &Terms,
    ) -> Result<Self, OutputError> {
        let mut options = OpenOptions::new();
        options.write(true).create(overwrite).truncate(overwrite).create_new(!overwrite);
        Draft::open(output, path, None, &options, terms)
    }

    /// Creates a file that is readable only once finished, beside its final name.
    pub fn beside(
        output: &str,
        path: &Path,
        overwrite: bool,
        terms: &Terms,
    ) -> Result<Self, OutputError> {
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(trouble(output, "create", path, &ErrorKind::AlreadyExists.into()));
        }
        // Something that is not a regular file, like /dev/null, must not be replaced.
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            let why = "it is not a regular file, and would be replaced by one: choose another name";
            return Err(trouble(output, "create", path, &io::Error::other(why)));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let mut options = OpenOptions::new();
        Draft::open(
            output,
            path,
            Some(part),
            options.write(true).create(true).truncate(true),
            terms,
        )
    }

    fn open(
        output: &str,
        path: &Path,
        part: Option<PathBuf>,
        options: &OpenOptions,
        terms: &Terms,
    ) -> Result<Self, OutputError> {
        let file = terms.mode.open(options, part.as_deref().unwrap_or(path));
        let file = file.map_err(|error| trouble(output, "create", path, &error))?;
        let is_regular = file.metadata().is_ok_and(|meta| meta.is_file());
        Ok(Draft {
            output: output.into(),
            path: path.into(),
            part,
            file,
            is_regular,
            packer: None,
            is_packing: false,
            held: Vec::with_capacity(CHUNK),
            done: 0,
            tries: Tries::new(terms),
            trouble: None,
            retries: 0,
            written: 0,
            stored: 0,
        })
    }

    /// Compresses what is put into it.
    pub fn compressed(mut self, how: Compression) -> Result<Self, OutputError> {
        self.packer = Packer::new(&self.output, how)?;
        Ok(self)
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let before = self.held.len();
        let packed = match &mut self.packer {
            Some(packer) => {
                self.is_packing = true;
                packer.put(bytes, &mut self.held)
            }
            None => {
                self.held.extend_from_slice(bytes);
                Ok(())
            }
        };
        packed.map_err(|error| self.error(&error))?;
        self.written += bytes.len() as u64;
        self.stored += (self.held.len() - before) as u64;
        if self.held.len() - self.done >= CHUNK {
            self.write()?;
        }
        Ok(())
    }

    /// Overwrites the file's beginning; must be the last write, of a file that is flushed.
    pub fn put_at_start(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(bytes));
        written.map_err(|error| self.error(&error))
    }

    /// Returns whether it takes nothing more, as too much waits. Tries to write that first.
    pub fn is_busy(&mut self) -> Result<bool, OutputError> {
        Ok(self.held.len() - self.done >= FULL && !self.flush()? && self.held.len() >= FULL)
    }

    /// Passes bytes to the kernel, where they outlive this process, unless it is too early to try
    /// that again. Returns whether all are there.
    pub fn flush(&mut self) -> Result<bool, OutputError> {
        if !self.tries.is_due() {
            return Ok(self.held.is_empty() && !self.is_packing);
        }
        if let Some(packer) = self.packer.as_mut().filter(|_| self.is_packing) {
            let before = self.held.len();
            packer.flush(&mut self.held).map_err(|error| self.error(&error))?;
            self.stored += (self.held.len() - before) as u64;
            self.is_packing = false;
        }
        self.write()
    }

    /// Passes what is held to the kernel, unless it is too early to try that again.
    fn write(&mut self) -> Result<bool, OutputError> {
        if !self.tries.is_due() {
            return Ok(self.held.is_empty());
        }
        while let Some(rest) = self.held.get(self.done..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return self.failed(&ErrorKind::WriteZero.into()),
                Ok(more) => self.done += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.failed(&error),
            }
        }
        self.held.clear();
        self.held.shrink_to(2 * CHUNK);
        self.done = 0;
        if self.tries.end() {
            self.trouble = None;
        }
        Ok(true)
    }

    fn failed(&mut self, error: &io::Error) -> Result<bool, OutputError> {
        // A device gets no more room.
        if !self.is_regular {
            return Err(self.error(error));
        }
        self.held.drain(..self.done);
        self.done = 0;
        self.retries += 1;
        self.trouble = Some(waits(&self.path.display().to_string(), error));
        self.tries.failed();
        Ok(false)
    }

    /// Ends the pause before its next attempt to write. Returns whether there was one.
    pub fn retry(&mut self) -> bool {
        self.tries.retry()
    }

    /// Writes everything, for as long as there is time.
    pub fn flush_until(&mut self, deadline: Instant) -> Result<(), OutputError> {
        let whole = Tries::until(deadline, || {
            self.tries.retry();
            self.flush()
        })?;
        if whole {
            return Ok(());
        }
        let why = self.trouble.clone().unwrap_or_default();
        Err(OutputError::new(
            &*self.output,
            format!("it could not write before the deadline: {why}"),
        ))
    }

    /// Completes the file, on the disk, and gives it its name.
    pub fn finish(&mut self, deadline: Instant) -> Result<(), OutputError> {
        if let Some(packer) = self.packer.take() {
            let before = self.held.len();
            packer.finish(&mut self.held).map_err(|error| self.error(&error))?;
            self.stored += (self.held.len() - before) as u64;
            self.is_packing = false;
        }
        self.flush_until(deadline)?;
        if let Some(part) = self.part.take() {
            let named = self.file.sync_data().and_then(|()| rename(&part, &self.path));
            named.map_err(|error| self.error(&error))?;
        }
        Ok(())
    }

    /// Adds its state to the figures of the output.
    pub fn report(&self, figures: &mut Figures) {
        figures.retries += self.retries;
        figures.trouble = figures.trouble.take().or_else(|| self.trouble.clone());
    }

    fn error(&self, error: &io::Error) -> OutputError {
        trouble(&self.output, "write", &self.path, error)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = std::fs::remove_file(part); // it is not readable yet
        }
    }
}

/// A writer over a draft, for interfaces that take one.
impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Draft::flush(self).map(|_| ()).map_err(io::Error::other)
    }
}

/// Creates an empty directory, or removes all of its own files from an existing one if `overwrite`
/// is set.
pub fn directory(
    output: &str,
    path: &Path,
    overwrite: bool,
    mode: FileMode,
    is_ours: impl Fn(&str) -> bool,
) -> Result<(), OutputError> {
    let make = || {
        match mode.create_dir(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other,
        }
        let entries = path.read_dir()?.collect::<io::Result<Vec<_>>>()?;
        let is_ours = |entry: &DirEntry| entry.file_name().to_str().is_some_and(&is_ours);
        let may_go = entries.is_empty() || overwrite && entries.iter().all(is_ours);
        if !may_go {
            return Err(ErrorKind::AlreadyExists.into());
        }
        entries.iter().try_for_each(|entry| std::fs::remove_file(entry.path()))
    };
    make().map_err(|error| trouble(output, "create", path, &error))
}

/// Converts an error of writing into a message of something that is tried again.
pub fn waits(place: &str, error: &io::Error) -> String {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space: writing continues by itself, and nothing is lost before its ring is full"
        }
        _ => "; it is tried again",
    };
    format!("cannot write to {place}: {}{hint}", WriteError(error))
}

/// Converts an error of a file into a message.
pub fn trouble(output: &str, act: &str, path: &Path, error: &io::Error) -> OutputError {
    let advice = match error.kind() {
        ErrorKind::AlreadyExists => {
            "it already exists: choose another name, or move it away".into()
        }
        ErrorKind::StorageFull => {
            "the file system is full; free some space, or write elsewhere".into()
        }
        ErrorKind::NotFound => "its directory does not exist; create it first".into(),
        ErrorKind::BrokenPipe => "the process that read this pipe has closed it".into(),
        ErrorKind::PermissionDenied => {
            "that is not allowed to this user; write elsewhere, or change the permissions".into()
        }
        _ => WriteError(error).to_string(),
    };
    OutputError::new(output, format!("cannot {act} {}: {advice}", path.display()))
}
