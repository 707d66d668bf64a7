//! The descriptor, made by either mechanism.

use crate::file::location::Location;
use crate::map::consumer_mapping::ConsumerMapping;
use crate::map::sleeper::Ticket;
use crate::poll::front_page::FrontPage;
use crate::poll::thread::ThreadWaiter;
use crate::poll::uring::{UringWaiter, available};
use crate::sys::fork;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The mechanism that makes a [`Pollable`] readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PollBy {
    /// An io_uring if this process may make it and it can wait for futexes, otherwise the thread.
    #[default]
    Any,
    /// An io_uring for each descriptor: no thread, and the latency of a blocking sleep.
    IoUring,
    /// A thread of this process for each 127 descriptors. A wake goes through it: twice the
    /// latency.
    Thread,
}

/// The reason why a descriptor could not be made or armed.
#[derive(Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "a field is what its error's text says with it")]
pub enum PollError {
    /// The system refused.
    #[error("cannot wait for {location} by descriptor: {step}: {source}")]
    Io { location: Location, step: &'static str, source: io::Error },
    /// The descriptor belongs to another ring.
    #[error("this descriptor is not of {location}: make one for each consumer")]
    OtherRing { location: Location },
    /// This process is a fork of the process that attached.
    #[error("{location} was attached to by the parent of this process: attach again after a fork")]
    Forked { location: Location },
}

perfring_abi::debug_by_display!(PollError);

#[derive(Debug)]
enum By {
    Ring(Box<UringWaiter>),
    Thread(ThreadWaiter),
}

/// A descriptor for `epoll`, `poll`, `select` and event loops built on them. The consumer *arms*
/// it; it then becomes readable once, and stays readable until it is armed again or disarmed.
///
/// Spurious readiness is possible: the reader then polls the ring and arms the descriptor again.
#[derive(Debug)]
pub struct Pollable {
    by: By,
    uuid: [u8; 16],
    generation: u32,
}

impl Pollable {
    /// Returns the mechanism in use: never [`PollBy::Any`].
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

impl ConsumerMapping {
    /// Makes a descriptor for this consumer, not armed yet.
    pub fn pollable(&self, by: PollBy) -> Result<Pollable, PollError> {
        let page = Arc::new(FrontPage::map(&self.ring).map_err(self.failed("mapping its page"))?);
        let generation = fork::generation();
        let ring = || UringWaiter::new(Arc::clone(&page)).map(|new| By::Ring(Box::new(new)));
        let thread = || {
            let waiter = ThreadWaiter::new(Arc::clone(&page)).map(By::Thread);
            waiter.map_err(self.failed("making an eventfd and its thread"))
        };
        let by = match by {
            PollBy::IoUring => ring().map_err(self.failed("making an io_uring"))?,
            PollBy::Any if available() => ring().or_else(|_| thread())?,
            PollBy::Thread | PollBy::Any => thread()?,
        };
        Ok(Pollable { by, uuid: self.ring.layout.uuid, generation })
    }

    /// Checks that the descriptor belongs to this consumer and this process.
    pub fn check(&self, pollable: &Pollable) -> Result<(), PollError> {
        let location = || self.ring.location.clone();
        if pollable.generation != fork::generation() {
            // The parent has the same descriptor: this process must not consume its wakes.
            return Err(PollError::Forked { location: location() });
        }
        if pollable.uuid != self.ring.layout.uuid {
            return Err(PollError::OtherRing { location: location() });
        }
        Ok(())
    }

    /// Arms the descriptor to become readable at the wake that a ticket is for, or after `limit`;
    /// without a ticket, disarms it. On an error nothing is armed and no wake is requested.
    pub fn arm(
        &self,
        pollable: &mut Pollable,
        ticket: Option<Ticket>,
        limit: Duration,
    ) -> Result<(), PollError> {
        let Some(ticket) = ticket else {
            match &mut pollable.by {
                By::Ring(waiter) => waiter.clear(),
                By::Thread(waiter) => waiter.clear(),
            }
            return Ok(());
        };
        let limit = limit.min(ticket.most);
        let listening = match &mut pollable.by {
            By::Ring(waiter) => waiter.listen(ticket.value, limit),
            By::Thread(waiter) => waiter.listen(ticket.value, limit),
        };
        listening.map_err(|source| {
            self.end_sleep();
            self.failed("arming its descriptor")(source)
        })
    }

    fn failed(&self, step: &'static str) -> impl Fn(io::Error) -> PollError {
        let location = self.ring.location.clone();
        move |source| PollError::Io { location: location.clone(), step, source }
    }
}
