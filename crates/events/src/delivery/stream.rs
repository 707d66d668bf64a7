//! The process's standard streams, which other processes may share and set to `O_NONBLOCK`.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, write};
use std::io::{self, Stderr, Stdout, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// A pipe that is reported as writable has room for this many bytes (`PIPE_BUF`).
const ROOM: usize = 4096;

/// Stdout or stderr, without a buffer.
///
/// `O_NONBLOCK` belongs to the open file, which other processes may share: Node sets it on its pipes. A write waits there until
/// there is room, and does not fail as std's does.
///
/// ```
/// use perfring_events::Stream;
/// use std::io::{BufWriter, Write};
/// let mut out = BufWriter::new(Stream::stdout());
/// writeln!(out, "one line")?;
/// out.flush()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Stream<Fd: AsFd> {
    fd: Fd,
    /// Whether a write returns at once, whatever its length.
    is_file: bool,
}

impl Stream<Stdout> {
    /// Returns the process's stdout. What std's own stdout has in its buffer is not written first.
    #[must_use]
    pub fn stdout() -> Self {
        Self::of(io::stdout())
    }
}

impl Stream<Stderr> {
    /// Returns the process's stderr.
    #[must_use]
    pub fn stderr() -> Self {
        Self::of(io::stderr())
    }
}

impl<Fd: AsFd> Stream<Fd> {
    fn of(fd: Fd) -> Self {
        let is_file = fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        Stream { fd, is_file }
    }

    /// Writes from `written` on as much as there is room for, and keeps `written` up to date. Never waits. Returns `false` if
    /// there is no room for more.
    pub fn write_some(&mut self, all: &[u8], written: &mut usize) -> io::Result<bool> {
        while let Some(rest) = all.get(*written..).filter(|rest| !rest.is_empty()) {
            let len = if self.is_file { rest.len() } else { rest.len().min(ROOM) };
            if !self.is_file && !self.poll(Some(Duration::ZERO)) {
                return Ok(false);
            }
            match write(&self.fd, rest.get(..len).unwrap_or(rest)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => *written += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    /// Returns whether the reader has closed the pipe.
    pub fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        !self.is_file
            && poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR))
    }

    /// Waits until there is room, or the reader has closed the pipe.
    pub fn wait(&self, timeout: Duration) {
        self.poll(Some(timeout));
    }

    /// Returns whether there is room, or the reader has closed the pipe. A signal ends the wait.
    fn poll(&self, timeout: Option<Duration>) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let ready = poll(&mut [PollFd::new(&self.fd, PollFlags::OUT)], timeout.as_ref());
        ready.is_ok_and(|ready| ready > 0)
    }
}

impl<Fd: AsFd> Write for Stream<Fd> {
    /// Writes some of these bytes, and waits for room if there is none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match write(&self.fd, bytes) {
                Ok(written) => return Ok(written),
                Err(Errno::AGAIN) => self.poll(None),
                Err(errno) => return Err(errno.into()),
            };
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
