//! What an output is.

use crate::event::Event;
use std::time::Instant;
use thiserror::Error;

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The output has it, and will deliver it or say that it could not.
    Yes,
    /// It has no room now: the same event again, later. Nothing of it was taken.
    Busy,
}

/// An output cannot go on: a sentence that says what is wrong and what to do.
///
/// Being unreachable is no such thing: an output then tries again, with pauses that grow, and is
/// [`Took::Busy`] once its bounded memory is full.
#[derive(Clone, Debug, Error)]
#[error("{output}: {sentence}")]
pub struct OutputError {
    /// The output's name.
    pub output: String,
    /// What is wrong, and what to do.
    pub sentence: String,
    /// The reader of what it writes has gone: no error for whoever writes to a pipe.
    pub closed_pipe: bool,
}

impl OutputError {
    /// An error of this output.
    pub fn new(output: impl Into<String>, sentence: impl Into<String>) -> Self {
        OutputError { output: output.into(), sentence: sentence.into(), closed_pipe: false }
    }
}

/// What an output did so far, and how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records that it took.
    pub taken: u64,
    /// Records that are delivered.
    pub delivered: u64,
    /// Bytes that it wrote or sent, as far as it knows.
    pub bytes: u64,
    /// Times that it had to send something again, or connect again.
    pub retries: u64,
    /// Records that it took and could not bring over: the other side refused them for good. Each is
    /// told in `trouble`.
    pub refused: u64,
    /// What is wrong now, if anything: a sentence.
    pub trouble: Option<String>,
}

/// A format or an engine that records are handed on to.
///
/// All calls come from one thread. None blocks for longer than a write to a local file does, but
/// for [`Output::close`]: what talks to a network has a thread of its own, and a bounded queue.
pub trait Output {
    /// Takes an event. Events come in the order of their numbers, some may be left out.
    ///
    /// # Errors
    /// [`OutputError`] if it cannot go on at all.
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError>;

    /// Hands on what it holds back for want of more: called when there is nothing more to take now,
    /// and now and then.
    ///
    /// # Errors
    /// [`OutputError`] if it cannot go on at all.
    fn flush(&mut self) -> Result<(), OutputError>;

    /// Waits no longer for what would make more of what it took: called while some ring is a quarter
    /// full of what is not delivered, whichever ring that is. Does nothing where that changes nothing.
    fn hurry(&mut self) {}

    /// The number of the oldest event that it took and that is not delivered; `None` if all are. What
    /// stands before it may leave its ring.
    fn undelivered(&mut self) -> Option<u64>;

    /// Delivers what it has, until the deadline, and finishes what it writes.
    ///
    /// # Errors
    /// [`OutputError`] if something could not be delivered: it says how much.
    fn close(&mut self, deadline: Instant) -> Result<(), OutputError>;

    /// What it did, and how it is.
    fn figures(&self) -> Figures;
}
