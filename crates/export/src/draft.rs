//! Files that are being written.

use crate::output::OutputError;
use std::fs::{DirEntry, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file that an output writes; its errors name the file and what to do.
#[derive(Debug)]
pub(crate) struct Draft {
    output: String,
    /// Its final path.
    path: PathBuf,
    /// Its path until it is finished, if that is another one.
    part: Option<PathBuf>,
    file: BufWriter<File>,
    /// Bytes written so far.
    pub(crate) written: u64,
}

impl Draft {
    /// Creates a file that is readable at any time, under its final name.
    pub(crate) fn in_place(
        output: &str,
        path: &Path,
        overwrite: bool,
    ) -> Result<Self, OutputError> {
        let mut options = OpenOptions::new();
        options.write(true).create(overwrite).truncate(overwrite).create_new(!overwrite);
        Draft::open(output, path, None, &options)
    }

    /// Creates a file that is readable only once finished, beside its final name.
    pub(crate) fn beside(output: &str, path: &Path, overwrite: bool) -> Result<Self, OutputError> {
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
        Draft::open(output, path, Some(part), options.write(true).create(true).truncate(true))
    }

    fn open(
        output: &str,
        path: &Path,
        part: Option<PathBuf>,
        options: &OpenOptions,
    ) -> Result<Self, OutputError> {
        let file = options.open(part.as_deref().unwrap_or(path));
        let file = file.map_err(|error| trouble(output, "create", path, &error))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(Draft { output: output.into(), path: path.into(), part, file, written: 0 })
    }

    /// Appends bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.file.write_all(bytes).map_err(|error| self.trouble(&error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Overwrites the file's beginning; must be the last write.
    pub(crate) fn put_at_start(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(bytes));
        written.map_err(|error| self.trouble(&error))
    }

    /// Passes buffered bytes to the kernel, where they outlive this process.
    pub(crate) fn flush(&mut self) -> Result<(), OutputError> {
        self.file.flush().map_err(|error| self.trouble(&error))
    }

    /// Completes the file and gives it its name.
    pub(crate) fn finish(&mut self) -> Result<(), OutputError> {
        self.flush()?;
        if let Some(part) = self.part.take() {
            std::fs::rename(part, &self.path).map_err(|error| self.trouble(&error))?;
        }
        Ok(())
    }

    fn trouble(&self, error: &io::Error) -> OutputError {
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
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Creates an empty directory, or removes all of its own files from an existing one if `overwrite`
/// is set.
pub(crate) fn directory(
    output: &str,
    path: &Path,
    overwrite: bool,
    is_ours: impl Fn(&str) -> bool,
) -> Result<(), OutputError> {
    let make = || {
        match std::fs::create_dir(path) {
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

/// Converts an error of a file into a message.
pub(crate) fn trouble(output: &str, act: &str, path: &Path, error: &io::Error) -> OutputError {
    let advice = match error.kind() {
        ErrorKind::AlreadyExists => {
            "it already exists: choose another name, or move it away".into()
        }
        ErrorKind::StorageFull => {
            "the file system is full; free some space, or write elsewhere".into()
        }
        ErrorKind::NotFound => "its directory does not exist; create it first".into(),
        ErrorKind::PermissionDenied => {
            "that is not allowed to this user; write elsewhere, or change the permissions".into()
        }
        _ => error.to_string(),
    };
    let closed_pipe = error.kind() == ErrorKind::BrokenPipe;
    let sentence = format!("cannot {act} {}: {advice}", path.display());
    OutputError { closed_pipe, ..OutputError::new(output, sentence) }
}
