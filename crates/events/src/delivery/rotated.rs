//! An output that writes one file after the other.

use super::checks::of_output;
use super::output::{Delivers, Explanation, Figures, Output, OutputError, Own, Took};
use super::series::{Pruned, Rotation, free_path, series};
use super::terms::Terms;
use super::tries::Tries;
use crate::event::{Event, Origin};
use perfring_consumer::advanced::Saved;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Events between two checks of how large the file is.
const EVERY: u64 = 64;

/// Opens an output that writes to this path.
type Open = dyn Fn(&Path) -> Result<Box<dyn Output>, OutputError>;

/// Finishes the file of an output by size and age, begins the next one, and removes the oldest.
///
/// A file that cannot be finished, as the disk is full, goes on until it can. So does a series whose
/// next file cannot be begun: nothing is taken until it can.
pub struct Rotated {
    name: String,
    rotation: Rotation,
    delivers: Delivers,
    /// A ring fills with records that the current file has: it is to be finished.
    hurried: bool,
    /// The path of the first file.
    path: PathBuf,
    open: Box<Open>,
    /// Attributes of resources, for each next file.
    added: Vec<(String, String)>,
    /// The output of the current file; `None` once that is finished, until the next event.
    output: Option<Box<dyn Output>>,
    current: PathBuf,
    /// When it got its first event.
    since: Option<Instant>,
    /// Figures of finished files.
    before: Figures,
    /// Bytes of the finished files that are kept.
    kept: u64,
    /// How many bytes of the last finished file came of each that was not written before its end.
    dense: f64,
    removed: Pruned,
    tries: Tries,
    trouble: Option<String>,
    clock: Box<dyn Fn() -> Instant>,
}

impl Rotated {
    /// Opens the output with `first`, and the following ones beside `path`.
    pub fn open(
        name: &str,
        rotation: &Rotation,
        terms: &Terms,
        delivers: Delivers,
        path: &Path,
        first: PathBuf,
        open: Box<Open>,
    ) -> Result<Self, OutputError> {
        of_output(name, rotation.check())?;
        let mut this = Rotated {
            name: name.to_owned(),
            rotation: rotation.clone(),
            delivers,
            hurried: false,
            path: path.to_owned(),
            output: Some(open(&first)?),
            open,
            added: Vec::new(),
            current: first,
            since: None,
            before: Figures::default(),
            kept: 0,
            dense: 1.0,
            removed: Pruned::default(),
            tries: Tries::new(terms),
            trouble: None,
            clock: Box::new(Instant::now),
        };
        this.tidy(0);
        Ok(this)
    }

    /// Removes what is too much beside a current file of so many bytes.
    fn tidy(&mut self, current: u64) {
        let kept = series(&self.path).and_then(|mut all| {
            all.retain(|path| *path != self.current);
            self.rotation.tidy(&all, current, &mut self.removed)
        });
        match kept {
            Ok(kept) => self.kept = kept,
            Err(error) => self.say("remove old files beside", &error),
        }
    }

    fn say(&mut self, act: &str, error: &io::Error) {
        self.trouble = Some(format!("cannot {act} {}: {error}", self.path.display()));
    }

    /// Finishes the current file if it is due.
    fn turn(&mut self) -> Result<(), OutputError> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let (written, unwritten) = (output.figures().bytes, output.unwritten() as f64);
        let bytes = written + (unwritten * self.dense) as u64;
        let is_due = self.hurried || self.rotation.is_due(bytes, self.since, (self.clock)());
        if is_due && self.tries.is_due() {
            // It says itself why not.
            if output.close(Instant::now()).is_err() {
                self.tries.failed();
                return output.flush(); // unless it cannot continue at all
            }
            let figures = output.figures();
            if unwritten > 0.0 {
                self.dense = (figures.bytes.saturating_sub(written) as f64 / unwritten).min(1.0);
            }
            self.before = sum(&self.before, figures);
            (self.output, self.hurried) = (None, false);
            return Ok(());
        }
        if self.rotation.keep_bytes > 0
            && self.kept > 0
            && self.kept + bytes > self.rotation.keep_bytes
        {
            self.tidy(bytes);
        }
        Ok(())
    }

    /// Begins the next file, unless it is too early to try that again.
    fn next(&mut self) {
        if !self.tries.is_due() {
            return;
        }
        let next = free_path(&self.path);
        match (self.open)(&next) {
            Ok(mut output) => {
                output.add_resource(&self.added);
                (self.output, self.current, self.since) = (Some(output), next, None);
                self.trouble = None;
                self.tries.end();
                self.tidy(0);
            }
            Err(error) => {
                self.trouble = Some(format!("the next file cannot be begun: {}", error.sentence));
                self.before.retries += 1;
                self.tries.failed();
            }
        }
    }
}

/// Adds up what two files have.
fn sum(one: &Figures, other: Figures) -> Figures {
    let mut sum = other;
    sum.taken += one.taken;
    sum.delivered += one.delivered;
    sum.bytes += one.bytes;
    sum.retries += one.retries;
    sum.refused += one.refused;
    sum
}

impl Output for Rotated {
    fn explain(&mut self, why: &Explanation<'_>) -> Result<bool, OutputError> {
        self.output.as_mut().map_or(Ok(false), |output| output.explain(why))
    }

    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.added = attributes.to_vec();
        if let Some(output) = &mut self.output {
            output.add_resource(attributes);
        }
    }

    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if event.seq.is_multiple_of(EVERY) {
            self.turn()?;
        }
        if self.output.is_none() {
            self.next();
        }
        let Some(output) = &mut self.output else { return Ok(Took::Busy) };
        let took = output.take(event)?;
        if took == Took::Yes && self.since.is_none() {
            self.since = Some((self.clock)());
        }
        Ok(took)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        if let Some(output) = &mut self.output {
            output.flush()?;
        }
        self.turn()
    }

    fn hurry(&mut self) {
        if let Some(output) = &mut self.output {
            output.hurry();
            self.hurried = self.delivers == Delivers::Finished && self.since.is_some();
        }
    }

    fn read_to(&mut self, ring: &Origin, at: &Saved) -> Result<(), OutputError> {
        // A file that would have only positions is not begun.
        self.output.as_mut().map_or(Ok(()), |output| output.read_to(ring, at))
    }

    fn retry(&mut self) -> bool {
        let output = self.output.as_mut().is_some_and(|output| output.retry());
        self.tries.retry() || output
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.output.as_mut()?.unsettled()
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        match &mut self.output {
            Some(output) => output.close(deadline),
            None => Ok(()),
        }
    }

    fn figures(&self) -> Figures {
        let current = self.output.as_ref().map(|output| output.figures()).unwrap_or_default();
        let mut figures = sum(&self.before, current);
        figures.trouble = figures.trouble.or_else(|| self.trouble.clone());
        figures.removed = self.removed.clone();
        figures
    }

    fn own(&self) -> Option<Box<dyn Own>> {
        self.output.as_ref()?.own()
    }
}

impl std::fmt::Debug for Rotated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rotated").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::super::null::Null;
    use super::*;
    use crate::event::What;
    use std::cell::Cell;
    use std::fs;
    use std::rc::Rc;
    use std::time::Duration;

    /// An output of files that cannot be opened while there is a file `full`.
    fn rotated(dir: &Path, rotation: &Rotation) -> (Rotated, Rc<Cell<Instant>>) {
        let full = dir.join("full");
        let open = move |path: &Path| -> Result<Box<dyn Output>, OutputError> {
            if full.exists() {
                return Err(OutputError::new("out", "the disk is full"));
            }
            fs::write(path, "").unwrap();
            Ok(Box::new(Null::default()))
        };
        let path = dir.join("run");
        let mut rotated = Rotated::open(
            "out",
            rotation,
            &Terms::default(),
            Delivers::Finished,
            &path,
            path.clone(),
            Box::new(open),
        )
        .unwrap();
        let now = Rc::new(Cell::new(Instant::now()));
        let clock = Rc::clone(&now);
        rotated.clock = Box::new(move || clock.get());
        (rotated, now)
    }

    fn files(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_file_that_holds_something_is_finished_at_its_age() {
        let dir = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3600);
        let rotation = Rotation { max_age: hour, keep: 2, ..Rotation::default() };
        let (mut rotated, now) = rotated(dir.path(), &rotation);
        let origin = Origin::default();
        let event = Event { seq: 1, origin: &origin, what: What::Began };
        now.set(now.get() + 2 * hour);
        rotated.flush().unwrap();
        assert_eq!(files(dir.path()), 1, "it holds nothing");
        for file in 1..5 {
            assert_eq!(rotated.take(&event).unwrap(), Took::Yes);
            now.set(now.get() + hour - Duration::from_nanos(1));
            rotated.flush().unwrap();
            assert!(rotated.output.is_some());
            now.set(now.get() + Duration::from_nanos(1));
            rotated.flush().unwrap();
            assert!(rotated.output.is_none());
            // Two finished ones are kept beside the current one.
            assert_eq!(files(dir.path()), file.min(3));
        }
        assert_eq!(rotated.figures().removed.files, 1);
    }

    #[test]
    fn a_file_that_holds_what_fills_a_ring_is_finished_without_limits() {
        let dir = tempfile::tempdir().unwrap();
        let (mut rotated, _now) = rotated(dir.path(), &Rotation::default());
        let origin = Origin::default();
        let event = Event { seq: 1, origin: &origin, what: What::Began };
        for file in 1..4 {
            rotated.hurry();
            rotated.flush().unwrap();
            assert_eq!(files(dir.path()), file.max(2) - 1, "it holds nothing");
            assert_eq!(rotated.take(&event).unwrap(), Took::Yes);
            rotated.flush().unwrap();
            assert_eq!(files(dir.path()), file, "no ring fills");
            rotated.hurry();
            rotated.flush().unwrap();
            assert!(rotated.output.is_none());
        }
        // The records of these files are delivered when they are written.
        rotated.delivers = Delivers::Written;
        assert_eq!(rotated.take(&event).unwrap(), Took::Yes);
        rotated.hurry();
        rotated.flush().unwrap();
        assert!(rotated.output.is_some());
    }

    #[test]
    fn nothing_is_taken_until_the_next_file_can_be_begun() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation { max_age: Duration::from_nanos(1), ..Rotation::default() };
        let (mut rotated, now) = rotated(dir.path(), &rotation);
        let origin = Origin::default();
        let event = Event { seq: 1, origin: &origin, what: What::Began };
        assert_eq!(rotated.take(&event).unwrap(), Took::Yes);
        now.set(now.get() + Duration::from_secs(1));
        fs::write(dir.path().join("full"), "").unwrap();
        rotated.flush().unwrap();
        assert_eq!(rotated.take(&event).unwrap(), Took::Busy);
        let trouble = rotated.figures().trouble.unwrap();
        assert!(
            trouble.starts_with("the next file cannot be begun: the disk is full"),
            "{trouble}"
        );
        fs::remove_file(dir.path().join("full")).unwrap();
        rotated.tries.retry();
        assert_eq!(rotated.take(&event).unwrap(), Took::Yes);
        assert_eq!(rotated.figures().trouble, None);
    }
}
