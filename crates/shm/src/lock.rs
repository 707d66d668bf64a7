//! Open-file-description locks on single bytes of the ring file: who holds a place is alive.
//!
//! The kernel drops such a lock when the last descriptor of its open file description is closed,
//! by any death, in whatever pid namespace or container. A forked child shares the description and
//! keeps it: see `fcntl(2)`.

use crate::fork;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A held byte. Given back when dropped, also if a forked child still has the description; but not
/// by such a child.
#[derive(Debug)]
pub(crate) struct ByteLock {
    file: Arc<File>,
    byte: u64,
    generation: u32,
}

fn range(kind: libc::c_int, byte: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0, // the kernel wants it zero
    }
}

impl ByteLock {
    /// Takes the byte, or says that somebody has it.
    pub(crate) fn take(file: &Arc<File>, byte: u64) -> io::Result<Option<Self>> {
        let generation = fork::generation();
        match fcntl(file.as_ref(), FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, byte))) {
            Ok(_) => Ok(Some(ByteLock { file: Arc::clone(file), byte, generation })),
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
        let unlock = range(libc::F_UNLCK, self.byte);
        let _ = fcntl(self.file.as_ref(), FcntlArg::F_OFD_SETLK(&unlock));
    }
}

/// Whether somebody else holds the byte. Needs no more than read permission.
pub(crate) fn is_held(file: &File, byte: u64) -> io::Result<bool> {
    let mut probe = range(libc::F_WRLCK, byte);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut probe))?;
    Ok(libc::c_int::from(probe.l_type) != libc::F_UNLCK)
}
