//! Events that are read from first to last, and those of a recording.

use crate::failure::Failure;
use perfring_consumer::stat::Count;
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

    /// Returns what the rings have behind damage: it is in no event.
    fn unread(&self) -> Unread {
        Unread::default()
    }
}

/// What damaged rings have behind the damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// The records and bytes that the rings count there.
    pub(crate) counted: Count,
    /// The counts of a ring are damaged, too.
    pub(crate) is_more: bool,
}

impl Unread {
    /// Says how much that is, to follow other numbers.
    pub(crate) fn in_words(&self) -> Option<String> {
        let Count { records, bytes } = self.counted;
        let what = match (records, self.is_more) {
            (0, false) => return None,
            (0, true) => "an unknown number of records".to_owned(),
            (records, false) => format!("{records} more ({bytes} bytes)"),
            (records, true) => format!("{records} more ({bytes} bytes), and an unknown number"),
        };
        Some(format!("{what} cannot be read behind damage"))
    }
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
