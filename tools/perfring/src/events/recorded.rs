//! Events that are read from first to last, and those of a recording.

use crate::failure::Failure;
use perfring_export::Event;
use perfring_export::recording::{ReadError, Reader};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Events, from the first to the last.
pub(crate) trait Events {
    /// Returns the next event, or `None` after the last.
    fn next(&mut self) -> Result<Option<Event<'_>>, Failure>;

    /// Returns the bytes read so far, and the total.
    fn progress(&self) -> (u64, u64);
}

/// The events of a recording.
pub(crate) struct Recorded {
    path: PathBuf,
    reader: Reader,
    size: u64,
}

impl Recorded {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: ReadError| failure(path, &error);
        let file = File::open(path).map_err(|error| failed(error.into()))?;
        let size = file.metadata().map_or(0, |meta| meta.len());
        let reader = Reader::new(file).map_err(failed)?;
        Ok(Recorded { path: path.to_owned(), reader, size })
    }
}

impl Events for Recorded {
    fn next(&mut self) -> Result<Option<Event<'_>>, Failure> {
        self.reader.next().map_err(|error| failure(&self.path, &error))
    }

    fn progress(&self) -> (u64, u64) {
        (self.reader.position().min(self.size), self.size)
    }
}

/// Converts an error of a recording.
fn failure(path: &Path, error: &ReadError) -> Failure {
    let sentence = format!("{}: {error}", path.display());
    match error {
        ReadError::Io(io) if io.kind() == std::io::ErrorKind::NotFound => {
            Failure::NotFound(sentence)
        }
        ReadError::Io(_) => Failure::General(sentence),
        _ => Failure::Damaged(sentence),
    }
}
