//! The consumer of a ring.

use crate::cursor::Cursor;
use crate::item::{Item, RecordRef, item};
use crate::options::{Acknowledge, ConsumerOptions};
use crate::pinned::Pinned;
use crate::run::Run;
use crate::tick::Tick;
use crate::wait_strategy::{Distance, WaitStrategy};
use perfring_ring::{Count, ReadError, WakeAt};
use perfring_shm::{
    AttachError, Location, Pages, PagesError, ReadWindow, program_name, when_there,
};
use std::time::Duration;

/// A ring's consumer, or one of its named consumers. It continues where the last one released.
///
/// On a drop ring, records are borrowed from the ring itself, and the space goes back to the
/// producer once they have been read. On an overwrite ring records are copies, and the consumer's
/// position is saved in the ring.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) cursor: Cursor,
    pub(crate) wait_strategy: WaitStrategy,
    pub(crate) wake_at: WakeAt,
    pub(crate) distance: Distance,
    /// Where it last went to sleep before an open reservation.
    pub(crate) lagged_at: Option<u64>,
    pub(crate) removal: Tick,
    /// Limits how often new losses end a wait: once a second.
    pub(crate) losses: Tick,
}

impl Consumer {
    /// Attaches as the consumer, with the default [`ConsumerOptions`]. In a ring with named consumers, the consumer has the
    /// program's name.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] names the consumer that has the ring.
    pub fn attach(location: impl Into<Location>) -> Result<Self, AttachError> {
        Self::attach_with(location, &ConsumerOptions::default())
    }

    /// Attaches under a name: as one of the named consumers of a ring that was made with
    /// `Options::consumers`, each of which gets every record. In any other ring
    /// `perfring stat` shows the name.
    ///
    /// A new name starts at the oldest record. Records that are gone before its attach are its first loss. A name keeps its
    /// seat: the next consumer of this name continues where the last consumer released. No producer waits for a consumer
    /// that has detached or died. If records that it had not released are gone on its return, it
    /// first reads the loss, of cause [`Cause::Lapped`](crate::Cause::Lapped).
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let mut producer = Producer::create(&path, &Options { consumers: 2, ..Options::default() })?;
    /// let mut archive = Consumer::attach_as(&path, "archive")?;
    /// let mut alerts = Consumer::attach_as(&path, "alerts")?;
    /// producer.publish(b"x")?;
    /// for consumer in [&mut archive, &mut alerts] {
    ///     assert!(matches!(consumer.read()?, Some(Item::Record(record)) if record.bytes == b"x"));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] if a live process has the name,
    /// [`AttachError::Consumers`] if live processes have all seats.
    pub fn attach_as(location: impl Into<Location>, name: &str) -> Result<Self, AttachError> {
        Self::attach_with(location, &ConsumerOptions::named(name))
    }

    /// Attaches as the consumer, with these options.
    ///
    /// With [`Trust::Nobody`](crate::Trust::Nobody), a ring that another process truncates is an error:
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, ConsumerOptions, Item, ReadError, Trust};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for _ in 0..2 { producer.publish(b"x")?; }
    /// # drop(producer);
    /// let options = ConsumerOptions { trust: Trust::Nobody, ..ConsumerOptions::default() };
    /// let mut consumer = Consumer::attach_with(&path, &options)?;
    /// assert!(matches!(consumer.read()?, Some(Item::Record(record)) if record.bytes == b"x"));
    ///
    /// std::fs::File::options().write(true).open(&path)?.set_len(0)?;
    /// assert_eq!(consumer.read(), Err(ReadError::Truncated)); // instead of a SIGBUS
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A copy costs some 8 ns a record, besides the copying itself (`benches/RESULTS.md`). If
    /// records are copied, [`Consumer::read_run`], [`Consumer::pinned`] and raw access return
    /// `None`. Records of an overwrite ring are always copies.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] names the consumer that has the ring.
    pub fn attach_with(
        location: impl Into<Location>,
        options: &ConsumerOptions,
    ) -> Result<Self, AttachError> {
        let name = options.name.clone().unwrap_or_else(program_name);
        let cursor = Cursor::attach(location.into(), &name, options.lines, options.trust)?;
        let distance = Distance::of_consumer(cursor.mapping().file().layout().data_size);
        let mut consumer = Consumer {
            cursor,
            wait_strategy: options.wait,
            wake_at: options.wake_at,
            distance,
            lagged_at: None,
            removal: Tick::default(),
            losses: Tick::default(),
        };
        if options.acknowledge == Acknowledge::Explicit {
            consumer.hold();
        }
        Ok(consumer)
    }

    /// Attaches as soon as the ring exists, and waits for it for at most `timeout`. A reader can be
    /// started before its producer.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, ConsumerOptions};
    /// # use perfring_producer::{Options, Producer};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let ring = path.clone();
    /// let producer = std::thread::spawn(move || Producer::create(&ring, &Options::default()));
    /// let minute = Duration::from_secs(60);
    /// let consumer = Consumer::attach_when_there(&path, &ConsumerOptions::default(), minute)?;
    /// # assert_eq!(consumer.position(), 0);
    /// # drop(producer.join().unwrap()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError::NotFound`] if the ring does not exist at the end of `timeout`. Any other [`AttachError`] is
    /// returned at once.
    pub fn attach_when_there(
        location: impl Into<Location>,
        options: &ConsumerOptions,
        timeout: Duration,
    ) -> Result<Self, AttachError> {
        when_there(location, timeout, |location| Self::attach_with(location, options))
    }

    /// Returns the next item, or `None` if the ring has nothing more now. Does not wait, except for the short
    /// pause of its [`WaitStrategy`] between two polls of a busy ring.
    ///
    /// When there is nothing left to read, it returns the producers' losses that no marker in the stream reports. A
    /// loss does not wait for the next record that fits, which may never come. Each loss is returned once.
    ///
    /// An item counts as read at the next call. Its space goes back to the producer soon after: in
    /// eighths of the ring while there is more to read, and all of it before a sleep or once some
    /// dozens of calls in a row found nothing. [`Consumer::release`] releases it at once.
    ///
    /// # Errors
    /// [`ReadError`]. [`ReadError::Removed`] is returned only in place of `None`, once a wait has
    /// found the ring's file removed or replaced.
    #[inline(always)]
    pub fn read(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        let (wait_strategy, distance) = (self.wait_strategy, &mut self.distance);
        match &mut self.cursor {
            Cursor::InPlace(window) => {
                match window.next_fast(|passed| distance.keep(wait_strategy, passed)) {
                    Ok((frame, bytes)) => Ok(Some(Item::Record(RecordRef::new(&frame, bytes)))),
                    Err(window) => read_in_place(window),
                }
            }
            copied => read_copied(copied, wait_strategy, distance),
        }
    }

    /// Returns the next records of one type and one length in a row, at most `max`, in place: for
    /// readers that make columns of them. It counts as read at the next call, like an item of
    /// [`Consumer::read`].
    ///
    /// `None` is not the end. The next item may be a loss, may not be known yet, or may be in an
    /// overwrite ring: [`Consumer::read`] returns it.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// for n in 0..100u64 {
    ///     producer.publish(&n.to_le_bytes())?;
    /// }
    /// let mut consumer = Consumer::attach(&path)?;
    /// let mut sum = 0;
    /// loop {
    ///     if let Some(run) = consumer.read_run(u64::MAX) {
    ///         for record in run.records() {
    ///             sum += u64::from_le_bytes(record.bytes.try_into()?);
    ///         }
    ///         continue;
    ///     }
    ///     match consumer.read()? {
    ///         Some(Item::Record(record)) => sum += u64::from_le_bytes(record.bytes.try_into()?),
    ///         Some(Item::Lost(lost)) => eprintln!("{} lost", lost.records),
    ///         None => break,
    ///     }
    /// }
    /// assert_eq!(sum, 4950);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn read_run(&mut self, max: u64) -> Option<Run<'_>> {
        let Cursor::InPlace(window) = &mut self.cursor else { return None };
        let (first, count, bytes) = window.next_run(max)?;
        Some(Run { first, count, bytes })
    }

    /// Acknowledges everything that was returned so far, the last item included: it does not come
    /// again, and its space goes back to the producer. For an overwrite ring, the position is saved
    /// in the ring.
    ///
    /// With [`Acknowledge::Explicit`] only this does so. A record that was read and not
    /// acknowledged comes again if the process ends in between:
    ///
    /// ```
    /// # use perfring_consumer::{Acknowledge, Consumer, ConsumerOptions, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for word in [&b"one"[..], b"two"] { producer.publish(word)?; }
    /// # fn forward(_: &[u8]) -> std::io::Result<()> { Ok(()) }
    /// let acknowledge = Acknowledge::Explicit;
    /// let options = ConsumerOptions { acknowledge, ..ConsumerOptions::default() };
    /// let mut consumer = Consumer::attach_with(&path, &options)?;
    /// if let Some(Item::Record(record)) = consumer.read()? {
    ///     forward(record.bytes)?;
    ///     consumer.acknowledge(); // only now, once it is delivered
    /// }
    /// let _second = consumer.read()?;
    /// drop(consumer); // or the process is killed, before the second is delivered
    ///
    /// let mut consumer = Consumer::attach_with(&path, &options)?;
    /// let Some(Item::Record(second)) = consumer.read()? else { panic!("it comes again") };
    /// assert_eq!(second.bytes, b"two");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A record can come twice: to a process that is killed after the record was delivered and
    /// before it was acknowledged. Number the records where that matters. To acknowledge up to an
    /// earlier position, see [`advanced`](crate::advanced).
    pub fn acknowledge(&mut self) {
        let resume_point = self.cursor.resume_point();
        self.release_to(&resume_point);
    }

    /// Releases everything that [`Consumer::read`] returned so far, the last item included. Does
    /// nothing with [`Acknowledge::Explicit`].
    pub fn release(&mut self) {
        self.cursor.release();
    }

    /// Returns everything that is published now. Any number of its records can be held at a time.
    /// `None` on an overwrite ring, whose records nothing pins. Releases the records that were read before. The
    /// records that are taken from it are released when it is dropped.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for n in [3u8, 1, 2] { producer.publish(&[n])?; }
    /// # let mut consumer = Consumer::attach(&path)?;
    /// if let Some(pinned) = consumer.pinned()? {
    ///     let mut held = Vec::new();
    ///     while let Some(item) = pinned.read()? {
    ///         let Item::Record(record) = item else { continue }; // a loss otherwise
    ///         held.push(record); // all in place, in the ring
    ///     }
    ///     held.sort_by_key(|record| record.bytes);
    ///     assert_eq!(held[0].bytes, [1]);
    /// } // released here
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn pinned(&mut self) -> Result<Option<Pinned<'_>>, ReadError> {
        let Cursor::InPlace(window) = &mut self.cursor else { return Ok(None) };
        Ok(Some(Pinned { window: window.pin()? }))
    }

    /// Returns whether records of a drop ring are copied before they are examined: its
    /// [`Trust`](crate::Trust) decides it. Records of an overwrite ring are always copied.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        matches!(self.cursor, Cursor::Guarded(_))
    }

    /// Returns the position of the next record.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.cursor.resume_point().pos()
    }

    /// Returns the number of records that were read since the ring was made, by this consumer and earlier
    /// consumers. For a named consumer: by consumers of its name.
    #[must_use]
    pub fn read_count(&self) -> Count {
        self.cursor.resume_point().before().since(self.lapped())
    }

    /// Returns the number of passed records that this consumer, or an earlier consumer, has missed. In an overwrite ring
    /// they were overwritten before they were read. In a ring with named consumers they were discarded while no producer
    /// waited for this name.
    #[must_use]
    pub fn lapped(&self) -> Count {
        self.cursor.resume_point().lapped()
    }

    /// Prefaults, locks or collapses this mapping's pages. `benches/RESULTS.md` has the gains.
    ///
    /// # Errors
    /// [`PagesError`] names the failed step; the ring can be used as before.
    pub fn set_pages(&self, pages: Pages) -> Result<(), PagesError> {
        self.cursor.mapping().set_pages(pages)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if !self.cursor.mapping().forked() {
            self.cursor.release();
            // Also if it was armed for a descriptor: no producer is to wake a consumer that has
            // detached.
            self.cursor.mapping().end_sleep();
        }
    }
}

#[inline(never)]
fn read_copied<'a>(
    cursor: &'a mut Cursor,
    wait_strategy: WaitStrategy,
    distance: &mut Distance,
) -> Result<Option<Item<'a>>, ReadError> {
    match cursor {
        Cursor::InPlace(window) => read_in_place(window),
        Cursor::Guarded(guarded) => {
            if guarded.window.reader().known() == 0 {
                distance.keep(wait_strategy, guarded.window.reader().passed());
            }
            guarded.read()
        }
        Cursor::Saving(saving) => saving.read(),
    }
}

#[inline(never)]
pub(crate) fn read_in_place(window: &mut ReadWindow) -> Result<Option<Item<'_>>, ReadError> {
    match window.next_any() {
        Ok((frame, bytes)) => Ok(Some(Item::Record(RecordRef::new(&frame, bytes)))),
        Err(window) => read_rest(window),
    }
}

/// Reads an item that is not a known record.
#[inline(never)]
fn read_rest(window: &mut ReadWindow) -> Result<Option<Item<'_>>, ReadError> {
    Ok(window.read()?.map(item))
}
