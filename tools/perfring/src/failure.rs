//! Every way to end that is not success: its sentence and its exit code.

use perfring_consumer::{AttachError, Location, ReadError};
use perfring_export::OutputError;
use perfring_export::recording::is_recording;
use perfring_producer::CreateError;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why the command ends.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something did not work.
    General(String),
    /// The command line asks for what cannot be.
    Usage(String),
    /// There is no such ring.
    NotFound(String),
    /// A damaged ring, or a file that is none.
    Damaged(String),
    /// Records were lost and `--fail-on-loss` was given.
    Loss(String),
    /// This machine does not allow it, or not to this user.
    Forbidden(String),
    Timeout(String),
    /// SIGINT or SIGTERM: its number.
    Signal(i32),
    /// A child process has said what is wrong: the exit code.
    Reported(u8),
    /// Whoever read stdout is gone, as `head` goes: nothing to say.
    ClosedPipe,
}

impl Failure {
    /// An error that says all there is to say.
    pub(crate) fn general(error: impl ToString) -> Self {
        Failure::General(error.to_string())
    }

    /// The error of writing to stdout.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::General(format!("cannot write to stdout: {error}")),
        }
    }

    /// A ring that turned out to be damaged while it was read.
    pub(crate) fn corrupt(location: &Location, error: ReadError) -> Self {
        if error == ReadError::Truncated {
            return AttachError::Truncated { location: location.clone() }.into();
        }
        let hint = "everything before it stands; `perfring dump` shows what can still be read";
        Failure::Damaged(format!("{location}: {error}; {hint}"))
    }

    /// The exit code, and what there is to say.
    fn parts(self) -> (u8, String) {
        match self {
            Failure::General(text) => (1, text),
            Failure::Usage(text) => (2, text),
            Failure::NotFound(text) => (3, text),
            Failure::Damaged(text) => (4, text),
            Failure::Loss(text) => (5, text),
            Failure::Forbidden(text) => (6, text),
            Failure::Timeout(text) => (124, text),
            Failure::Signal(number) => (128 + (number & 0x7f) as u8, String::new()),
            Failure::Reported(code) => (code, String::new()),
            Failure::ClosedPipe => (0, String::new()),
        }
    }

    /// What there is to say.
    pub(crate) fn sentence(self) -> String {
        self.parts().1
    }

    /// Says what there is to say, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (code, sentence) = self.parts();
        if !sentence.is_empty() {
            note(&sentence);
        }
        ExitCode::from(code)
    }
}

/// A sentence on stderr. There is nobody to tell if that is closed.
pub(crate) fn note(sentence: &str) {
    let _ = writeln!(io::stderr().lock(), "perfring: {sentence}");
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        if error.closed_pipe { Failure::ClosedPipe } else { Failure::general(error) }
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        match &error {
            AttachError::NotFound { location } => {
                Failure::NotFound(format!("{error}: make it with `perfring create {location}`"))
            }
            AttachError::Bad { location, .. } if is_recording(&location.path()) => {
                let what = "is a recording and no ring: `perfring export` shows what is in it, and \
                            `perfring replay` publishes it into a ring";
                Failure::Damaged(format!("{location} {what}"))
            }
            AttachError::Bad { .. }
            | AttachError::Corrupt { .. }
            | AttachError::Truncated { .. } => Failure::Damaged(error.to_string()),
            AttachError::Busy { .. } => {
                Failure::General(format!("{error}; end it first, or watch with `perfring tail`"))
            }
            _ => Failure::general(error),
        }
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        match &error {
            CreateError::Size { .. }
            | CreateError::Slots { .. }
            | CreateError::Mode { .. }
            | CreateError::Types { .. }
            | CreateError::Aux { .. }
            | CreateError::Name { .. } => Failure::Usage(error.to_string()),
            _ => Failure::general(error),
        }
    }
}
