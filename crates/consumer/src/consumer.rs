//! The consumer.

use crate::cursor::Cursor;
use crate::item::{Item, Record};
use crate::pinned::Pinned;
use crate::run::Run;
use crate::wait_strategy::{Distance, WaitStrategy};
use perfring_ring::{Corrupt, Count, WakeAt};
use perfring_shm::{
    AttachError, Guard, Lines, Location, Pages, PagesError, ReadWindow, program_name,
};

/// The one consumer of a ring. A new one goes on where the last one released.
///
/// On a drop ring, records are borrowed from the ring itself and the space goes back to the
/// producer once they have been read. On an overwrite ring they are copies, and the place is saved
/// in the page.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) cursor: Cursor,
    pub(crate) wait_strategy: WaitStrategy,
    pub(crate) wake_at: WakeAt,
    pub(crate) distance: Distance,
    /// Where it last went to sleep before something that was not published.
    pub(crate) lagged_at: Option<u64>,
}

impl Consumer {
    /// Attaches as the consumer.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] names the consumer that has the ring.
    pub fn attach(location: impl Into<Location>) -> Result<Self, AttachError> {
        Self::attach_with(location, None, Lines::default())
    }

    /// As [`Consumer::attach`], under a name of up to 64 bytes that `perfring stat` shows.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_as(location: impl Into<Location>, name: &str) -> Result<Self, AttachError> {
        Self::attach_with(location, Some(name), Lines::default())
    }

    /// As [`Consumer::attach_as`], or without a name as [`Consumer::attach`], choosing what is done
    /// with the cache lines of what was read.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item, Lines};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish(b"x")?;
    /// // Maps the records read-only: not even a bug can change them.
    /// let mut consumer = Consumer::attach_with(&path, Some("auditor"), Lines::Leave)?;
    /// assert!(matches!(consumer.read()?, Some(Item::Record(record)) if record.bytes == b"x"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_with(
        location: impl Into<Location>,
        name: Option<&str>,
        lines: Lines,
    ) -> Result<Self, AttachError> {
        Self::attach_any(location.into(), name, lines, Guard::Never)
    }

    /// As [`Consumer::attach_as`], where those who may write the ring's file may do anything to it.
    /// With [`Guard::Always`] records of a drop ring are copies, too, made before anybody sees them, so
    /// that nobody rewrites one while it is read; and a file that is cut short meanwhile is the error
    /// [`Corrupt::CUT`], for [`install_sigbus_handler`](crate::install_sigbus_handler) is called. That costs some
    /// 8 ns for a record, and its copy (`benches/RESULTS.md`); [`Consumer::read_run`],
    /// [`Consumer::pinned`] and [`Consumer::raw`] give nothing. Of an overwrite ring they are copies in
    /// any case.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Corrupt, Item, Guard};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for _ in 0..2 { producer.publish(b"x")?; }
    /// # drop(producer);
    /// let mut consumer = Consumer::attach_guarded(&path, None, Guard::Always)?;
    /// assert!(matches!(consumer.read()?, Some(Item::Record(record)) if record.bytes == b"x"));
    ///
    /// std::fs::File::options().write(true).open(&path)?.set_len(0)?;
    /// assert_eq!(consumer.read(), Err(Corrupt::CUT)); // and not the end of this process
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_guarded(
        location: impl Into<Location>,
        name: Option<&str>,
        guard: Guard,
    ) -> Result<Self, AttachError> {
        Self::attach_any(location.into(), name, Lines::default(), guard)
    }

    fn attach_any(
        location: Location,
        name: Option<&str>,
        lines: Lines,
        guard: Guard,
    ) -> Result<Self, AttachError> {
        let cursor = Cursor::attach(location, name.unwrap_or(&program_name()), lines, guard)?;
        let distance = Distance::of_consumer(cursor.mapping().file().layout().data_size);
        let (wait_strategy, wake_at) = (WaitStrategy::default(), WakeAt::default());
        Ok(Consumer { cursor, wait_strategy, wake_at, distance, lagged_at: None })
    }

    /// How this consumer waits. Default [`WaitStrategy::Adaptive`].
    pub fn set_wait_strategy(&mut self, wait_strategy: WaitStrategy) {
        self.wait_strategy = wait_strategy;
    }

    /// What this consumer is woken for once it sleeps. Default [`WakeAt::Record`]; the others spare
    /// the producer wakes.
    pub fn set_wake_at(&mut self, at: WakeAt) {
        self.wake_at = at;
    }

    /// The next item, or `None` if there is none now. Does not wait, but for the moment that its
    /// [`WaitStrategy`] puts between two looks at a busy ring.
    ///
    /// An item counts as read at the next call. Its space goes back to the producer soon after: in
    /// eighths of the ring while there is more, and all of it once some dozens of calls in a row
    /// found nothing, or before a sleep. [`Consumer::release`] hands it back at once.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring holds what no producer writes; again at every call.
    #[inline(always)]
    pub fn read(&mut self) -> Result<Option<Item<'_>>, Corrupt> {
        let (wait_strategy, distance) = (self.wait_strategy, &mut self.distance);
        match &mut self.cursor {
            Cursor::InPlace(window) => {
                match window.next_known(|cursor| distance.keep(wait_strategy, cursor)) {
                    Ok((frame, bytes)) => Ok(Some(Item::Record(Record::new(&frame, bytes)))),
                    Err(window) => read_in_place(window),
                }
            }
            copied => read_copied(copied, wait_strategy, distance),
        }
    }

    /// Shows `visit` all that is there now, and returns how much that was: as a loop of
    /// [`Consumer::read`], in a quarter less time for small records, since the loop keeps its place in
    /// registers. It looks at the ring once, so a producer that goes on does not keep it for ever.
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
    /// let mut bytes = 0;
    /// let items = consumer.drain(|item| match item {
    ///     Item::Record(record) => bytes += record.bytes.len(), // in the ring itself
    ///     Item::Lost(lost) => eprintln!("{} lost", lost.records),
    /// })?;
    /// assert_eq!((items, bytes), (100, 800));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Each item counts as read when `visit` returns, and its space goes back to the producer as
    /// [`Consumer::read`] says. If `visit` panics, some of those that it has seen come again.
    ///
    /// # Errors
    /// [`Corrupt`]; what was visited before is read.
    #[inline(always)]
    pub fn drain(&mut self, visit: impl FnMut(Item<'_>)) -> Result<u64, Corrupt> {
        let (wait_strategy, distance) = (self.wait_strategy, &mut self.distance);
        if let Cursor::InPlace(window) = &mut self.cursor {
            return drain_in_place(window, |cursor| distance.keep(wait_strategy, cursor), visit);
        }
        self.drain_copied(visit)
    }

    fn drain_copied(&mut self, mut visit: impl FnMut(Item<'_>)) -> Result<u64, Corrupt> {
        // Where the one look found the head.
        let (mut count, mut end) = (0, None);
        loop {
            if self.cursor.must_poll() {
                let cursor = self.position();
                if end.is_some_and(|end| cursor >= end) {
                    return Ok(count);
                }
                if end.is_none() {
                    self.distance.keep(self.wait_strategy, cursor);
                    end = Some(self.cursor.mapping().head());
                }
            }
            let item = match &mut self.cursor {
                Cursor::InPlace(window) => read_in_place(window),
                Cursor::Guarded(guarded) => guarded.read(),
                Cursor::Saving(saving) => saving.read(),
            };
            match item? {
                Some(item) => visit(item),
                None => return Ok(count),
            }
            count += 1;
        }
    }

    /// The next records of one type and one length in a row, at most `max`, in place: for those who
    /// make columns of them. It counts as read at the next call, as an item of [`Consumer::read`].
    ///
    /// `None` is not the end: the next item may be a loss, not be known of yet, or be of an overwrite
    /// ring. [`Consumer::read`] has it.
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

    /// Hands back everything that [`Consumer::read`] returned so far, the last item included.
    pub fn release(&mut self) {
        self.cursor.release();
    }

    /// Everything that is there now, of which any number of records can be held at a time; `None`
    /// on an overwrite ring, whose records nothing pins. Releases what was read before; what is
    /// taken from it is released when it is dropped.
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
    ///     while let Some(Item::Record(record)) = pinned.read()? {
    ///         held.push(record); // all in place, in the ring
    ///     }
    ///     held.sort_by_key(|record| record.bytes);
    ///     assert_eq!(held[0].bytes, [1]);
    /// } // released here
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn pinned(&mut self) -> Result<Option<Pinned<'_>>, Corrupt> {
        let Cursor::InPlace(window) = &mut self.cursor else { return Ok(None) };
        Ok(Some(Pinned { window: window.pin()? }))
    }

    /// Whether records of a drop ring are copied: [`Guard::Always`] or [`Guard::Never`], also where
    /// this was attached with [`Guard::Auto`].
    #[must_use]
    pub fn guard(&self) -> Guard {
        match self.cursor {
            Cursor::Guarded(_) => Guard::Always,
            Cursor::InPlace(_) | Cursor::Saving(_) => Guard::Never,
        }
    }

    /// The position of the next record.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.cursor.resume_point().pos
    }

    /// Records read since the ring was made, by this consumer and those before it.
    #[must_use]
    pub fn read_count(&self) -> Count {
        self.cursor.resume_point().before.since(self.lapped())
    }

    /// Records of an overwrite ring that were gone before this consumer, or one before it, came to
    /// them.
    #[must_use]
    pub fn lapped(&self) -> Count {
        match &self.cursor {
            Cursor::InPlace(_) | Cursor::Guarded(_) => Count::default(),
            Cursor::Saving(saving) => saving.window.observer().lapped(),
        }
    }

    /// Prefaults, locks or collapses this mapping's pages; `benches/RESULTS.md` has what it gains.
    ///
    /// # Errors
    /// [`PagesError`] says what could not be done; the ring can be used as before.
    pub fn set_pages(&self, pages: Pages) -> Result<(), PagesError> {
        self.cursor.mapping().set_pages(pages)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if !self.cursor.mapping().is_forked() {
            self.cursor.release();
            // Of one that was armed for a descriptor: no producer is to wake who has gone.
            self.cursor.mapping().end_sleep();
        }
    }
}

#[inline(always)]
fn drain_in_place(
    window: &mut ReadWindow,
    before_poll: impl FnOnce(u64),
    mut visit: impl FnMut(Item<'_>),
) -> Result<u64, Corrupt> {
    // Where the one look found the head.
    let (mut count, mut end) = (0, 0);
    let mut before_poll = Some(before_poll);
    loop {
        if before_poll.is_none() && window.reader().cursor() >= end {
            return Ok(count);
        }
        if window.reader().known() == 0
            && let Some(before_poll) = before_poll.take()
        {
            end = window.poll_ahead(before_poll);
        }
        let visited = window.visit_known(|frame, bytes| {
            visit(Item::Record(Record::new(frame, bytes)));
        });
        count += visited;
        if visited > 0 && window.reader().known() == 0 {
            continue; // to the one look, or the end
        }
        match read_in_place(window)? {
            Some(item) => visit(item),
            None => return Ok(count),
        }
        count += 1;
    }
}

#[inline(never)]
fn read_copied<'a>(
    cursor: &'a mut Cursor,
    wait_strategy: WaitStrategy,
    distance: &mut Distance,
) -> Result<Option<Item<'a>>, Corrupt> {
    match cursor {
        Cursor::InPlace(window) => read_in_place(window),
        Cursor::Guarded(guarded) => {
            if guarded.window.reader().known() == 0 {
                distance.keep(wait_strategy, guarded.window.reader().cursor());
            }
            guarded.read()
        }
        Cursor::Saving(saving) => saving.read(),
    }
}

#[inline(never)]
fn read_in_place(window: &mut ReadWindow) -> Result<Option<Item<'_>>, Corrupt> {
    match window.next_any() {
        Ok((frame, bytes)) => Ok(Some(Item::Record(Record::new(&frame, bytes)))),
        Err(window) => read_rest(window),
    }
}

/// All that is not a record that was known of.
#[inline(never)]
fn read_rest(window: &mut ReadWindow) -> Result<Option<Item<'_>>, Corrupt> {
    Ok(window.read()?.map(Item::new))
}
