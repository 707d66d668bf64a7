//! Parts that few readers need: reading ahead of the release, resume points, sleeping by other
//! means, and raw access.
//!
//! [`Consumer::advanced`] and [`Observer::advanced`] give access to it. Readers of many rings, as
//! `perfring-set` and the sidecar, are built on it: [`AdvancedConsumer::peek`] says which ring has
//! the oldest record, [`AdvancedConsumer::take`] takes it, and [`AdvancedConsumer::release_to`]
//! releases it once it is delivered.

use crate::consumer::Consumer;
use crate::cursor::{Cursor, either};
use crate::item::{Item, RecordRef, item};
use crate::observer::Observer;
use perfring_ring::ReadError;
use perfring_shm::{AttachError, ReadWindow};

pub use crate::pinned::Pinned;
pub use crate::run::Run;
pub use crate::snapshot::SnapshotReader;
pub use perfring_abi::Lead;
pub use perfring_ring::{Anchor, Front, Next, ReaderId, ResumePoint, Saved};
#[cfg(feature = "poll")]
pub use perfring_shm::ManyWaits;
pub use perfring_shm::{
    ANY_MOST, Armed, Lines, MachineClock, Raw, RawReader, Sleeper, Ticket, sleep_on_any, until_tick,
};

/// The rarely used half of a [`Consumer`]: see [`Consumer::advanced`].
#[derive(Debug)]
pub struct AdvancedConsumer<'a> {
    consumer: &'a mut Consumer,
}

/// The rarely used half of an [`Observer`]: see [`Observer::advanced`].
#[derive(Debug)]
pub struct AdvancedObserver<'a> {
    observer: &'a mut Observer,
}

impl Consumer {
    /// Gives access to functions that few consumers need: see [`advanced`](crate::advanced).
    #[inline]
    pub fn advanced(&mut self) -> AdvancedConsumer<'_> {
        AdvancedConsumer { consumer: self }
    }

    /// Returns the resume point after everything that was read: for
    /// [`AdvancedConsumer::release_to`].
    #[must_use]
    #[inline]
    pub fn resume_point(&self) -> ResumePoint {
        self.cursor.resume_point()
    }

    pub(crate) fn hold(&mut self) {
        either!(&mut self.cursor, window => window.hold(), saving => saving.hold = true)
    }

    pub(crate) fn release_to(&mut self, resume_point: &ResumePoint) {
        either!(&mut self.cursor, window => window.release_to(resume_point), saving => saving.save_resume_point(resume_point))
    }
}

impl Observer {
    /// Gives access to functions that few observers need: see [`advanced`](crate::advanced).
    #[inline]
    pub fn advanced(&mut self) -> AdvancedObserver<'_> {
        AdvancedObserver { observer: self }
    }

    /// Returns the resume point after everything that was read: its [`ResumePoint::saved`] is for
    /// [`Start::At`](crate::Start::At).
    #[must_use]
    #[inline]
    pub fn resume_point(&self) -> ResumePoint {
        self.window.observer().resume_point()
    }
}

impl<'a> AdvancedConsumer<'a> {
    /// Stops automatic release: from now on only [`AdvancedConsumer::release_to`] and
    /// [`Consumer::acknowledge`] release, as with
    /// [`Acknowledge::Explicit`](crate::Acknowledge::Explicit).
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for n in 0..3 { producer.publish(&[n])?; }
    /// let mut consumer = Consumer::attach(&path)?;
    /// consumer.advanced().hold();
    /// let mut points = Vec::new();
    /// while let Some(item) = consumer.read()? {
    /// #   let _ = item;
    ///     points.push(consumer.resume_point()); // after each of three records
    /// }
    /// consumer.advanced().release_to(&points[0]);
    /// drop(consumer);
    ///
    /// let mut next = Consumer::attach(&path)?;
    /// let Some(Item::Record(second)) = next.read()? else { panic!() };
    /// assert_eq!(second.bytes, [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hold(self) {
        self.consumer.hold();
    }

    /// Releases everything before a resume point of this consumer: the producer gets the space. For
    /// an overwrite ring, the resume point is saved in the ring. A resume point that is not after
    /// the last one does nothing.
    pub fn release_to(self, resume_point: &ResumePoint) {
        self.consumer.release_to(resume_point);
    }

    /// Polls the producer's position, and returns the kind of the next item, without taking it.
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn peek(self) -> Result<Front, ReadError> {
        either!(&mut self.consumer.cursor, window => window.peek(), saving => saving.window.peek())
    }

    /// Returns the next item among those published at the last [`AdvancedConsumer::peek`], and the kind of the item
    /// after it: [`Front::Empty`] if all of them were taken.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item, advanced::Front};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let options = Options { time: true, ..Options::default() };
    /// # let mut producer = Producer::create(&path, &options)?;
    /// # for n in 0..2 { producer.publish(&[n])?; }
    /// let mut consumer = Consumer::attach(&path)?;
    /// consumer.advanced().hold();
    /// let Front::Timestamped(first) = consumer.advanced().peek()? else { panic!() };
    /// let Some((Item::Record(record), next)) = consumer.advanced().take()? else { panic!() };
    /// assert_eq!(record.time, Some(first)); // borrowed from the ring
    /// assert!(matches!(next, Front::Timestamped(second) if second >= first));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn take(self) -> Result<Option<(Item<'a>, Front)>, ReadError> {
        self.take_as(|record, next| Ok(Some((Item::Record(record), next))), |taken| taken)
    }

    /// Takes the next item like [`AdvancedConsumer::take`], and converts it: by `known` if it is a record that
    /// is borrowed from the ring, like nearly all, and otherwise by `other`. Loops with their own type use this to avoid
    /// a second type in memory.
    ///
    /// ```
    /// # use perfring_consumer::Consumer;
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for n in 0..2 { producer.publish(&[n])?; }
    /// let mut consumer = Consumer::attach(&path)?;
    /// consumer.advanced().peek()?;
    /// let mut sum = 0;
    /// while consumer.advanced().take_as(
    ///     |record, _| { sum += record.bytes.len(); true },
    ///     |other| matches!(other, Ok(Some(_))),
    /// ) {}
    /// assert_eq!(sum, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn take_as<T>(
        self,
        known: impl FnOnce(RecordRef<'a>, Front) -> T,
        other: impl FnOnce(Result<Option<(Item<'a>, Front)>, ReadError>) -> T,
    ) -> T {
        match &mut self.consumer.cursor {
            Cursor::InPlace(window) => match window.take_known() {
                Ok((frame, bytes, front)) => known(RecordRef::new(&frame, bytes), front),
                Err(window) => other(take_in_place(window)),
            },
            copied => other(take_copied(copied)),
        }
    }

    /// Returns the ring's words and positions, for reading them directly, from the end of the read records on;
    /// `None` on an overwrite ring, to which [`Observer`] gives access.
    ///
    /// ```
    /// # use perfring_consumer::Consumer;
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish(b"eight by")?;
    /// # let mut consumer = Consumer::attach(&path)?;
    /// let Some(mut raw) = consumer.advanced().raw() else { panic!("an overwrite ring") };
    /// let (mut pos, head) = (raw.cursor(), raw.ring().head());
    /// while pos < head {
    ///     let header = raw.ring().word(pos); // u32 type, u16 misc, u16 size
    ///     let size = header >> 48;
    ///     assert_eq!(raw.ring().word(pos + 8).to_ne_bytes(), *b"eight by");
    ///     pos += size;
    /// }
    /// assert_eq!(raw.advance(pos)?.records, 1); // the tail has moved there
    /// assert_eq!(raw.ring().tail(), head);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn raw(self) -> Option<RawReader<'a>> {
        match &mut self.consumer.cursor {
            Cursor::InPlace(window) => Some(window.raw()),
            Cursor::Guarded(_) | Cursor::Saving(_) => None,
        }
    }

    /// Returns a handle that sleeps for this consumer without borrowing it: for a consumer that
    /// threads share behind a lock, which a sleeping thread must not hold.
    ///
    /// ```
    /// # use perfring_consumer::Consumer;
    /// # use perfring_producer::{Options, Producer};
    /// # use std::{sync::Mutex, time::Duration};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// let mut consumer = Consumer::attach(&path)?;
    /// let sleeper = consumer.advanced().sleeper()?;
    /// let consumer = Mutex::new(consumer);
    /// # producer.publish(b"x")?;
    /// while consumer.lock().unwrap().fill().unread == 0 {
    ///     let ticket = consumer.lock().unwrap().advanced().prepare_sleep();
    ///     if let Some(ticket) = ticket {
    ///         sleeper.sleep(ticket, Duration::from_secs(1)); // others can read meanwhile
    ///         consumer.lock().unwrap().advanced().end_sleep();
    ///     }
    ///     if consumer.lock().unwrap().advanced().check_removed() {
    ///         break; // `read` returns why
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError::Io`] if the ring cannot be mapped again.
    pub fn sleeper(self) -> Result<Sleeper, AttachError> {
        self.consumer.cursor.mapping().sleeper()
    }

    /// Requests a wake, before a call of [`Sleeper::sleep`]. Releases first. Returns `None` if
    /// there is something to read.
    #[must_use]
    pub fn prepare_sleep(self) -> Option<Ticket> {
        self.consumer.prepare_sleep()
    }

    /// Requests a wake as [`AdvancedConsumer::prepare_sleep`] does, for a thread that sleeps on the rings of many
    /// consumers at once. Returns `None` if there is something to read.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, advanced::sleep_on_any};
    /// # use perfring_producer::{Options, Producer};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let paths = ["a", "b"].map(|name| dir.path().join(name));
    /// # let mut a = Producer::create(&paths[0], &Options::default())?;
    /// # let b = Producer::create(&paths[1], &Options::default())?;
    /// let mut consumers = [Consumer::attach(&paths[0])?, Consumer::attach(&paths[1])?];
    /// # a.publish(b"x")?;
    /// while consumers.iter().all(|consumer| consumer.fill().unread == 0) {
    ///     let asleep = consumers.iter_mut().map(|consumer| consumer.advanced().prepare_sleep_on_any());
    ///     if let Some(armed) = asleep.collect::<Option<Vec<_>>>() {
    ///         let slept = sleep_on_any(&armed, Duration::from_secs(1)); // false where it cannot be
    /// #       assert!(slept);
    ///     }
    ///     consumers.iter_mut().for_each(|consumer| consumer.advanced().end_sleep());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn prepare_sleep_on_any(self) -> Option<Armed<'a>> {
        let ticket = self.consumer.prepare_sleep()?;
        Some(self.consumer.cursor.mapping().armed(ticket))
    }

    /// Withdraws the request of [`AdvancedConsumer::prepare_sleep`] or
    /// [`AdvancedConsumer::prepare_sleep_on_any`]: call it after the sleep, once no thread sleeps for this consumer.
    pub fn end_sleep(self) {
        self.consumer.end_sleep();
    }

    /// Ends reservations that a dead producer of a shared ring left open before younger records, if
    /// one was at the same position at the last call. [`Consumer::sleep`] does this too: call it
    /// where the thread sleeps elsewhere. Returns whether a reservation is open there.
    pub fn tend(self) -> bool {
        self.consumer.tend()
    }

    /// Returns whether the ring's file was removed or replaced, and asks the file system at most
    /// once a second. [`Consumer::sleep`] does this too: call it where the thread sleeps elsewhere.
    /// Afterwards [`Consumer::read`] returns [`ReadError::Removed`] where there is nothing left.
    pub fn check_removed(self) -> bool {
        self.consumer.check_removed()
    }
}

impl<'a> AdvancedObserver<'a> {
    /// Returns the kind of the next item, without taking it. Polls the producer's position if no unread record
    /// is known.
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn peek(self) -> Result<Front, ReadError> {
        self.observer.window.peek()
    }

    /// Takes the next item, as [`AdvancedConsumer::take`] does.
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn take(self) -> Result<Option<(Item<'a>, Front)>, ReadError> {
        Ok(self.observer.window.take()?.map(|(next, front)| (item(next), front)))
    }

    /// Returns the ring's words and positions, for reading them directly. Any word of an overwrite
    /// ring may change at any time: a word that was loaded at a position was intact if [`Raw::tail`] is
    /// not past the position afterwards.
    #[must_use]
    pub fn raw(self) -> Raw<'a> {
        self.observer.window.mapping().raw()
    }

    /// Returns whether the ring's file was removed or replaced, and asks the file system at most
    /// once a second. [`Observer::wait`] does this too: call it where the thread waits elsewhere.
    /// Afterwards [`Observer::read`] returns [`ReadError::Removed`] where there is nothing left.
    pub fn check_removed(self) -> bool {
        self.observer.check_removed()
    }
}

#[inline(never)]
fn take_copied(cursor: &mut Cursor) -> Result<Option<(Item<'_>, Front)>, ReadError> {
    match cursor {
        Cursor::InPlace(window) => take_in_place(window),
        Cursor::Guarded(guarded) => guarded.take(),
        Cursor::Saving(saving) => saving.take(),
    }
}

#[inline(never)]
fn take_in_place(window: &mut ReadWindow) -> Result<Option<(Item<'_>, Front)>, ReadError> {
    Ok(window.take()?.map(|(next, front)| (item(next), front)))
}
