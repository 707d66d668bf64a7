//! Forks. A child of `fork(2)` has its parent's mappings. Worse, it has its parent's open file
//! descriptions, and with them the locks that mark the parent as alive.
//!
//! Therefore a handler in the child (`pthread_atfork(3)`, which every `fork` of libc runs) detaches the child. It
//! increments the generation by which handles detect a fork, puts private memory in the place of
//! each mapping that the process could write through, and `/dev/null` in the place of each
//! descriptor that holds a lock. The parent's ring, and its death, are then out of reach of the
//! child. (A raw `clone(2)` runs no handler. Neither does `posix_spawn`, with which the standard library
//! starts commands: its child runs nothing of this program and closes all descriptors when it
//! executes another program, some microseconds later. `proto/VERIFICATION.md`, "The dead that look alive",
//! lists this with all other exceptions.)
//!
//! A handler can detach a child only from registered mappings and descriptors. Therefore no fork happens while another
//! thread has opened a ring and not registered it yet: see [`hold_off`].

use crate::sys::blocks::{self, Block};
use crate::sys::pin::pin;
use crate::sys::thread_id;
use nix::libc;
use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Incremented in every forked child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// `/dev/null`, opened before there is any child: a child may have no descriptor left, or no
/// `/dev`. As [`stand_in`] says, it may be something else.
static NULL: AtomicI32 = AtomicI32::new(-1);

#[derive(Debug)]
struct ForkEntry {
    /// 0 free, 1 being filled, else in use.
    state: AtomicU32,
    base: AtomicPtr<u8>,
    len: AtomicUsize,
    /// -1: none.
    fd: AtomicI32,
}

impl blocks::TableEntry for ForkEntry {
    const FREE: Self = ForkEntry {
        state: AtomicU32::new(0),
        base: AtomicPtr::new(null_mut()),
        len: AtomicUsize::new(0),
        fd: AtomicI32::new(-1),
    };

    fn claim(&self) -> bool {
        self.state.load(Ordering::Relaxed) == 0
            && self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

static TABLE: Block<ForkEntry> = Block::new();

/// Threads that have opened a ring, or are about to, and have not registered it.
static OPENING: AtomicU32 = AtomicU32::new(0);
/// Threads that are about to fork, or do.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// For how long a fork waits: much longer than an attach takes. A signal handler that forks in the
/// middle of one would wait for itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// No other thread forks while this lives.
#[derive(Debug)]
pub(crate) struct NoFork(());

/// Holds off the forks of other threads from before a ring is opened until it is registered. To be
/// held for a short time, and by a thread that does not hold it already.
pub(crate) fn hold_off() -> NoFork {
    generation(); // has the handlers installed
    loop {
        // Each side announces itself and then looks for the other, in one order for all: at least
        // one of them sees the other.
        OPENING.fetch_add(1, Ordering::SeqCst);
        let held = NoFork(());
        if FORKING.load(Ordering::SeqCst) == 0 {
            return held;
        }
        drop(held);
        std::thread::yield_now();
    }
}

impl Drop for NoFork {
    fn drop(&mut self) {
        OPENING.fetch_sub(1, Ordering::SeqCst);
    }
}

extern "C" fn before_fork() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let began = Instant::now();
    while OPENING.load(Ordering::SeqCst) != 0 && began.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
}

extern "C" fn in_parent() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    // This is the child's only thread.
    FORKING.store(0, Ordering::SeqCst);
    OPENING.store(0, Ordering::SeqCst);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    thread_id::forget();
    // Everything here is async-signal-safe: system calls and loads.
    let mut null = NULL.load(Ordering::Relaxed);
    if null < 0 {
        null = stand_in(DEV_NULL);
        NULL.store(null, Ordering::Relaxed);
    }
    for entry in TABLE.entries() {
        if entry.state.load(Ordering::Acquire) != 2 {
            continue;
        }
        let (base, len) = (entry.base.load(Ordering::Relaxed), entry.len.load(Ordering::Relaxed));
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            // No reserve: a child need not have memory for as much as it is detached from.
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
        );
        if len > 0 {
            // SAFETY: the range is a mapping that this process registered and has not removed (it
            // would have freed the entry first); in the child, whose only thread is here, nothing
            // uses it at this moment. Later reads see zeros, which any ring code
            // survives.
            unsafe { libc::mmap(base.cast(), len, prot, flags, -1, 0) };
        }
        let fd = entry.fd.load(Ordering::Relaxed);
        if null >= 0 && fd >= 0 {
            // SAFETY: the number stays an open descriptor, so its owner can close it. If it were closed here, another file
            // could have the number when the owner closes it.
            unsafe { libc::dup3(null, fd, libc::O_CLOEXEC) };
        }
    }
}

const DEV_NULL: &CStr = c"/dev/null";

/// Returns a new descriptor that locks nothing: this file's, or an eventfd where it cannot be opened,
/// as in a `chroot(2)` without a `/dev`. -1 if the process has no descriptor left.
fn stand_in(path: &CStr) -> libc::c_int {
    // SAFETY: the path ends with a zero byte; no other memory of ours is used.
    let null = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if null >= 0 {
        return null;
    }
    // SAFETY: numbers alone.
    unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }
}

/// Returns the generation of this process among its forks: a forked child has another generation than its
/// parent.
#[inline]
pub fn generation() -> u32 {
    if !HANDLER.is_completed() {
        install();
    }
    GENERATION.load(Ordering::Relaxed)
}

static HANDLER: Once = Once::new();

#[cold]
fn install() {
    HANDLER.call_once(|| {
        NULL.store(stand_in(DEV_NULL), Ordering::Relaxed);
        // Every attachment calls this first.
        pin();
        // SAFETY: the handlers are functions of this program, or of a library that is never unloaded.
        let _ = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    });
}

/// Mappings and a locked descriptor that a forked child must lose.
#[derive(Debug)]
pub(crate) struct NotForChildren {
    generation: u32,
    entries: [Option<&'static ForkEntry>; 3],
}

impl NotForChildren {
    /// Registers ranges of whole pages, and the descriptor. To be dropped before any of them is
    /// closed or unmapped.
    pub(crate) fn new(ranges: [(NonNull<u8>, usize); 3], fd: &impl AsRawFd) -> Self {
        let generation = generation();
        let mut first = true;
        let entries = ranges.map(|(base, len)| {
            // The first also if it is empty: it has the descriptor.
            if !std::mem::take(&mut first) && len == 0 {
                return None;
            }
            let entry = TABLE.claim();
            entry.base.store(base.as_ptr(), Ordering::Relaxed);
            entry.len.store(len, Ordering::Relaxed);
            entry.fd.store(fd.as_raw_fd(), Ordering::Relaxed);
            entry.state.store(2, Ordering::Release);
            Some(entry)
        });
        NotForChildren { generation, entries }
    }

    /// Registers a mapping that may outlive the descriptor it was made with: while a child has it,
    /// the open file description lives, and its locks. To be dropped before the mapping is.
    pub(crate) fn mapping(base: NonNull<u8>, len: usize) -> Self {
        Self::new([(base, len), (base, 0), (base, 0)], &-1)
    }

    /// Registers a descriptor that is locked, with no mapping. To be dropped before it is closed.
    pub(crate) fn descriptor(fd: &impl AsRawFd) -> Self {
        let none = (NonNull::dangling(), 0);
        Self::new([none, none, none], fd)
    }

    /// Returns whether this process is a child of the process that registered.
    #[inline(always)]
    pub(crate) fn forked(&self) -> bool {
        self.generation != GENERATION.load(Ordering::Relaxed)
    }
}

impl Drop for NotForChildren {
    fn drop(&mut self) {
        for entry in self.entries.into_iter().flatten() {
            entry.state.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, fcntl};
    use perfring_abi::WriterId;
    use rustix::thread::gettid;
    use std::os::fd::{FromRawFd, OwnedFd};

    #[test]
    fn a_child_without_dev_null_has_something_else_in_a_locks_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let request = |kind: libc::c_int| libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        for path in [DEV_NULL, c"/there/is/no/such/file"] {
            let (holder, other) = (file.reopen().unwrap(), file.reopen().unwrap());
            let is_locked = || {
                let mut probe = request(libc::F_RDLCK);
                fcntl(&other, FcntlArg::F_OFD_GETLK(&mut probe)).unwrap();
                libc::c_int::from(probe.l_type) != libc::F_UNLCK
            };
            fcntl(&holder, FcntlArg::F_OFD_SETLK(&request(libc::F_WRLCK))).unwrap();
            assert!(is_locked());
            let null = stand_in(path);
            assert!(null >= 0, "{path:?}");
            // SAFETY: the descriptor is open, and no other value owns it.
            let null = unsafe { OwnedFd::from_raw_fd(null) };
            // SAFETY: the number stays an open descriptor, which its owner closes.
            let done = unsafe { libc::dup3(null.as_raw_fd(), holder.as_raw_fd(), libc::O_CLOEXEC) };
            assert_eq!(done, holder.as_raw_fd());
            assert!(!is_locked(), "{path:?}");
        }
    }

    /// Whether records of this thread would name it.
    fn is_own() -> bool {
        let own = WriterId::from_word(thread_id::writer());
        let tid = gettid().as_raw_pid().unsigned_abs();
        own.is_some_and(|own| own.pid.get() == std::process::id() && own.tid == tid)
    }

    #[test]
    fn each_thread_and_a_forked_child_are_other_writers() {
        generation(); // has the handlers installed
        assert!(is_own());
        let other = std::thread::spawn(|| (is_own(), thread_id::writer())).join().unwrap();
        assert!(other.0 && other.1 != thread_id::writer());
        // SAFETY: the child only asks for its numbers, and ends.
        match unsafe { libc::fork() } {
            0 => {
                let code = i32::from(!is_own());
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(code) }
            }
            child => {
                let mut status = -1;
                // SAFETY: stores an int, which is ours.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0, "the child failed");
            }
        }
    }
}
