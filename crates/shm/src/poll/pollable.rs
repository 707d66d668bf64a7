//! The descriptor, by whichever of the two.

use crate::file::home::Home;
use crate::poll::front_page::FrontPage;
use crate::poll::thread::Waiter as ThreadWaiter;
use crate::poll::uring::{Waiter as RingWaiter, available};
use crate::reader::MappedReader;
use crate::sys::fork;
use perfring_ring::WakeAt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
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

#[derive(Debug)]
enum By {
    Ring(Box<RingWaiter>),
    Thread(ThreadWaiter),
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
        let ring = || RingWaiter::new(Arc::clone(&page)).map(|new| By::Ring(Box::new(new)));
        let thread = || ThreadWaiter::new(Arc::clone(&page)).map(By::Thread);
        let by = match by {
            PollBy::IoUring => ring().map_err(self.failed("making an io_uring"))?,
            PollBy::Thread => thread().map_err(self.failed("making an eventfd and its thread"))?,
            PollBy::Any if available() => match ring() {
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
