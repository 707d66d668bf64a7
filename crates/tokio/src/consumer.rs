//! The consumer of a ring, for tokio.

use crate::error::Error;
use crate::found::found;
use futures_core::Stream;
use perfring_consumer::advanced::Front;
use perfring_consumer::{
    AttachError, ConsumerOptions, Item, Location, OwnedItem, ReadError, RecordRef,
    poll::{PollBy, Pollable},
};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::coop::poll_proceed;

/// Polls that may find only holes before other tasks get their turn.
const POLLS: u32 = 64;

/// A ring's consumer, or one of its named consumers, for a task.
///
/// As a [`Stream`] it yields owned items. After an error it ends.
#[derive(Debug)]
pub struct Consumer {
    inner: perfring_consumer::Consumer,
    pollable: AsyncFd<Pollable>,
    /// Whether a wake was requested and not seen since.
    armed: bool,
    /// How often it checks whether a producer is attached.
    poll_every: Option<Duration>,
    ended: bool,
}

impl Consumer {
    /// Attaches as the consumer, with the default [`ConsumerOptions`].
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Panics
    /// In a runtime that was made without I/O, as all that tokio waits for.
    pub fn attach(location: impl Into<Location>) -> Result<Self, Error> {
        Self::attach_with(location, &ConsumerOptions::default())
    }

    /// Attaches as the consumer, with these options.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Panics
    /// In a runtime that was made without I/O, as all that tokio waits for.
    pub fn attach_with(
        location: impl Into<Location>,
        options: &ConsumerOptions,
    ) -> Result<Self, Error> {
        Self::new(perfring_consumer::Consumer::attach_with(location, options)?, PollBy::Any)
    }

    /// Wraps a consumer that is attached already.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish(b"x")?;
    /// use perfring_tokio::{Consumer, PollBy};
    /// let consumer = perfring_consumer::Consumer::attach(&path)?;
    /// let mut consumer = Consumer::new(consumer, PollBy::Thread)?;
    /// assert!(consumer.ready().await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Poll`]; [`Error::Runtime`] outside a runtime.
    ///
    /// # Panics
    /// In a runtime that was made without I/O, as all that tokio waits for.
    pub fn new(inner: perfring_consumer::Consumer, by: PollBy) -> Result<Self, Error> {
        let pollable = inner.pollable(by)?;
        Handle::try_current().map_err(|error| Error::Runtime(std::io::Error::other(error)))?;
        // tokio's new name is an unsafe function, because of descriptors that change or are closed
        // before they are dropped. This one belongs to its `Pollable` from beginning to end.
        #[allow(deprecated)]
        let pollable =
            AsyncFd::with_interest(pollable, Interest::READABLE).map_err(Error::Runtime)?;
        Ok(Consumer { inner, pollable, armed: false, poll_every: None, ended: false })
    }

    /// Makes it end once all is read and no producer is attached, which it checks each `poll_every`
    /// while there is nothing to read. Without this a consumer waits for the next producer.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish(b"last words")?;
    /// # drop(producer);
    /// use perfring_tokio::Consumer;
    /// let consumer = Consumer::attach(&path)?;
    /// let mut consumer = consumer.end_with_producer(Duration::from_secs(1));
    /// let mut records = 0;
    /// while let Some(_item) = consumer.read().await? {
    ///     records += 1;
    /// }
    /// assert_eq!(records, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn end_with_producer(self, poll_every: Duration) -> Self {
        // It may still be armed with an earlier limit.
        Consumer { poll_every: Some(poll_every), armed: false, ..self }
    }

    /// Returns the next item, in place. It counts as read at the next call, or with
    /// [`Acknowledge::Explicit`](perfring_consumer::Acknowledge::Explicit) once it is
    /// [acknowledged](Consumer::acknowledge). `None` only at the end of a consumer that [ends with
    /// its producer](Consumer::end_with_producer).
    ///
    /// Cancel-safe: a future that is dropped has taken nothing.
    ///
    /// # Errors
    /// See [`Error`]; [`ReadError::Removed`] within a second after the ring's file was removed or
    /// replaced, once everything in it has been read.
    pub async fn read(&mut self) -> Result<Option<Item<'_>>, Error> {
        if !self.ready().await? {
            return Ok(None);
        }
        let pos = self.inner.position();
        found(self.inner.read(), pos).map(Some)
    }

    /// Acknowledges everything that was returned so far, as
    /// [`perfring_consumer::Consumer::acknowledge`] does.
    ///
    /// A forwarder that loses nothing, whether it is cancelled, killed or restarted, acknowledges what
    /// has been delivered (see [Forwarding](crate#forwarding)):
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer};
    /// # use tokio::io::AsyncWriteExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for word in [&b"one"[..], b"two"] { producer.publish(word)?; }
    /// # let (mut socket, far_end) = tokio::io::duplex(3);
    /// use perfring_consumer::{Acknowledge, ConsumerOptions};
    /// use perfring_tokio::{Consumer, Item};
    /// let acknowledge = Acknowledge::Explicit;
    /// let options = ConsumerOptions { acknowledge, ..ConsumerOptions::default() };
    /// let mut consumer = Consumer::attach_with(&path, &options)?;
    /// for _ in 0..2 {
    ///     if let Some(Item::Record(record)) = consumer.read().await? {
    /// #       let stuck = record.bytes == b"two"; // the far end takes no more: three bytes are there
    /// #       if stuck { drop(far_end); break; }
    ///         socket.write_all(record.bytes).await?; // an error leaves the record unacknowledged
    ///     }
    ///     consumer.acknowledge();
    /// }
    /// drop(consumer); // with the second record not delivered
    ///
    /// let mut consumer = Consumer::attach_with(&path, &options)?;
    /// let Some(Item::Record(second)) = consumer.read().await? else { panic!("it comes again") };
    /// assert_eq!(second.bytes, b"two");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Over TCP a record is delivered when the peer says so, and not when the kernel has taken it.
    ///
    /// Items of the [`Stream`] count as returned when the stream yields them: acknowledge them once
    /// they are delivered, and not while a combinator still buffers some.
    pub fn acknowledge(&mut self) {
        self.inner.acknowledge();
    }

    /// Waits until there is something to read, and takes nothing: [`Consumer::get_mut`] can read it
    /// then. `false` only at the end of a consumer that [ends with its
    /// producer](Consumer::end_with_producer). Cancel-safe.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ready(&mut self) -> Result<bool, Error> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// Polls for something to read, as [`Consumer::ready`] does: for hand-written futures.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let budget = ready!(poll_proceed(cx));
        for _ in 0..POLLS {
            match self.inner.advanced().peek()? {
                Front::Empty => {}
                // The producer is faster than this poll.
                Front::More => continue,
                Front::Plain | Front::Timestamped(_) | Front::Lost => {
                    budget.made_progress();
                    return Poll::Ready(Ok(true));
                }
            }
            if !self.armed {
                if self.poll_every.is_some() && !self.inner.has_producer()? {
                    // What it published before it detached is seen by now.
                    if self.inner.advanced().peek()? != Front::Empty {
                        continue;
                    }
                    budget.made_progress();
                    return Poll::Ready(Ok(false));
                }
                if self.inner.advanced().check_removed() {
                    if self.inner.advanced().peek()? != Front::Empty {
                        continue;
                    }
                    budget.made_progress();
                    return Poll::Ready(Err(ReadError::Removed.into()));
                }
                let limit = self.poll_every.unwrap_or(Duration::MAX);
                self.armed = self.inner.arm(self.pollable.get_mut(), limit)?;
                if !self.armed {
                    continue;
                }
            }
            let mut readable = match self.pollable.poll_read_ready_mut(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(readable) => readable.map_err(Error::Runtime)?,
            };
            self.armed = false;
            // Anything after this is an edge that the runtime sees.
            self.inner.disarm(readable.get_inner_mut())?;
            readable.clear_ready();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns the wrapped consumer, for inspection.
    #[must_use]
    pub fn get_ref(&self) -> &perfring_consumer::Consumer {
        &self.inner
    }

    /// Returns the wrapped consumer: to read without waiting, to drain, to take runs of records, to
    /// release.
    pub fn get_mut(&mut self) -> &mut perfring_consumer::Consumer {
        // A sleep by other means withdraws the request for a wake.
        self.armed = false;
        &mut self.inner
    }

    /// Returns the wrapped consumer, which continues where this one was.
    #[must_use]
    pub fn into_inner(self) -> perfring_consumer::Consumer {
        self.inner
    }

    /// Returns whether a producer is attached.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        self.inner.has_producer()
    }
}

impl Stream for Consumer {
    type Item = Result<OwnedItem, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let next = match ready!(this.poll_ready(cx)) {
            Err(error) => Err(error),
            Ok(false) => Ok(None),
            Ok(true) => {
                let pos = this.inner.position();
                found(this.inner.read(), pos).map(|item| Some(item.map(RecordRef::into_owned)))
            }
        };
        this.ended = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.transpose())
    }
}
