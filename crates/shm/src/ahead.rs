//! Reading ahead on a mapping: items are taken, and released when the caller says so.

use crate::file::error::AttachError;
use crate::file::open::{Place, RingFile};
use crate::guarded;
use crate::observer::{MappedObserver, item_of};
use crate::reader::{AHEAD, Cursor, Item, MappedReader, record};
use crate::sys::futex;
use perfring_abi::Producers;
use perfring_ring::{Corrupt, Found, Front, Mark};

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

impl MappedReader {
    /// From now on nothing is released, or saved, but by [`MappedReader::release_to`].
    pub fn hold(&mut self) {
        match &mut self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => reader.hold(),
            Cursor::Copied { hold, .. } => *hold = true,
        }
    }

    /// Looks how far the producer is. Returns what is next.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn look(&mut self) -> Result<Front, Corrupt> {
        let ring = self.map.ring();
        match &mut self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => {
                reader.look_held(ring).map(|(front, owed)| {
                    if owed {
                        futex::wake(ring.space_word());
                    }
                    front
                })
            }
            Cursor::Copied { observer, .. } => observer.look(ring),
        }
        .map_err(|corrupt| self.map.tell(corrupt))
    }

    /// As [`MappedReader::read`], of what was there at the last look, and says what is next.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, Corrupt> {
        if let Cursor::Pinned(reader) = &mut self.cursor {
            let ring = self.map.ring();
            let frame = match reader.is_plain() {
                true => reader.next_record(ring),
                false => reader.next_any(ring),
            };
            if let Some(frame) = frame {
                if frame.size <= AHEAD && reader.known() > AHEAD {
                    self.map.prefetch(frame.pos + AHEAD);
                }
                // What is wrong with the next is told by the next look.
                let front = reader.front(ring).unwrap_or(Front::More);
                // SAFETY: the reader found the frame before an acquired head, and moves the tail
                // past it at the next call at the earliest, which needs `&mut self`.
                let bytes = unsafe { self.map.pinned(&frame) };
                return Ok(Some((record(&frame, bytes), front)));
            }
        }
        self.take_any()
    }

    #[inline(never)]
    fn take_any(&mut self) -> Result<Option<(Item<'_>, Front)>, Corrupt> {
        let ring = self.map.ring();
        match &mut self.cursor {
            Cursor::Pinned(reader) => {
                let next = reader.next(ring).map_err(|corrupt| self.map.tell(corrupt));
                let (found, owed) = next?;
                if owed {
                    futex::wake(ring.space_word());
                }
                let front = reader.front(ring).unwrap_or(Front::More);
                Ok(found.map(|found| match found {
                    Found::Record(frame) => {
                        // SAFETY: as in `take`.
                        let bytes = unsafe { self.map.pinned(&frame) };
                        (record(&frame, bytes), front)
                    }
                    Found::Large(frame, range) => {
                        // SAFETY: as in `take`; `aux_tail` moves with the tail.
                        let bytes = unsafe { self.map.pinned_range(range) };
                        (record(&frame, bytes), front)
                    }
                    Found::Lost(lost) => (Item::Lost(lost), front),
                }))
            }
            Cursor::Guarded { reader, body } => guarded::take(reader, body, &self.map),
            Cursor::Copied { observer, unsaved, hold } => {
                if *unsaved >= ring.data_size() / 8 && !*hold {
                    observer.save(ring);
                    *unsaved = 0;
                }
                let taken = observer.take(ring, self.map.aux());
                let taken = taken.map_err(|corrupt| self.map.tell(corrupt))?;
                Ok(taken.map(|(seen, front)| {
                    let (item, size) = item_of(seen);
                    *unsaved = unsaved.saturating_add(size);
                    (item, front)
                }))
            }
        }
    }

    /// The place after everything that was read.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Mark {
        match &self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => reader.mark(),
            Cursor::Copied { observer, .. } => observer.mark(),
        }
    }

    /// Hands back, or saves, everything before a mark: the producer gets the space, and a restart
    /// goes on after it. A mark that is not after the last one, or not of a place that was read,
    /// does nothing.
    pub fn release_to(&mut self, mark: &Mark) {
        let ring = self.map.ring();
        match &mut self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => {
                if reader.release_to(ring, mark) {
                    futex::wake(ring.space_word());
                }
            }
            Cursor::Copied { observer, unsaved, .. } => {
                if mark.pos <= observer.mark().pos {
                    observer.save_mark(ring, mark);
                    *unsaved = 0;
                }
            }
        }
    }

    /// How full the ring is now.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let ring = self.map.ring();
        let (head, size) = (ring.head(), ring.data_size());
        let unread = head.saturating_sub(self.cursor()).min(size);
        let held = match &self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => reader.held(),
            Cursor::Copied { .. } => 0,
        };
        Fill { unread, held, size }
    }

    /// Whether a producer is attached, so that there may be more.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        // What a dead one left open comes once it is recovered, see `tend`.
        let many = self.ring.layout.producers == Producers::Many;
        Ok(has_producer(&self.ring)? || (many && self.map.shared().lags()))
    }
}

impl MappedObserver {
    /// Looks how far the producer is, if what was copied is read. Returns what is next.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn look(&mut self) -> Result<Front, Corrupt> {
        self.observer.look(self.map.ring()).map_err(|corrupt| self.map.tell(corrupt))
    }

    /// As [`MappedObserver::read`], and says what is next of what was copied.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, Corrupt> {
        let taken = self.observer.take(self.map.ring(), self.map.aux());
        let taken = taken.map_err(|corrupt| self.map.tell(corrupt))?;
        Ok(taken.map(|(seen, front)| (item_of(seen).0, front)))
    }

    /// The place after everything that was read.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Mark {
        self.observer.mark()
    }

    /// How full the ring is now: an observer of an overwrite ring is lapped when it has a whole
    /// ring unread.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let ring = self.map.ring();
        let (head, size) = (ring.head(), ring.data_size());
        Fill { unread: head.saturating_sub(self.observer.mark().pos).min(size), held: 0, size }
    }

    /// Whether a producer is attached, so that there may be more.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        has_producer(&self.ring)
    }
}

fn has_producer(ring: &RingFile) -> Result<bool, AttachError> {
    let slots = match ring.layout.producers {
        Producers::One => 1,
        Producers::Many => ring.layout.slots,
    };
    for slot in 0..slots {
        if ring.is_held(Place::Producer(slot))? {
            return Ok(true);
        }
    }
    Ok(false)
}
