//! The records of many rings, or of a recording, one after the other.

mod filter;
mod held;
mod live;
mod progress;
mod still;

use crate::failure::{Failure, note};
use perfring_consumer::Home;
use perfring_export::Event;
use perfring_export::recording::{ReadError, Reader, is_recording};
use std::fs::File;
use std::path::{Path, PathBuf};

pub(crate) use filter::Filter;
pub(crate) use live::{How, Live};
pub(crate) use progress::Progress;
pub(crate) use still::Still;

/// What a name on the command line stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Ring(Home),
    /// A directory of rings.
    Set(PathBuf),
    Recording(PathBuf),
}

impl Input {
    pub(crate) fn of(home: &Home) -> Self {
        match home {
            Home::File(path) if path.is_dir() => Input::Set(path.clone()),
            Home::File(path) if is_recording(path) => Input::Recording(path.clone()),
            _ => Input::Ring(home.clone()),
        }
    }
}

/// Events, from the first to the last.
pub(crate) trait Events {
    /// The next one, or `None` after the last.
    fn next(&mut self) -> Result<Option<Event<'_>>, Failure>;

    /// Bytes that were read, and that there are.
    fn progress(&self) -> (u64, u64);
}

/// A recording's.
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

/// What is wrong with a recording, as a way to end.
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

/// What all these names stand for, as it is now: a recording, or rings merged by their stamps.
pub(crate) fn open(homes: &[Home]) -> Result<Box<dyn Events>, Failure> {
    let inputs: Vec<Input> = homes.iter().map(Input::of).collect();
    if let [Input::Recording(path)] = &inputs[..] {
        return Ok(Box::new(Recorded::open(path)?));
    }
    let mut rings = Vec::new();
    for input in inputs {
        match input {
            Input::Ring(home) => rings.push(home),
            Input::Set(dir) => rings.extend(rings_in(&dir)?),
            Input::Recording(path) => {
                let path = path.display();
                let why = "give one recording by itself, or any number of rings";
                return Err(Failure::Usage(format!("{path} is a recording: {why}")));
            }
        }
    }
    Ok(Box::new(Still::open(&rings)?))
}

/// The rings of a directory that are there now, in the order of their names.
fn rings_in(dir: &Path) -> Result<Vec<Home>, Failure> {
    let listed = perfring_set::list(dir);
    let (rings, others) = listed.map_err(|error| Failure::General(error.to_string()))?;
    for other in others {
        note(&format!("{} is left out: {}", other.path.display(), other.why));
    }
    if rings.is_empty() {
        return Err(Failure::NotFound(format!("there is no ring in {}", dir.display())));
    }
    Ok(rings.into_iter().map(|(ring, _)| Home::from(ring.path)).collect())
}
