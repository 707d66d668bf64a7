//! A descriptor that becomes readable when a consumer is woken, for event loops.
//!
//! A wake is a futex in the ring's page, which no event loop can wait for. Producers are not to know
//! of it: what would have them write to a descriptor costs every ring a file more, and a system call
//! more for each wake. So the consumer's own process turns the one into the other:
//!
//! * by an io_uring of each descriptor, whose one request waits on the futex: the io_uring itself is
//!   the descriptor, and there is no thread (Linux 6.7);
//! * where that is not to be had, as in most containers, by one thread for each 127 rings, that waits
//!   for all of theirs in one call and writes to eventfds (Linux 5.16; before, it looks every
//!   5 ms).

mod thread;
mod uring;

use crate::file::RingFile;
use crate::fork::{self, NotForChildren};
use crate::{Home, MappedReader};
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::Header;
use perfring_abi::atomic::AtomicU32;
use perfring_ring::WakeAt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// What tells a [`Pollable`] of a wake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PollBy {
    /// An io_uring if this process may have one that can wait for futexes, else the thread.
    #[default]
    Any,
    /// An io_uring for each descriptor: no thread, and no more latency than a blocking sleep has.
    IoUring,
    /// A thread of this process for each 127 descriptors. A wake goes through it: twice the latency.
    Thread,
}

/// Why a descriptor could not be made, or not be armed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PollError {
    /// The system refused.
    #[error("cannot wait for {home} by descriptor: {step}: {source}")]
    Io {
        /// The ring.
        home: Home,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The descriptor is another ring's.
    #[error("this descriptor is not of {home}: make one for each consumer")]
    OtherRing {
        /// The ring.
        home: Home,
    },
    /// This process is a fork of the one that attached.
    #[error("{home} was attached to by the parent of this process: attach anew after a fork")]
    Forked {
        /// The ring.
        home: Home,
    },
}

/// The header page once more, read-only, of which a waiter knows the futex: nobody has to ask
/// whether the consumer still lives.
#[derive(Debug)]
pub(crate) struct FrontPage {
    // First, so that it is dropped first.
    _children: NotForChildren,
    map: MmapRaw,
}

impl FrontPage {
    fn map(ring: &RingFile) -> io::Result<Self> {
        let len = ring.layout.page_size as usize;
        let map = MmapOptions::new().len(len).map_raw_read_only(&ring.file)?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Ok(FrontPage { _children: NotForChildren::mapping(base, len), map })
    }

    /// What a consumer sleeps on. It is waited for, and never loaded: a file that somebody has cut
    /// short would end the waiter.
    fn word(&self) -> &AtomicU32 {
        // SAFETY: a whole page is mapped for as long as `self`, aligned, and a `Header` is all
        // atomics, no larger than the smallest page: any content is valid. The reference is made
        // into an address, and nothing is loaded through it.
        &unsafe { &*self.map.as_ptr().cast::<Header>() }.wait.seq
    }
}

#[derive(Debug)]
enum By {
    Ring(Box<uring::Waiter>),
    Thread(thread::Waiter),
}

/// A descriptor for `epoll`, `poll`, `select` and all that is made of them. It is *armed* by
/// [`MappedReader::arm`], and then becomes readable once, and stays readable until it is armed again
/// or [`MappedReader::disarm`] is called.
///
/// It may also be readable for no reason: whoever is told so looks, and arms again.
#[derive(Debug)]
pub struct Pollable {
    by: By,
    uuid: [u8; 16],
    generation: u32,
}

impl Pollable {
    /// What it is told by: never [`PollBy::Any`].
    #[must_use]
    pub fn by(&self) -> PollBy {
        match self.by {
            By::Ring(_) => PollBy::IoUring,
            By::Thread(_) => PollBy::Thread,
        }
    }
}

impl AsFd for Pollable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.by {
            By::Ring(waiter) => waiter.fd(),
            By::Thread(waiter) => waiter.fd(),
        }
    }
}

impl AsRawFd for Pollable {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl MappedReader {
    /// A descriptor for this consumer, not armed yet.
    ///
    /// # Errors
    /// [`PollError::Io`].
    pub fn pollable(&self, by: PollBy) -> Result<Pollable, PollError> {
        let page = Arc::new(FrontPage::map(&self.ring).map_err(self.failed("mapping its page"))?);
        let generation = fork::generation();
        let ring = || uring::Waiter::new(Arc::clone(&page)).map(|new| By::Ring(Box::new(new)));
        let thread = || thread::Waiter::new(Arc::clone(&page)).map(By::Thread);
        let by = match by {
            PollBy::IoUring => ring().map_err(self.failed("making an io_uring"))?,
            PollBy::Thread => thread().map_err(self.failed("making an eventfd and its thread"))?,
            PollBy::Any if uring::available() => match ring() {
                Ok(by) => by,
                Err(_) => thread().map_err(self.failed("making an eventfd and its thread"))?,
            },
            PollBy::Any => thread().map_err(self.failed("making an eventfd and its thread"))?,
        };
        Ok(Pollable { by, uuid: self.ring.layout.uuid, generation })
    }

    /// Asks that the descriptor become readable when a producer publishes what `at` asks for, or
    /// after `limit`; releases first. Returns whether it did: if not, there is something to read, and
    /// the descriptor is not readable.
    ///
    /// # Errors
    /// See [`PollError`]. Nothing is armed then.
    pub fn arm(
        &mut self,
        pollable: &mut Pollable,
        at: WakeAt,
        limit: Duration,
    ) -> Result<bool, PollError> {
        self.check(pollable)?;
        let Some(ticket) = self.prepare_sleep(at) else {
            pollable.clear();
            return Ok(false);
        };
        let limit = limit.min(ticket.most);
        let listening = match &mut pollable.by {
            By::Ring(waiter) => waiter.listen(ticket.value, limit),
            By::Thread(waiter) => waiter.listen(ticket.value, limit),
        };
        match listening {
            Ok(()) => Ok(true),
            Err(source) => {
                self.end_sleep();
                Err(self.failed("arming its descriptor")(source))
            }
        }
    }

    /// Takes it back, or ends a wake that has come: the descriptor is not readable any more, and
    /// producers make no wakes for it.
    ///
    /// # Errors
    /// See [`PollError`].
    pub fn disarm(&mut self, pollable: &mut Pollable) -> Result<(), PollError> {
        self.check(pollable)?;
        self.end_sleep();
        pollable.clear();
        Ok(())
    }

    fn check(&self, pollable: &Pollable) -> Result<(), PollError> {
        let home = || self.ring.home.clone();
        if pollable.generation != fork::generation() {
            // The parent has the same descriptor: what it waits for is not to be taken from it.
            return Err(PollError::Forked { home: home() });
        }
        if pollable.uuid != self.ring.layout.uuid {
            return Err(PollError::OtherRing { home: home() });
        }
        Ok(())
    }

    fn failed(&self, step: &'static str) -> impl Fn(io::Error) -> PollError {
        let home = self.ring.home.clone();
        move |source| PollError::Io { home: home.clone(), step, source }
    }
}

impl Pollable {
    fn clear(&mut self) {
        match &mut self.by {
            By::Ring(waiter) => waiter.clear(),
            By::Thread(waiter) => waiter.clear(),
        }
    }
}
