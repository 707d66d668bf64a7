//! Waiting by descriptor, for event loops: [`Consumer::pollable`] makes it.

use crate::consumer::Consumer;
pub use perfring_shm::{PollBy, PollError, Pollable};
use std::time::Duration;

impl Consumer {
    /// Returns a descriptor for `epoll`, `poll` and libraries on top of them (mio, tokio's `AsyncFd`).
    /// It becomes readable when there is a record or a loss to read. Producers do not know of it:
    /// neither a publish nor a wake costs more.
    ///
    /// An event loop reads until nothing is left, arms the descriptor, and only if this succeeds
    /// waits for it. An armed descriptor becomes readable at the next publish that reaches
    /// [`ConsumerOptions::wake_at`](crate::ConsumerOptions::wake_at), even if the publish came before the descriptor was
    /// registered. It stays readable until [`Consumer::disarm`] or the next [`Consumer::arm`]. It therefore works with
    /// level-triggered and edge-triggered loops. A descriptor that is not armed reports nothing.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, poll::PollBy};
    /// # use perfring_producer::{Options, Producer};
    /// # use rustix::event::{PollFd, PollFlags, poll};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// let mut consumer = Consumer::attach(&path)?;
    /// let mut pollable = consumer.pollable(PollBy::Any)?;
    /// # let mut bytes = 0;
    /// # for round in 0..3 {
    /// // One turn of the loop.
    /// while let Some(item) = consumer.read()? {
    ///     // ...
    /// #   let _ = item; bytes += 1;
    /// }
    /// if consumer.arm(&mut pollable, Duration::from_secs(10))? {
    /// #   producer.publish(b"x")?;
    ///     poll(&mut [PollFd::new(&pollable, PollFlags::IN)], None)?; // and whatever else it waits for
    ///     consumer.disarm(&mut pollable)?;
    /// }
    /// # }
    /// # assert_eq!(bytes, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// With an io_uring, a wake may interrupt a system call of the thread that armed (`EINTR`),
    /// like a signal. Only `epoll_wait` and `poll` report it.
    ///
    /// # Errors
    /// [`PollError::Io`].
    pub fn pollable(&self, by: PollBy) -> Result<Pollable, PollError> {
        self.cursor.mapping().pollable(by)
    }

    /// Asks for the next wake, and releases first. Returns `false`, and does not arm the
    /// descriptor, if there is something to read, or if the ring's file was removed, which
    /// [`Consumer::read`] returns once all is read. The descriptor becomes readable after `limit`,
    /// too, or earlier: after at most a second, to check whether the file is present, and after 20
    /// ms where a producer's wake may not come (it is stopped with a reservation open in a shared
    /// ring, or `membarrier(2)` is forbidden).
    ///
    /// # Errors
    /// See [`PollError`]; nothing is armed then.
    pub fn arm(&mut self, pollable: &mut Pollable, limit: Duration) -> Result<bool, PollError> {
        self.cursor.mapping().check(pollable)?;
        let ticket = if self.check_removed() { None } else { self.prepare_sleep() };
        let limit = limit.min(self.removal.left());
        self.cursor.mapping().arm(pollable, ticket, limit)?;
        Ok(ticket.is_some())
    }

    /// Makes the descriptor not readable, and withdraws the request for a wake, until it is armed
    /// again. Call it once the descriptor was readable, or before leaving it alone for a while. A
    /// limit that was set when it was armed may still make it readable.
    ///
    /// # Errors
    /// See [`PollError`].
    pub fn disarm(&mut self, pollable: &mut Pollable) -> Result<(), PollError> {
        let mapping = self.cursor.mapping();
        mapping.check(pollable)?;
        mapping.end_sleep();
        mapping.arm(pollable, None, Duration::ZERO)
    }
}
