//! Dead letters: what a receiver refused for good, kept in a file with the reason.

use crate::delivery::dead_letter_file::DeadLetterFile;
use crate::delivery::draft::trouble;
use crate::delivery::output::OutputError;
use crate::delivery::terms::{FileMode, Terms};
use base64::Engine as _;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A file of dead letters: one JSON object a line.
///
/// It is opened for each letter, so that it may be moved away at any time.
#[derive(Debug)]
pub struct DeadLetters {
    path: PathBuf,
    mode: FileMode,
    max_bytes: u64,
    turn: Mutex<()>,
}

/// One request that was refused, as a whole or in part.
#[derive(Clone, Copy, Debug)]
pub struct Letter<'a> {
    pub output: &'a str,
    /// `logs`, `metrics`, `traces`, or a subject.
    pub signal: &'a str,
    /// The cause as in [`Figures::refused_by`](crate::delivery::output::Figures::refused_by).
    pub cause: &'a str,
    pub reason: &'a str,
    /// Items of the request.
    pub items: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// The request as it was sent, without compression.
    pub request: &'a [u8],
}

/// Where a letter is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// In the file.
    Yes,
    /// Nowhere: with it the file would exceed its limit.
    Full,
}

impl DeadLetters {
    /// Creates the file, or takes an existing one. The default file is created with the first letter.
    pub fn open(
        output: &str,
        file: &DeadLetterFile,
        terms: &Terms,
        max_bytes: u64,
    ) -> Result<Option<Self>, OutputError> {
        let mode = terms.mode;
        if let DeadLetterFile::At(path) = file {
            append(path, mode).map_err(|error| trouble(output, "write", path, &error))?;
        }
        let Some(path) = file.path(output, terms) else { return Ok(None) };
        Ok(Some(DeadLetters { path, mode, max_bytes, turn: Mutex::default() }))
    }

    /// Appends a letter to a file, if there is one; returns the end of a message, which says where it is.
    ///
    /// # Errors
    /// A message: it cannot be written now.
    pub fn place(to: Option<&Self>, letter: &Letter<'_>) -> Result<String, String> {
        let Some(to) = to else { return Ok("; not kept: `dead_letters` names no file".to_owned()) };
        let path = to.path.display();
        match to.keep(letter) {
            Ok(Kept::Yes) => Ok(format!("; kept in {path}")),
            Ok(Kept::Full) => Ok(format!("; not kept, as {path} is full")),
            Err(error) => Err(format!(
                "a dead letter cannot be written to {path}: {error}; records are held until it can"
            )),
        }
    }

    fn keep(&self, letter: &Letter<'_>) -> io::Result<Kept> {
        let line = letter.line();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner); // it guards no data
        let (mut file, length, torn) = append(&self.path, self.mode)?;
        let line = if torn { [b"\n", line.as_slice()].concat() } else { line };
        if length.saturating_add(line.len() as u64) > self.max_bytes {
            return Ok(Kept::Full);
        }
        file.write_all(&line)?;
        file.sync_data()?;
        Ok(Kept::Yes)
    }
}

/// Returns the file, its length, and whether its last line has no end: its writer was killed, or
/// the disk was full.
fn append(path: &Path, mode: FileMode) -> io::Result<(File, u64, bool)> {
    let mut file = mode.open(OpenOptions::new().read(true).append(true).create(true), path)?;
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, length, last != [b'\n']))
}

#[derive(Serialize)]
struct Line<'a> {
    time_unix_nano: u128,
    output: &'a str,
    signal: &'a str,
    cause: &'a str,
    reason: &'a str,
    items: u64,
    refused: u64,
    /// In base64.
    request: String,
}

impl Letter<'_> {
    fn line(&self) -> Vec<u8> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let line = Line {
            time_unix_nano: now.as_nanos(),
            output: self.output,
            signal: self.signal,
            cause: self.cause,
            reason: self.reason,
            items: self.items,
            refused: self.refused,
            request: base64::engine::general_purpose::STANDARD.encode(self.request),
        };
        let mut line = serde_json::to_vec(&line).unwrap_or_default(); // texts and numbers alone
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LETTER: Letter<'_> = Letter {
        output: "o",
        signal: "logs",
        cause: "400",
        reason: "no",
        items: 3,
        refused: 2,
        request: b"\0request",
    };

    fn open(path: &Path, max_bytes: u64) -> DeadLetters {
        let file = DeadLetterFile::At(path.to_owned());
        DeadLetters::open("o", &file, &Terms::default(), max_bytes).unwrap().unwrap()
    }

    #[test]
    fn without_a_file_of_its_own_an_output_has_one_in_the_directory_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let terms = Terms { dead_letters: Some(dir.path().to_owned()), ..Terms::default() };
        let open = |file, terms: &Terms| DeadLetters::open("a/b", &file, terms, 10_000).unwrap();
        assert!(open(DeadLetterFile::Default, &Terms::default()).is_none());
        assert!(open(DeadLetterFile::Off, &terms).is_none());
        let letters = open(DeadLetterFile::Default, &terms).unwrap();
        let path = dir.path().join("dead-letters-a-b.jsonl");
        assert!(!path.exists(), "before the first letter");
        assert_eq!(letters.keep(&LETTER).unwrap(), Kept::Yes);
        assert!(path.exists());
    }

    #[test]
    fn a_letter_is_a_line_with_the_request() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dead.jsonl");
        let letters = open(&path, 10_000);
        assert_eq!(letters.keep(&LETTER).unwrap(), Kept::Yes);
        // A line that was cut off spoils no later one.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"torn").unwrap();
        assert_eq!(letters.keep(&LETTER).unwrap(), Kept::Yes);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "{\"torn"));
        for line in [lines[0], lines[2]] {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&value["cause"], &value["refused"]), (&"400".into(), &2.into()));
            assert_eq!(value["request"], "AHJlcXVlc3Q=");
        }
    }

    #[test]
    fn the_file_is_bounded_and_may_be_moved_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dead.jsonl");
        let most = LETTER.line().len() as u64 * 2 + 1;
        let letters = open(&path, most);
        let kept: Vec<Kept> = (0..3).map(|_| letters.keep(&LETTER).unwrap()).collect();
        assert_eq!(kept, [Kept::Yes, Kept::Yes, Kept::Full]);
        assert!(path.metadata().unwrap().len() <= most);
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        assert_eq!(letters.keep(&LETTER).unwrap(), Kept::Yes);
    }
}
