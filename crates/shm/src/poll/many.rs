//! One sleep on any number of rings: an io_uring with a request for each, which stays in the kernel until that ring's
//! consumer is woken. A thread that sleeps on ten thousand idle rings makes one system call for it.

use crate::map::sleeper::Armed;
use crate::poll::uring::{ANY_WAKE, FUTEX_FLAGS, available};
use crate::sys::fork;
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use nix::libc;
use std::io;
use std::time::Duration;

/// Requests are submitted one by one; more completions than twice this wait in the kernel.
const ENTRIES: u32 = 128;

/// Waits for the wakes of many consumers, each under a number of the caller's.
///
/// A request ends with the next wake of its ring. Before that, however often the caller sleeps, the request needs no
/// further call. A lost wake (its producer died between taking the consumer's flag and waking it) ends no
/// request, so a sleeper polls all its rings at each [`until_tick`](crate::until_tick).
pub struct ManyWaits {
    ring: IoUring<squeue::Entry, cqueue::Entry>,
    generation: u32,
    usable: bool,
}

impl std::fmt::Debug for ManyWaits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManyWaits").finish_non_exhaustive()
    }
}

impl ManyWaits {
    /// Makes one without requests.
    ///
    /// # Errors
    /// Before Linux 6.7, and where io_urings are forbidden: in most containers.
    pub fn new() -> io::Result<Self> {
        if !available() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (ring, generation) = (IoUring::builder().build(ENTRIES)?, fork::generation());
        Ok(ManyWaits { ring, generation, usable: true })
    }

    /// Requests that a wake of this consumer ends a sleep, and is returned as `number` then. There must be no other
    /// request of that number.
    ///
    /// # Errors
    /// The system's. This is of no use any more then, for no request.
    pub fn listen(&mut self, number: u64, armed: &Armed<'_>) -> io::Result<()> {
        self.check()?;
        let Armed { word, ticket } = armed;
        let wait =
            opcode::FutexWait::new(word.as_ptr(), ticket.value.into(), ANY_WAKE, FUTEX_FLAGS)
                .build()
                .user_data(number);
        // SAFETY: the word is mapped during this call, in which the kernel takes the request and looks up its file and
        // offset: the address is not used later. If the file is truncated or written, the result is an error or a wake.
        unsafe { self.ring.submission().push(&wait) }.map_err(io::Error::other)?;
        let submitted = loop {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        // An unsubmitted entry stays in the queue, with an address that may be invalid later.
        self.usable = submitted.is_ok();
        submitted.map(drop)
    }

    /// Withdraws a request: its number is not returned any more, unless it was woken already.
    pub fn forget(&mut self, number: u64) {
        if self.check().is_ok() {
            // It has ended if there is nothing to cancel.
            let _ = self
                .ring
                .submitter()
                .register_sync_cancel(None, CancelBuilder::user_data(number).all());
        }
    }

    /// Sleeps until there is a wake for [`ManyWaits::woken`], for at most `limit`. May return early.
    ///
    /// # Errors
    /// The system's; it has not slept then.
    pub fn sleep(&mut self, limit: Duration) -> io::Result<()> {
        self.check()?;
        let limit = Timespec::from(limit);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit)) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of a request that has ended. No system call.
    pub fn woken(&mut self) -> Option<u64> {
        self.check().ok()?;
        self.ring.completion().next().map(|done| done.user_data())
    }

    /// A forked child shares the io_uring with its parent, and must not take the parent's wakes.
    fn check(&self) -> io::Result<()> {
        match self.usable && self.generation == fork::generation() {
            true => Ok(()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
