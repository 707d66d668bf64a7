//! All failures of the command: a message and an exit code for each.

use crate::core_file;
use crate::verbosity::{has_details, has_summaries};
use perfring_consumer::{AttachError, Location, ReadError, error::BadRing};
use perfring_export::recording::is_recording;
use perfring_export::{OutputError, Stream, WriteError};
use perfring_producer::{
    OpenError,
    error::{CpuSetError, CreateError},
};
use std::io::{self, Write};
use std::process::ExitCode;

/// Why the command ends.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An operation failed.
    General(String),
    /// A ring could not be opened: the process has no descriptor left.
    Shortage(String),
    /// The command line is invalid.
    Usage(String),
    /// There is no such ring.
    NotFound(String),
    /// A damaged ring, or a file that is not a ring.
    Damaged(String),
    /// Records were lost and `--fail-on-loss` was given.
    Loss(String),
    /// The machine does not allow it, or not for this user.
    Forbidden(String),
    /// A sidecar is not ready.
    NotReady(String),
    Timeout(String),
    /// SIGINT or SIGTERM: its number.
    Signal(i32),
    /// A child process has printed its message: its exit code.
    Reported(u8),
    /// The reader of stdout has closed it, as `head` does: no message.
    ClosedPipe,
}

impl Failure {
    /// Wraps an error whose message is complete.
    pub(crate) fn general(error: impl ToString) -> Self {
        Failure::General(error.to_string())
    }

    /// Wraps an error of writing to stdout.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::General(format!("cannot write to stdout: {}", WriteError(&error))),
        }
    }

    /// A ring that was found damaged while it was read.
    pub(crate) fn corrupt(location: &Location, error: ReadError) -> Self {
        let at = || location.clone();
        match error {
            ReadError::Truncated => return AttachError::Truncated { location: at() }.into(),
            ReadError::NoSpace => return AttachError::NoSpace { location: at() }.into(),
            _ => {}
        }
        let hint = "everything before it is intact; `perfring dump` shows what can still be read";
        Failure::Damaged(format!("{location}: {error}; {hint}"))
    }

    /// Returns the exit code and the message.
    fn parts(self) -> (u8, String) {
        match self {
            Failure::General(text) | Failure::Shortage(text) => (1, text),
            Failure::Usage(text) => (2, text),
            Failure::NotFound(text) => (3, text),
            Failure::Damaged(text) => (4, text),
            Failure::Loss(text) => (5, text),
            Failure::Forbidden(text) => (6, text),
            Failure::NotReady(text) => (7, text),
            Failure::Timeout(text) => (124, text),
            Failure::Signal(number) => (128 + (number & 0x7f) as u8, String::new()),
            Failure::Reported(code) => (code, String::new()),
            Failure::ClosedPipe => (0, String::new()),
        }
    }

    /// Reports the message in another way, if there is one.
    pub(crate) fn reported(self, say: impl FnOnce(&str)) -> Self {
        let (code, sentence) = self.parts();
        if !sentence.is_empty() {
            say(&sentence);
        }
        Failure::Reported(code)
    }

    /// Prints the message, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (code, sentence) = self.parts();
        if !sentence.is_empty() {
            note(&sentence);
        }
        ExitCode::from(code)
    }
}

/// Prints what became of the work on stderr, unless `-q` was given.
pub(crate) fn summary(sentence: &str) {
    if has_summaries() {
        note(sentence);
    }
}

/// Prints what became of the work on stderr; with `-q` only if records were lost.
pub(crate) fn work_done(sentence: &str, has_lost: bool) {
    if has_lost { note(sentence) } else { summary(sentence) }
}

/// Prints on stderr what is done, if `-v` was given.
pub(crate) fn detail(sentence: impl FnOnce() -> String) {
    if has_details() {
        note(&sentence());
    }
}

/// Prints a message on stderr that is never left out: what is wrong, or lost. Ignores an error of that.
pub(crate) fn note(sentence: &str) {
    let _ = Stream::stderr().write_all(format!("perfring: {sentence}\n").as_bytes());
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        if error.closed_pipe { Failure::ClosedPipe } else { Failure::general(error) }
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        if let AttachError::Bad {
            location,
            source: BadRing::Foreign { .. } | BadRing::Short { .. },
        } = &error
            && let Some(advice) = core_file::advice(&location.path())
        {
            return Failure::Damaged(format!("{error}; {advice}"));
        }
        match &error {
            AttachError::NotFound { holder: Some(image), .. } => {
                let image = image.display();
                Failure::Damaged(format!(
                    "{error}: `perfring dump --image {image}` finds the rings of {image}"
                ))
            }
            AttachError::NotFound { location, leads_to, .. } => {
                let path = leads_to.as_ref().map_or_else(|| location.clone(), Location::from);
                Failure::NotFound(format!("{error}: create it with `perfring create {path}`"))
            }
            AttachError::Bad { location, .. } if is_recording(&location.path()) => {
                let what = "is a recording, not a ring: `perfring export` shows what is in it, and \
                            `perfring replay` publishes it into a ring";
                Failure::Damaged(format!("{location} {what}"))
            }
            error if error.is_shortage() => {
                Failure::Shortage(format!("{error}: raise the limit of open files (`ulimit -n`)"))
            }
            AttachError::Bad { .. }
            | AttachError::Corrupt { .. }
            | AttachError::Truncated { .. } => Failure::Damaged(error.to_string()),
            // A socket, a device or a FIFO.
            AttachError::Io { source, .. }
                if source.kind() == io::ErrorKind::InvalidInput
                    && source.raw_os_error().is_none() =>
            {
                Failure::Damaged(error.to_string())
            }
            AttachError::Busy { .. } => {
                Failure::General(format!("{error}; end it first, or observe with `perfring tail`"))
            }
            _ => Failure::general(error),
        }
    }
}

impl From<CpuSetError> for Failure {
    fn from(error: CpuSetError) -> Self {
        match error {
            CpuSetError::Ring(OpenError::Attach(error)) => error.into(),
            CpuSetError::Ring(OpenError::Create(error)) => error.into(),
            CpuSetError::Empty { .. } => Failure::NotFound(error.to_string()),
            _ => Failure::general(error),
        }
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        match &error {
            CreateError::Size { .. }
            | CreateError::Slots { .. }
            | CreateError::Consumers { .. }
            | CreateError::Cpu { .. }
            | CreateError::Mode { .. }
            | CreateError::Types { .. }
            | CreateError::Aux { .. }
            | CreateError::SampleId
            | CreateError::Name { .. }
            | CreateError::NoSegments { .. } => Failure::Usage(error.to_string()),
            _ => Failure::general(error),
        }
    }
}
