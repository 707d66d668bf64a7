//! Why a write failed, with the limit that a user can raise.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::io;

/// Shows an error of writing or opening. Where the process may not write so large a file (`ulimit -f`), or open more files
/// (`ulimit -n`), the sentence names that limit.
///
/// ```
/// use perfring_events::WriteError;
/// use std::io::ErrorKind;
/// let error = ErrorKind::FileTooLarge.into();
/// assert!(WriteError(&error).to_string().contains("ulimit -f"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WriteError<'a>(pub &'a io::Error);

impl fmt::Display for WriteError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        if self.0.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
            return f.write_str(": raise that limit (`ulimit -n`, LimitNOFILE of a systemd unit)");
        }
        if self.0.kind() != io::ErrorKind::FileTooLarge {
            return Ok(());
        }
        match getrlimit(Resource::Fsize).current {
            Some(limit) => write!(f, "; this process may write files of {limit} bytes")?,
            None => {
                f.write_str("; its file system has no larger files, or its process had a limit")?
            }
        }
        f.write_str(": raise that limit (`ulimit -f`, LimitFSIZE of a systemd unit)")
    }
}
