//! A descriptor without a thread: an io_uring with one request, which waits on the futex.

use crate::poll::front_page::FrontPage;
use io_uring::types::{CancelBuilder, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// `FUTEX2_SIZE_U32`, and not private: other processes wake it.
pub(crate) const FUTEX_FLAGS: u32 = 2;
/// `FUTEX_BITSET_MATCH_ANY`.
pub(crate) const ANY_WAKE: u64 = u32::MAX as u64;
/// A wait, and the limit that is linked to it.
const ENTRIES: u32 = 2;

type Uring = IoUring<squeue::Entry, cqueue::Entry>;

fn build() -> io::Result<Uring> {
    Uring::builder().build(ENTRIES)
}

/// Returns whether this process may make io_urings, and the kernel's can wait for futexes. (A
/// sysctl, a seccomp filter, or a kernel before 6.7 may prevent it.)
pub(crate) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let mut probe = Probe::new();
        build().is_ok_and(|ring| {
            ring.submitter().register_probe(&mut probe).is_ok()
                && probe.is_supported(opcode::FutexWait::CODE)
        })
    })
}

/// A wait that the kernel has not ended yet.
#[derive(Clone, Copy)]
struct Listening {
    id: u64,
    until: Option<Instant>,
}

pub(crate) struct UringWaiter {
    ring: Uring,
    page: Arc<FrontPage>,
    /// The kernel gets its address, so it is boxed.
    limit: Box<Timespec>,
    listening: Option<Listening>,
    /// A submit failed: a wait that is no longer wanted may be in the queue or in the kernel.
    stale: bool,
    /// Even: waits. Odd: their limits, and requests whose result does not matter.
    next_id: u64,
}

impl std::fmt::Debug for UringWaiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringWaiter").field("fd", &self.ring.as_raw_fd()).finish_non_exhaustive()
    }
}

impl UringWaiter {
    pub(crate) fn new(page: Arc<FrontPage>) -> io::Result<Self> {
        if !available() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it is forbidden here (kernel.io_uring_disabled, seccomp), or older than Linux 6.7",
            ));
        }
        let (limit, listening) = (Box::new(Timespec::new()), None);
        Ok(UringWaiter { ring: build()?, page, limit, listening, stale: false, next_id: 0 })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the io_uring owns the descriptor, and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Makes the descriptor not readable until the futex is woken, no longer has `value`, or the
    /// limit is over.
    pub(crate) fn listen(&mut self, value: u32, limit: Duration) -> io::Result<()> {
        self.clear();
        let until = Instant::now().checked_add(limit);
        // The wait of an earlier arming that was not woken is kept if it does not last longer, so that a
        // wait that is shortened again and again costs no system call. A wake reaches it, regardless of the
        // word's value at its beginning.
        let old = self.listening.and_then(|old| old.until);
        if old.is_some_and(|old| until.is_none_or(|new| old <= new)) {
            return Ok(());
        }
        if self.listening.is_some() || self.stale {
            // The queue has space for one wait: an entry that an earlier failure left is submitted first.
            self.submit()?;
            // If the wait has ended, there is nothing to cancel; if not, it ends like a wake.
            let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
            self.listening = None;
            self.stale = false;
            self.clear();
        }
        let id = self.next_id;
        self.next_id += 2;
        *self.limit = Timespec::from(limit);
        let wait =
            opcode::FutexWait::new(self.page.word().as_ptr(), value.into(), ANY_WAKE, FUTEX_FLAGS)
                .build()
                .user_data(id)
                .flags(squeue::Flags::IO_LINK);
        let limit = opcode::LinkTimeout::new(&raw const *self.limit).build().user_data(id + 1);
        let mut queue = self.ring.submission();
        // SAFETY: the futex word is mapped as long as `page`, and the kernel looks up its file and
        // offset when the request is submitted, which is below, or in a later call if that fails.
        // If it is unmapped, truncated or written meanwhile, the result is an error or a wake. The
        // time is copied then, too, and stays in place for as long as `self`.
        unsafe { queue.push_multiple(&[wait, limit]) }.map_err(io::Error::other)?;
        drop(queue);
        self.stale = true;
        self.submit()?;
        self.stale = false;
        self.listening = Some(Listening { id, until });
        Ok(())
    }

    /// Submits all that is in the queue.
    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            if let Err(error) = self.ring.submit()
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes all completions, so that the descriptor is not readable.
    pub(crate) fn clear(&mut self) {
        for done in self.ring.completion() {
            if self.listening.is_some_and(|listening| listening.id == done.user_data()) {
                self.listening = None;
            }
        }
    }
}
