//! Waiting by descriptor: for event loops.

use crate::consumer::Consumer;
use perfring_shm::{PollBy, PollError, Pollable};
use std::time::Duration;

impl Consumer {
    /// A descriptor for `epoll`, `poll` and what is made of them (mio, tokio's `AsyncFd`), which tells
    /// when there is something to read or lost. Producers do not know of it: a publish costs what it
    /// costs, and a wake too.
    ///
    /// An event loop reads until there is nothing, arms, and only if that succeeds goes back to wait
    /// for the descriptor. Once armed it becomes readable at the next publish that
    /// [`Consumer::set_wake_at`] asks for, one that came before the descriptor was registered
    /// included, and stays so until [`Consumer::disarm`] or the next [`Consumer::arm`]. So it works
    /// with loops that look at levels and with those that look at edges. Not armed, it tells nothing.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, PollBy};
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
    /// With an io_uring the thread that armed may find a system call interrupted (`EINTR`) by a wake,
    /// as by a signal: `epoll_wait` and `poll` are those that tell.
    ///
    /// # Errors
    /// [`PollError::Io`].
    pub fn pollable(&self, by: PollBy) -> Result<Pollable, PollError> {
        self.cursor.mapping().pollable(by)
    }

    /// Asks for the next wake, and releases first. Returns `false` if there is something to read, or
    /// the ring's file was removed, which [`Consumer::read`] says once all is read: then the descriptor
    /// is not armed. It becomes readable after `limit`, too, or earlier: after a second at most, to see
    /// whether the file is still there, and where a producer's wake may not come (it is stopped with a
    /// reservation open in a shared ring, or `membarrier(2)` is forbidden) after 20 ms.
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

    /// Afterwards the descriptor is not readable, and producers make no wake for this consumer, until
    /// it is armed again. To be called once it was readable, or to be left alone for a while; a limit
    /// that was set when it was armed may still make it readable.
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
