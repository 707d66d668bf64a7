//! Open-file-description locks on single bytes of the ring file: the holder of a seat is alive.
//!
//! The kernel drops such a lock when the last descriptor or mapping of its open file description is
//! gone, by any death, in any pid namespace or container. A forked child shares the description and
//! keeps it: see `fcntl(2)`.
//!
//! Seats are held by write locks, which need write permission. A process that may only read the file can
//! take read locks, which prove nothing about a seat. Liveness is queried as if to take a read lock, because
//! only a write lock conflicts with it. But a read lock prevents other processes from taking a seat.

use crate::sys::fork;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The byte that only a process that removes the ring locks, with all others.
pub(crate) const REMOVAL_BYTE: u64 = 0;

/// An open ring file, and the bytes locked through its open file description: the kernel does not report
/// them to the description itself.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    /// As [`mark`] says; 0: free. A description holds its seat, and for a moment the byte of a
    /// recovery or of the type table.
    held: [AtomicU64; 4],
}

/// A word that stands for a held range in this process, and in no child of it.
fn mark((start, len): ByteRange) -> u64 {
    let of_all = u64::from(len == 0);
    // Byte offsets of a ring are below 2^48.
    (start + 1) << 16 | of_all << 15 | u64::from(fork::generation()) & 0x7fff
}

impl LockFile {
    pub(crate) fn new(file: File) -> Self {
        LockFile { file, held: [const { AtomicU64::new(0) }; 4] }
    }

    /// Notes a range before it is locked. Returns false if this description has the range, or another thread is locking it:
    /// the kernel would grant it twice. Each of two threads notes the range and then looks for the other, in one order for
    /// all threads, so at most one of them gets true.
    fn note(&self, range: ByteRange) -> bool {
        let mark = mark(range);
        let found = || self.held.iter().filter(|word| word.load(Ordering::SeqCst) == mark).count();
        if found() > 0 {
            return false;
        }
        let free = |word: &&AtomicU64| {
            word.compare_exchange(0, mark, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        if self.held.iter().find(free).is_some() && found() > 1 {
            self.forget(range);
            return false;
        }
        true
    }

    fn forget(&self, range: ByteRange) {
        for word in &self.held {
            if word.compare_exchange(mark(range), 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Returns whether this description holds the byte, for this process and not for its parent.
    fn holds(&self, byte: u64) -> bool {
        let marks = [mark((byte, 1)), mark(ALL)];
        self.held.iter().any(|word| marks.contains(&word.load(Ordering::Relaxed)))
    }

    /// Returns whether a process holds the byte, this one included. Needs no more than read
    /// permission.
    pub(crate) fn is_held(&self, byte: u64) -> io::Result<bool> {
        Ok(self.holds(byte) || self.conflicts(libc::F_RDLCK, (byte, 1))?)
    }

    /// Returns whether no other process holds any of the bytes, and a read lock keeps this process from
    /// taking them.
    pub(crate) fn is_read_locked(&self, range: ByteRange) -> io::Result<bool> {
        Ok(!self.conflicts(libc::F_RDLCK, range)? && self.conflicts(libc::F_WRLCK, range)?)
    }

    /// Returns whether another open file description has a lock with which this one would conflict.
    fn conflicts(&self, kind: libc::c_int, range: ByteRange) -> io::Result<bool> {
        let mut probe = request(kind, range);
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut probe))?;
        Ok(libc::c_int::from(probe.l_type) != libc::F_UNLCK)
    }
}

impl AsRawFd for LockFile {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Deref for LockFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// A held byte, or all of them. Unlocked when dropped, also if a forked child still has the
/// description; but not by such a child.
#[derive(Debug)]
pub(crate) struct ByteLock {
    file: Arc<LockFile>,
    range: ByteRange,
    generation: u32,
}

/// Bytes of the file: the first, and their number; 0 means all to the end.
pub(crate) type ByteRange = (u64, u64);

/// All bytes of the file.
pub(crate) const ALL: ByteRange = (0, 0);

fn request(kind: libc::c_int, (start, len): ByteRange) -> libc::flock {
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
    pub(crate) fn take(file: &Arc<LockFile>, byte: u64) -> io::Result<Option<Self>> {
        Self::take_range(file, (byte, 1))
    }

    /// Takes all bytes in one step; `None` if one of them is locked.
    pub(crate) fn take_all(file: &Arc<LockFile>) -> io::Result<Option<Self>> {
        Self::take_range(file, ALL)
    }

    fn take_range(file: &Arc<LockFile>, range: ByteRange) -> io::Result<Option<Self>> {
        let generation = fork::generation();
        if !file.note(range) {
            return Ok(None);
        }
        match fcntl(&file.file, FcntlArg::F_OFD_SETLK(&request(libc::F_WRLCK, range))) {
            Ok(_) => Ok(Some(ByteLock { file: Arc::clone(file), range, generation })),
            Err(errno) => {
                file.forget(range);
                match errno {
                    Errno::EAGAIN | Errno::EACCES => Ok(None),
                    errno => Err(errno.into()),
                }
            }
        }
    }
}

impl Drop for ByteLock {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            return; // its parent's
        }
        self.file.forget(self.range);
        // Cannot fail on a lock that is held; closing the file would free it as well.
        let unlock = request(libc::F_UNLCK, self.range);
        let _ = fcntl(&self.file.file, FcntlArg::F_OFD_SETLK(&unlock));
    }
}
