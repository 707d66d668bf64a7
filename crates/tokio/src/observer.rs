//! The observer of a ring, for tokio.

use crate::error::Error;
use crate::found::found;
use futures_core::Stream;
use perfring_consumer::advanced::Front;
use perfring_consumer::{
    AttachError, Item, Location, ObserverOptions, OwnedItem, ReadError, RecordRef, Start,
};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::coop::poll_proceed;
use tokio::time::{Instant, Sleep, sleep};

/// The shortest pause, which is the resolution of tokio's clock.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause by default.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Watches a ring through a read-only mapping, for a task. Any number can watch a ring.
///
/// It writes nothing, so it cannot be woken: it polls after 1 ms, then less and less often.
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
/// let mut observer = Observer::attach(&path, Start::Latest)?;
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
    /// The pause of the current sleep; `None` once something was found.
    pause: Option<Duration>,
    longest: Duration,
    ends: bool,
    ended: bool,
}

impl Observer {
    /// Opens a ring, as [`perfring_consumer::Observer::attach`] does.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(location: impl Into<Location>, start: Start) -> Result<Self, AttachError> {
        perfring_consumer::Observer::attach(location, start).map(Observer::new)
    }

    /// Opens a ring with these options, as [`perfring_consumer::Observer::attach_with`] does.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_with(
        location: impl Into<Location>,
        options: &ObserverOptions,
    ) -> Result<Self, AttachError> {
        perfring_consumer::Observer::attach_with(location, options).map(Observer::new)
    }

    /// Wraps an observer that is open already.
    #[must_use]
    pub fn new(inner: perfring_consumer::Observer) -> Self {
        let (pause, longest) = (None, PAUSE_MAX);
        Observer { inner, sleep: None, pause, longest, ends: false, ended: false }
    }

    /// Sets the longest pause between two polls while it waits. Default 10 ms. A thousand idle
    /// observers then poll a hundred thousand times a second; with a pause of a second, a thousand
    /// times.
    #[must_use]
    pub fn longest_pause(self, longest: Duration) -> Self {
        Observer { longest: longest.max(PAUSE_MIN), ..self }
    }

    /// Makes it end once all is read and no producer is attached.
    #[must_use]
    pub fn end_with_producer(self) -> Self {
        Observer { ends: true, ..self }
    }

    /// Returns the next item. `None` only at the end of an observer that [ends with its
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

    /// Waits until there is something to read, and takes nothing. `false` only at the end of an
    /// observer that [ends with its producer](Observer::end_with_producer). Cancel-safe.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ready(&mut self) -> Result<bool, Error> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// Polls for something to read, as [`Observer::ready`] does: for hand-written futures.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let budget = ready!(poll_proceed(cx));
        loop {
            // Before the poll: what a producer published before it detached is seen.
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
                restart(sleep.as_mut(), PAUSE_MIN);
            }
            ready!(sleep.as_mut().poll(cx));
            let pause = self.pause.map_or(PAUSE_MIN, |pause| (pause * 2).min(self.longest));
            self.pause = Some(pause);
            restart(sleep.as_mut(), pause);
        }
    }

    /// Returns the wrapped observer, for inspection.
    #[must_use]
    pub fn get_ref(&self) -> &perfring_consumer::Observer {
        &self.inner
    }

    /// Returns the wrapped observer: to read without waiting.
    pub fn get_mut(&mut self) -> &mut perfring_consumer::Observer {
        &mut self.inner
    }

    /// Returns the wrapped observer, which continues where this one was.
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
                found(this.inner.read(), pos).map(|item| Some(item.map(RecordRef::into_owned)))
            }
        };
        this.ended = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.transpose())
    }
}

/// Makes a sleep end after a pause from now on.
fn restart(sleep: Pin<&mut Sleep>, pause: Duration) {
    let now = Instant::now();
    sleep.reset(now.checked_add(pause).unwrap_or(now));
}
