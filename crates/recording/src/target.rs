//! The file or the stream that a recording is written to.

use std::fs::File;
use std::io::{self, Write};

pub(super) enum Target {
    File(File),
    /// A file that is not a regular one.
    Device(File),
    /// The program's own stream: its stdout.
    Stream(Box<dyn Write>),
}

impl Target {
    /// Returns whether the reader of the program's own stream has closed it.
    pub(super) fn is_closed_pipe(&self, error: &io::Error) -> bool {
        matches!(self, Target::Stream(_)) && error.kind() == io::ErrorKind::BrokenPipe
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) | Target::Device(file) => file.write(bytes),
            Target::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(_) | Target::Device(_) => Ok(()),
            Target::Stream(stream) => stream.flush(),
        }
    }
}
