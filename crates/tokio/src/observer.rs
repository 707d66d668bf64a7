//! The observer.

use crate::error::Error;
use crate::owned::{OwnedItem, found};
use futures_core::Stream;
use perfring_consumer::advanced::Front;
use perfring_consumer::{AttachError, Item, Location, ObserverOptions, ReadError, Start};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::coop::poll_proceed;
use tokio::time::{Instant, Sleep, sleep};

/// The shortest pause: tokio's clock has no shorter.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest, unless told otherwise.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Watches a ring through a read-only mapping, for a task. Any number at a time.
///
/// It writes nothing, so nobody can wake it: it looks, after 1 ms, then ever less often.
///
/// ```
/// # use perfring_producer::{Options, Producer};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// use perfring_consumer::Start;
/// use perfring_tokio::{Item, Observer};
/// let mut observer = Observer::open(&path, Start::Latest)?;
/// # producer.publish(b"news")?;
/// if let Some(Item::Record(record)) = observer.read().await? {
///     assert_eq!(record.bytes, b"news");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Observer {
    inner: perfring_consumer::Observer,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Of the sleep it is in; none of one that found something.
    pause: Option<Duration>,
    longest: Duration,
    ends: bool,
    ended: bool,
}

impl Observer {
    /// Opens a ring, as [`perfring_consumer::Observer::open`].
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn open(location: impl Into<Location>, start: Start) -> Result<Self, AttachError> {
        perfring_consumer::Observer::open(location, start).map(Observer::new)
    }

    /// Opens a ring, as [`perfring_consumer::Observer::open_with`].
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn open_with(
        location: impl Into<Location>,
        options: &ObserverOptions,
    ) -> Result<Self, AttachError> {
        perfring_consumer::Observer::open_with(location, options).map(Observer::new)
    }

    /// Of an observer that is open already.
    #[must_use]
    pub fn new(inner: perfring_consumer::Observer) -> Self {
        let (pause, longest) = (None, PAUSE_MAX);
        Observer { inner, sleep: None, pause, longest, ends: false, ended: false }
    }

    /// The longest pause between two looks of one that waits: 10 ms if nothing is said. A thousand
    /// idle observers look a hundred thousand times a second then; with a second, a thousand times.
    #[must_use]
    pub fn longest_pause(self, longest: Duration) -> Self {
        Observer { longest: longest.max(PAUSE_MIN), ..self }
    }

    /// Ends once all is read and no producer is attached.
    #[must_use]
    pub fn end_with_producer(self) -> Self {
        Observer { ends: true, ..self }
    }

    /// The next item. `None` only at the end of an observer that [ends with its
    /// producer](Observer::end_with_producer). Cancel-safe.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn read(&mut self) -> Result<Option<Item<'_>>, Error> {
        if !poll_fn(|cx| self.poll_ready(cx)).await? {
            return Ok(None);
        }
        let pos = self.inner.saved().pos;
        found(self.inner.read(), pos).map(Some)
    }

    /// As [`Consumer::ready`](crate::Consumer::ready). Cancel-safe.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ready(&mut self) -> Result<bool, Error> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// As [`Observer::ready`], for futures made by hand.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let budget = ready!(poll_proceed(cx));
        loop {
            // Before the look: what a producer published before it went is seen.
            let alone = self.ends && !self.inner.has_producer()?;
            let removed = self.inner.advanced().check_removed();
            match self.inner.advanced().peek()? {
                Front::Plain | Front::Timestamped(_) | Front::Lost => {
                    budget.made_progress();
                    self.pause = None;
                    return Poll::Ready(Ok(true));
                }
                Front::Empty if alone => {
                    budget.made_progress();
                    return Poll::Ready(Ok(false));
                }
                Front::Empty if removed => {
                    budget.made_progress();
                    return Poll::Ready(Err(ReadError::Removed.into()));
                }
                Front::Empty | Front::More => {}
            }
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(PAUSE_MIN)));
            if self.pause.is_none() {
                self.pause = Some(PAUSE_MIN);
                sleep.as_mut().reset(Instant::now() + PAUSE_MIN);
            }
            ready!(sleep.as_mut().poll(cx));
            let pause = self.pause.map_or(PAUSE_MIN, |pause| (pause * 2).min(self.longest));
            self.pause = Some(pause);
            sleep.as_mut().reset(Instant::now() + pause);
        }
    }

    /// The observer itself, to look at.
    #[must_use]
    pub fn get_ref(&self) -> &perfring_consumer::Observer {
        &self.inner
    }

    /// The observer itself: to read without waiting.
    pub fn get_mut(&mut self) -> &mut perfring_consumer::Observer {
        &mut self.inner
    }

    /// The observer itself, which goes on where this one was.
    #[must_use]
    pub fn into_inner(self) -> perfring_consumer::Observer {
        self.inner
    }
}

impl Stream for Observer {
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
                let pos = this.inner.saved().pos;
                found(this.inner.read(), pos).map(|item| Some(OwnedItem::from(item)))
            }
        };
        this.ended = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.transpose())
    }
}
