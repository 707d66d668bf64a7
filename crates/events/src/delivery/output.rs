//! The interface of outputs.

use super::series::Pruned;
use crate::event::sum_of;
use crate::event::{Event, Origin};
use perfring_consumer::advanced::Saved;
use std::time::{Duration, Instant};
use thiserror::Error;

/// The result of offering an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The output has it, and will deliver it or report that it could not.
    Yes,
    /// The output has no room now, and took nothing: offer the same event again later.
    Busy,
}

/// An output cannot continue: a message that says what is wrong and what to do.
///
/// Being unreachable is not such an error: an output then retries with growing pauses, and is
/// [`Took::Busy`] once its bounded memory is full.
#[derive(Clone, Debug, Error)]
#[error("{output}: {sentence}")]
pub struct OutputError {
    /// The output's name.
    pub output: String,
    /// The problem, and what to do.
    pub sentence: String,
    /// The reader of the program's stdout has closed the pipe, which is no error for a program in a pipeline. The end of a
    /// named pipe's reader is an error.
    pub closed_pipe: bool,
}

impl OutputError {
    /// Creates an error of this output.
    pub fn new(output: impl Into<String>, sentence: impl Into<String>) -> Self {
        OutputError { output: output.into(), sentence: sentence.into(), closed_pipe: false }
    }
}

/// The counters and the state of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records that it took.
    pub taken: u64,
    /// Records that are at the receiver, or in the file. Not all others are unsettled
    /// ([`Output::unsettled`]): the output is done with refused ones, too.
    pub delivered: u64,
    /// Bytes that it wrote or sent, as far as it knows.
    pub bytes: u64,
    /// How often it had to send something again, or connect again.
    pub retries: u64,
    /// Records that it took and could not deliver: the receiver refused them for good. Each is
    /// reported in `trouble`.
    pub refused: u64,
    /// The same by cause, in the order of the causes' first occurrence: as `400`, `too large`,
    /// `partial success`. Empty where an output does not tell causes apart.
    pub refused_by: Vec<(&'static str, u64)>,
    /// Records that damage to its buffer took, each of which was reported to it as lost.
    pub damaged: u64,
    /// Finished files that it removed, as it keeps so many.
    pub removed: Pruned,
    /// A message about the present problem, if there is one.
    pub trouble: Option<String>,
    /// Why the receiver refused all of its last request for good, until it accepts something of a later one.
    pub refusing: Option<String>,
    /// What waits in its buffer on disk, if it has one.
    pub buffer: Option<InBuffer>,
}

/// What waits in the buffer of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InBuffer {
    /// Bytes of what is not delivered, in whole blocks of a file; 0 if all is.
    pub bytes: u64,
    /// The limit of bytes.
    pub max_bytes: u64,
    /// How long nothing was delivered of what waits.
    pub still: Duration,
}

impl Figures {
    /// Counts records that were refused for good.
    pub fn refuse(&mut self, cause: &'static str, records: u64) {
        self.refused += records;
        *sum_of(&mut self.refused_by, cause) += records;
    }
}

/// When a record counts as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivers {
    /// Once it is written or sent.
    Written,
    /// Once the file that has it is finished, as the file cannot be read before that.
    Finished,
}

impl Delivers {
    /// Returns a sentence about the records of a required output.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Delivers::Written => "records leave their rings once it has delivered them",
            Delivers::Finished => {
                "records leave their rings once the file that has them is finished"
            }
        }
    }
}

/// A format or a protocol for records.
///
/// All calls come from one thread. None blocks for longer than a write to a local file, except
/// [`Output::close`]: an output that uses a network has a thread of its own, and a bounded queue.
pub trait Output {
    /// Takes an event. Events arrive in the order of their numbers; some may be left out.
    ///
    /// # Errors
    /// [`OutputError`] if it cannot continue at all.
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError>;

    /// Passes on what it holds back to collect more: called when there is nothing more to take now,
    /// and from time to time.
    ///
    /// # Errors
    /// [`OutputError`] if it cannot continue at all.
    fn flush(&mut self) -> Result<(), OutputError>;

    /// Stops waiting for what would complete held items: called while some ring is a quarter full
    /// of undelivered records, whichever ring that is. Does nothing where that changes nothing.
    fn hurry(&mut self) {}

    /// Ends the pause before its next attempt, as someone knows that what failed is mended. Returns whether there was one.
    fn retry(&mut self) -> bool {
        false
    }

    /// From now on it may not be given all records of a ring: what it is not given is reported to it
    /// as lost some time later. So a record that it was given does not say that it has had, or was
    /// told of, all before that.
    fn leaves_out(&mut self) {}

    /// Learns which processes produce to rings, every few seconds: each ring with the pids of its producers that are
    /// alive. An output that does not ask costs nothing.
    fn producers(&mut self, all: &mut dyn Iterator<Item = (&Origin, Vec<u32>)>) {
        let _ = all; // most outputs do not ask
    }

    /// Adds these attributes to the resource of each process. An attribute that the process itself has wins. To be called
    /// before the first event. Does nothing where records are not decoded.
    fn add_resource(&mut self, _: &[(String, String)]) {}

    /// Learns the position up to which a ring is read: a recording notes it, for a later run that continues there. Called before
    /// [`Output::close`].
    ///
    /// # Errors
    /// Those of [`Output::take`].
    fn read_to(&mut self, _: &Origin, _: &Saved) -> Result<(), OutputError> {
        Ok(())
    }

    /// Shows why something took long, or was lost, beside the events. Returns whether this output does.
    ///
    /// # Errors
    /// Those of [`Output::take`].
    fn explain(&mut self, _: &Explanation<'_>) -> Result<bool, OutputError> {
        Ok(false)
    }

    /// Returns the number of the oldest event that it took and that is not settled; `None` if all
    /// are. Earlier events may leave their rings.
    ///
    /// An event is settled once the output does not need its ring any more: it is delivered, it is
    /// refused for good, or it is in a file of the buffer before the output.
    fn unsettled(&mut self) -> Option<u64>;

    /// Delivers what it has, until the deadline, and finishes what it writes.
    ///
    /// # Errors
    /// [`OutputError`] if something could not be delivered, with the number of records.
    fn close(&mut self, deadline: Instant) -> Result<(), OutputError>;

    /// Returns its counters and state.
    fn figures(&self) -> Figures;

    /// Returns the approximate bytes in memory of what it took and has not written to its file yet.
    /// 0 if it writes what it takes at once, or to no file.
    fn unwritten(&self) -> u64 {
        0
    }

    /// Returns where the program shows figures of its own, if this output shows figures.
    fn own(&self) -> Option<Box<dyn Own>> {
        None
    }
}

/// Why something took long, or was lost.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'a> {
    /// What it explains, in a word: `gap`, `loss`.
    pub what: &'a str,
    /// The ring, whose pids the following one is of; `None` if none is concerned.
    pub ring: Option<&'a Origin>,
    /// The process and the thread; `None` if none is concerned.
    pub thread: Option<(u32, u32)>,
    /// When it began: ns of the timestamps' clock.
    pub time: u64,
    /// How long it took, ns; 0 for a moment.
    pub length: u64,
    /// The cause in a word or two.
    pub cause: &'a str,
    /// How sure that is, in a word.
    pub certainty: &'a str,
    /// All of it in words.
    pub sentence: &'a str,
}

/// Figures of the program itself, beside those of rings: set by name and labels, at any time.
pub trait Own {
    /// Sets a counter, which only grows.
    fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)], value: f64);

    /// Sets a gauge.
    fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)], value: f64);

    /// Forgets all figures that have all of these labels.
    fn forget(&self, labels: &[(&str, &str)]);
}
