//! Stdout, which may be a pipe with a slow reader: writing to it never blocks.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// A pipe that is reported as writable has room for this many bytes (`PIPE_BUF`).
const ROOM: usize = 4096;

/// Stdout.
#[derive(Debug)]
pub(super) struct Pipe {
    /// Bypasses std's own buffer, which does not report how much of it was written.
    out: File,
    /// Whether a write returns at once, whatever its length.
    is_file: bool,
}

impl Pipe {
    pub(super) fn stdout() -> io::Result<Self> {
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let is_file = out.metadata()?.is_file();
        Ok(Pipe { out, is_file })
    }

    /// Writes from `written` on, and keeps it up to date. Returns `false` if there is no room for
    /// more.
    pub(super) fn write(&mut self, all: &[u8], written: &mut usize) -> io::Result<bool> {
        while let Some(rest) = all.get(*written..).filter(|rest| !rest.is_empty()) {
            let len = if self.is_file { rest.len() } else { rest.len().min(ROOM) };
            if !self.is_file && !self.poll(Duration::ZERO) {
                return Ok(false);
            }
            match self.out.write(rest.get(..len).unwrap_or(rest)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => *written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The descriptor has O_NONBLOCK set.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns whether the reader has closed the pipe.
    pub(super) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.out.as_fd(), PollFlags::empty())];
        !self.is_file
            && poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR))
    }

    /// Waits until there is room, or the reader has closed the pipe.
    pub(super) fn wait(&self, timeout: Duration) {
        self.poll(timeout);
    }

    fn poll(&self, timeout: Duration) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.out.as_fd(), PollFlags::OUT)];
        let timeout = Timespec::try_from(timeout).ok();
        poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }
}
