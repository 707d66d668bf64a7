//! Reading ahead of what is released, and raw access: what readers of many rings are built on.

use crate::consumer::Consumer;
use crate::cursor::Cursor;
use crate::guarded::Guarded;
use crate::item::{Item, Record};
use crate::observer::Observer;
use perfring_abi::Producers;
use perfring_ring::{Corrupt, Front, ResumePoint};
use perfring_shm::{AttachError, Raw, RawReader, ReadWindow, RingFile, Seat};

/// How full a ring is, for a reader of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Bytes that are there and that it has not read.
    pub unread: u64,
    /// Bytes that it has read and not released; none of a reader that copies.
    pub held: u64,
    /// Bytes of the ring.
    pub size: u64,
}

impl Consumer {
    /// From now on nothing is released but by [`Consumer::release_to`]: the consumer reads ahead,
    /// and a later one goes on at the last place that was released, whatever this one had read.
    ///
    /// The space of what is not released stays taken: a producer that fills it finds the ring full.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # for n in 0..3 { producer.publish(&[n])?; }
    /// let mut consumer = Consumer::attach(&path)?;
    /// consumer.hold();
    /// let mut resume_points = Vec::new();
    /// while let Some(item) = consumer.read()? {
    /// #   let _ = item;
    ///     resume_points.push(consumer.resume_point()); // after each of three records
    /// }
    /// consumer.release_to(&resume_points[0]);
    /// drop(consumer);
    ///
    /// let mut next = Consumer::attach(&path)?;
    /// let Some(Item::Record(second)) = next.read()? else { panic!() };
    /// assert_eq!(second.bytes, [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hold(&mut self) {
        match &mut self.cursor {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => window.hold(),
            Cursor::Saving(saving) => saving.hold = true,
        }
    }

    /// The place after everything that was read.
    #[must_use]
    #[inline]
    pub fn resume_point(&self) -> ResumePoint {
        self.cursor.resume_point()
    }

    /// Hands back everything before a mark that this consumer made: the producer gets the space.
    /// Of an overwrite ring, the place is saved in the page. A mark that is not after the last one
    /// does nothing.
    pub fn release_to(&mut self, resume_point: &ResumePoint) {
        match &mut self.cursor {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => {
                window.release_to(resume_point)
            }
            Cursor::Saving(saving) => saving.save_resume_point(resume_point),
        }
    }

    /// Looks how far the producer is, and says what is next, without taking it.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn peek(&mut self) -> Result<Front, Corrupt> {
        match &mut self.cursor {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => window.peek(),
            Cursor::Saving(saving) => saving.window.peek(),
        }
    }

    /// The next item of what was there at the last [`Consumer::peek`], and what is next after it:
    /// [`Front::Empty`] if all of it was taken.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Front, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let options = Options { time: true, ..Options::default() };
    /// # let mut producer = Producer::create(&path, &options)?;
    /// # for n in 0..2 { producer.publish(&[n])?; }
    /// let mut consumer = Consumer::attach(&path)?;
    /// consumer.hold();
    /// let Front::Timestamped(first) = consumer.peek()? else { panic!() };
    /// let Some((Item::Record(record), next)) = consumer.take()? else { panic!() };
    /// assert_eq!(record.time, Some(first)); // borrowed from the ring
    /// assert!(matches!(next, Front::Timestamped(second) if second >= first));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, Corrupt> {
        match &mut self.cursor {
            Cursor::InPlace(window) => match window.take_known() {
                Ok((frame, bytes, front)) => {
                    Ok(Some((Item::Record(Record::new(&frame, bytes)), front)))
                }
                Err(window) => take_in_place(window),
            },
            copied => take_copied(copied),
        }
    }

    /// How full the ring is now.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let held = match &self.cursor {
            Cursor::InPlace(window) | Cursor::Guarded(Guarded { window, .. }) => {
                window.reader().held()
            }
            Cursor::Saving(_) => 0,
        };
        let (head, size) = (self.cursor.mapping().head(), self.layout().data_size);
        Fill { unread: head.saturating_sub(self.position()).min(size), held, size }
    }

    /// Whether a producer is attached, so that there may be more; or was, and left a reservation open
    /// that [`Consumer::tend`] is still to end.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        // What a dead one left open comes once it is recovered, see `tend`.
        let mapping = self.cursor.mapping();
        Ok(has_producer(mapping.file())? || mapping.lags())
    }

    /// The ring's words and positions, for a reader of one's own; `None` on an overwrite ring, which
    /// an [`Observer`] gives access to. Begins after what was read.
    ///
    /// ```
    /// # use perfring_consumer::Consumer;
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish(b"eight by")?;
    /// # let mut consumer = Consumer::attach(&path)?;
    /// let Some(mut raw) = consumer.raw() else { panic!("an overwrite ring") };
    /// let (mut pos, head) = (raw.cursor(), raw.ring().head());
    /// while pos < head {
    ///     let header = raw.ring().word(pos); // u32 type, u16 misc, u16 size
    ///     let size = header >> 48;
    ///     assert_eq!(raw.ring().word(pos + 8).to_ne_bytes(), *b"eight by");
    ///     pos += size;
    /// }
    /// assert_eq!(raw.advance(pos)?.records, 1); // the tail is there now
    /// assert_eq!(raw.ring().tail(), head);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn raw(&mut self) -> Option<RawReader<'_>> {
        match &mut self.cursor {
            Cursor::InPlace(window) => Some(window.raw()),
            Cursor::Guarded(_) | Cursor::Saving(_) => None,
        }
    }
}

impl Observer {
    /// The place after everything that was read.
    #[must_use]
    #[inline]
    pub fn resume_point(&self) -> ResumePoint {
        self.window.observer().resume_point()
    }

    /// What is next, without taking it; looks how far the producer is, if nothing is known of.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn peek(&mut self) -> Result<Front, Corrupt> {
        self.window.peek()
    }

    /// As [`Consumer::take`].
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, Corrupt> {
        Ok(self.window.take()?.map(|(next, front)| (Item::new(next), front)))
    }

    /// How full the ring is now: with a whole ring unread, an observer of an overwrite ring is
    /// lapped.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let (head, size) = (self.window.mapping().head(), self.layout().data_size);
        Fill { unread: head.saturating_sub(self.resume_point().pos).min(size), held: 0, size }
    }

    /// Whether a producer is attached, so that there may be more.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        has_producer(self.window.mapping().file())
    }

    /// The ring's words and positions, for a reader of one's own. Any word of an overwrite ring may
    /// change at any time: what was loaded at a position was intact if [`Raw::tail`] is not past it
    /// afterwards.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        self.window.mapping().raw()
    }
}

#[inline(never)]
fn take_copied(cursor: &mut Cursor) -> Result<Option<(Item<'_>, Front)>, Corrupt> {
    match cursor {
        Cursor::InPlace(window) => take_in_place(window),
        Cursor::Guarded(guarded) => guarded.take(),
        Cursor::Saving(saving) => saving.take(),
    }
}

#[inline(never)]
fn take_in_place(window: &mut ReadWindow) -> Result<Option<(Item<'_>, Front)>, Corrupt> {
    Ok(window.take()?.map(|(next, front)| (Item::new(next), front)))
}

fn has_producer(ring: &RingFile) -> Result<bool, AttachError> {
    let slots = match ring.layout().producers {
        Producers::One => 1,
        Producers::Many => ring.layout().slots,
    };
    for slot in 0..slots {
        if ring.is_held(Seat::Producer(slot))? {
            return Ok(true);
        }
    }
    Ok(false)
}
