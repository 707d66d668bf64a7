//! A buffer on disk before an output: what the output has no room for waits in recordings.
//!
//! An event is taken; is written to a file, after which its ring may go on; is passed on to the output; is settled by it;
//! then the place moves past it, is saved from time to time, and the file goes once all of it is settled (`spool`, `progress`).
//! The next process passes on what is after the saved place, and takes nothing again that is in a file or before the place
//! (`place`, [`Buffered`]).

mod damages;
mod ends;
mod lock;
mod numbers;
mod place;
mod progress;
mod spool;

use ends::{Ends, end_of};
use numbers::Numbers;
use perfring_events::{
    Event, Figures, InBuffer, Origin, Output, OutputError, Own, Took, What, check_directories,
    delivery::checks::{more_than_zero, of_output},
    read_size,
};
use serde::Deserialize;
use spool::Spool;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Events that are taken from the buffer between two that are put into it, at most.
const PUMP: usize = 512;
/// Events after which the buffer is emptied a bit, while there is no pause.
const EVERY: u64 = 256;

/// Options of a [`Buffered`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferOptions {
    /// A directory for its files, which no other output uses. It is created if it does not exist.
    pub path: PathBuf,
    /// Bytes that it takes on the disk, at most. Default 1 GiB.
    #[serde(default = "max_bytes", deserialize_with = "read_size")]
    pub max_bytes: u64,
}

impl BufferOptions {
    /// Checks its directory and its limit.
    ///
    /// # Errors
    /// [`OutputError`] of the output of this name.
    pub fn check(&self, name: &str) -> Result<(), OutputError> {
        more_than_zero(name, &[("buffer.max_bytes", self.max_bytes)])?;
        of_output(name, check_directories(&self.path))
    }
}

const fn max_bytes() -> u64 {
    1 << 30
}

/// Puts a buffer on disk before an output.
///
/// All events are written to recordings in a directory, from where the output gets them in their order
/// as it has room. They count as delivered once they are in a file, so they leave their rings whatever
/// the output does. What is in the buffer survives the death of this process, and the next one
/// continues with it where delivery was: a file beside them has that, and is replaced twenty times a
/// second at most, so after `kill -9` the output gets the events since then a second time, with the
/// same keys. Where that file is missing, damaged or of another buffer, it gets all that is in the
/// buffer a second time, and [`Figures::trouble`] says so for a while.
///
/// Rings are read again from where all outputs had them. Records that the buffer has already, or had,
/// are not put into it again, unless rules leave out some ([`Output::leaves_out`]).
///
/// Where a file is damaged, the output gets a loss of each ring of which a block could not be read, with
/// the cause `LossCause::Damaged`, and what follows. The file is kept as `*.damaged`.
///
/// A killed process leaves its last file without an end. Nothing of that file is missing: what is not in it is still in the
/// rings. After a crash of the machine records may be missing, and [`Figures::trouble`] says so.
///
/// A buffer that is full is [`Took::Busy`], as the output itself would be without it.
pub struct Buffered {
    name: String,
    inner: Box<dyn Output>,
    spool: Spool,
    numbers: Rc<RefCell<Numbers>>,
    /// Rings that the output knows, by their numbers.
    known: HashSet<u32>,
    /// The number of the last event that the output has.
    last: u64,
    /// Up to where the buffer had rings when it was opened, by their ids: those that are not read
    /// yet,
    had: Ends,
    /// and those that are, by their numbers, until they are past it.
    repeated: HashMap<u32, u64>,
    taken: u64,
    /// Records that damage took.
    damaged: u64,
    /// Bytes of what is not delivered, at the last look.
    waiting: u64,
    /// When something was delivered last, or nothing waited.
    moved: Instant,
    /// The oldest event that the output had not settled at the last look.
    unsettled: Option<u64>,
}

impl Buffered {
    /// Opens the buffer of an output.
    ///
    /// # Errors
    /// [`OutputError`] if the directory cannot be used, or another process uses it.
    pub fn open(
        name: &str,
        options: &BufferOptions,
        inner: Box<dyn Output>,
    ) -> Result<Self, OutputError> {
        options.check(name)?;
        let numbers = Rc::default();
        let mut spool = Spool::open(name, &options.path, options.max_bytes, Rc::clone(&numbers))?;
        Ok(Buffered {
            name: name.to_owned(),
            inner,
            had: spool.take_had(),
            spool,
            numbers,
            known: HashSet::new(),
            last: 0,
            repeated: HashMap::new(),
            taken: 0,
            damaged: 0,
            waiting: 0,
            moved: Instant::now(),
            unsettled: None,
        })
    }

    /// Looks at what waits, and whether something was delivered.
    fn look(&mut self) {
        let unsettled = self.inner.unsettled();
        let waits = self.spool.has_next() || unsettled.is_some();
        let delivers = unsettled != self.unsettled && self.unsettled.is_some();
        if !waits || delivers {
            self.moved = Instant::now();
        }
        self.unsettled = unsettled;
        self.waiting = if waits { self.spool.undelivered() } else { 0 };
    }

    /// Gives the output what is in the buffer, as far as it has room.
    fn pump(&mut self, most: usize) -> Result<(), OutputError> {
        let unsettled = self.inner.unsettled().unwrap_or(u64::MAX);
        self.spool.settled(unsettled);
        let Buffered { inner, spool, known, last, damaged, .. } = self;
        for _ in 0..most {
            let Some(event) = spool.next() else { break };
            let (origin, id) = (event.origin, event.origin.id);
            let end = end_of(&event);
            if !known.contains(&id) {
                let began = Event { seq: *last + 1, origin, what: What::Began };
                if inner.take(&began)? == Took::Busy {
                    spool.repeat();
                    break;
                }
                *last += 1;
                known.insert(id);
            }
            if !matches!(event.what, What::Began) {
                let ends = matches!(event.what, What::Ended);
                let lost = match event.what {
                    What::Lost(loss) if loss.is_damage() => loss.records,
                    _ => 0,
                };
                let event = Event { seq: *last + 1, origin, what: event.what };
                if inner.take(&event)? == Took::Busy {
                    spool.repeat();
                    break;
                }
                *last += 1;
                *damaged += lost;
                if ends {
                    known.remove(&id);
                }
            }
            spool.passed(*last, end);
        }
        spool.progress.mark();
        Ok(())
    }

    /// Returns whether this is a record that the buffer had when it was opened. Losses are reported
    /// again: their sums may be other ones.
    fn had(&mut self, event: &Event<'_>) -> bool {
        let Event { origin, what, .. } = event;
        match what {
            What::Began => {
                let end = self.had.remove(&Uuid::from_bytes(origin.uuid));
                self.repeated.extend(end.map(|end| (origin.id, end)));
                false
            }
            What::Record(_) if self.repeated.is_empty() => false,
            What::Record(record) => {
                let end = self.repeated.get(&origin.id);
                let had = end.is_some_and(|end| record.pos < *end);
                if !had {
                    self.repeated.remove(&origin.id);
                }
                had
            }
            What::Lost(_) => false,
            What::Ended => {
                self.repeated.remove(&origin.id);
                false
            }
        }
    }
}

impl Output for Buffered {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if matches!(event.what, What::Began) {
            self.numbers.borrow_mut().set(event.origin.uuid, event.origin.id);
        }
        if self.had(event) {
            return Ok(Took::Yes);
        }
        let mut took = self.spool.take(event)?;
        if took == Took::Busy || event.seq.is_multiple_of(EVERY) {
            self.pump(PUMP)?;
            if took == Took::Busy {
                took = self.spool.take(event)?;
            }
        }
        let is_record = matches!(event.what, What::Record(_));
        self.taken += u64::from(is_record && took == Took::Yes);
        Ok(took)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.spool.flush()?;
        self.pump(4 * PUMP)?;
        self.look();
        self.spool.save();
        self.inner.flush()
    }

    fn hurry(&mut self) {
        self.inner.hurry();
    }

    fn producers(&mut self, all: &mut dyn Iterator<Item = (&Origin, Vec<u32>)>) {
        self.inner.producers(all);
    }

    fn leaves_out(&mut self) {
        self.had.clear();
        self.repeated.clear();
        self.spool.forget_rings();
        self.inner.leaves_out();
    }

    fn retry(&mut self) -> bool {
        let inner = self.inner.retry();
        self.spool.retry() || inner
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.spool.unsettled()
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        self.spool.flush()?;
        while Instant::now() < deadline && self.spool.has_next() {
            let before = self.last;
            self.pump(PUMP)?;
            self.inner.flush()?;
            if self.last == before {
                break;
            }
        }
        let closed = self.inner.close(deadline);
        let unsettled = self.inner.unsettled();
        self.spool.settled(match closed {
            Ok(()) => u64::MAX,
            Err(_) => unsettled.unwrap_or(0),
        });
        let waits = closed.is_err() || self.spool.has_next();
        self.waiting = if waits { self.spool.undelivered() } else { 0 };
        self.spool.close(deadline);
        match self.spool.unsettled() {
            None => Ok(()), // what the output lacks is in the buffer
            Some(_) => closed.and(Err(OutputError::new(&*self.name, "its buffer has no room"))),
        }
    }

    fn figures(&self) -> Figures {
        let mut figures = self.inner.figures();
        (figures.taken, figures.damaged) = (self.taken, self.damaged);
        let still = if self.waiting > 0 { self.moved.elapsed() } else { Duration::ZERO };
        figures.buffer =
            Some(InBuffer { bytes: self.waiting, max_bytes: self.spool.max_bytes, still });
        if let Some(trouble) = figures.trouble.as_mut().filter(|_| figures.refusing.is_none()) {
            trouble.push_str("; its buffer takes what it lacks");
        }
        figures.trouble = match (figures.trouble, self.spool.trouble()) {
            (Some(one), Some(other)) => Some(format!("{one}; {other}")),
            (one, other) => one.or(other),
        };
        figures
    }

    fn own(&self) -> Option<Box<dyn Own>> {
        self.inner.own()
    }
}

impl std::fmt::Debug for Buffered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffered").field("name", &self.name).finish_non_exhaustive()
    }
}
