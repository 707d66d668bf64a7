//! Open-file-description locks on single bytes of the ring file: the holder of a seat is alive.
//!
//! The kernel drops such a lock when the last descriptor of its open file description is closed, by
//! any death, in any pid namespace or container. A forked child shares the description and keeps
//! it: see `fcntl(2)`.

use crate::sys::fork;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// The byte that only a process that removes the ring locks, with all others.
pub(crate) const REMOVAL_BYTE: u64 = 0;

/// A held byte, or all of them. Unlocked when dropped, also if a forked child still has the
/// description; but not by such a child.
#[derive(Debug)]
pub(crate) struct ByteLock {
    file: Arc<File>,
    range: Range,
    generation: u32,
}

/// Bytes of the file: the first, and their number; 0 means all to the end.
type Range = (u64, u64);

fn request(kind: libc::c_int, (start, len): Range) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start as libc::off_t,
        l_len: len as libc::off_t,
        l_pid: 0, // the kernel wants it zero
    }
}

impl ByteLock {
    /// Takes the byte; `None` if it is locked.
    pub(crate) fn take(file: &Arc<File>, byte: u64) -> io::Result<Option<Self>> {
        Self::take_range(file, (byte, 1))
    }

    /// Takes all bytes in one step; `None` if one of them is locked.
    pub(crate) fn take_all(file: &Arc<File>) -> io::Result<Option<Self>> {
        Self::take_range(file, (0, 0))
    }

    fn take_range(file: &Arc<File>, range: Range) -> io::Result<Option<Self>> {
        let generation = fork::generation();
        match fcntl(file.as_ref(), FcntlArg::F_OFD_SETLK(&request(libc::F_WRLCK, range))) {
            Ok(_) => Ok(Some(ByteLock { file: Arc::clone(file), range, generation })),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            return; // its parent's
        }
        // Cannot fail on a lock that is held; closing the file would free it as well.
        let unlock = request(libc::F_UNLCK, self.range);
        let _ = fcntl(self.file.as_ref(), FcntlArg::F_OFD_SETLK(&unlock));
    }
}

/// Returns whether another open file description holds the byte. Needs no more than read
/// permission.
pub(crate) fn is_held(file: &File, byte: u64) -> io::Result<bool> {
    let mut probe = request(libc::F_WRLCK, (byte, 1));
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut probe))?;
    Ok(libc::c_int::from(probe.l_type) != libc::F_UNLCK)
}
