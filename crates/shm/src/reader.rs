//! The consumer on a mapping: borrowed records of a drop ring, copies of those of an overwrite
//! ring.

use crate::file::error::{AttachError, Role};
use crate::file::home::Home;
use crate::file::open::{Access, Place, RingFile};
use crate::file::peers::is_dead;
use crate::guarded::{self, Body, Guard};
use crate::map::address_range::DataAccess;
use crate::map::mirror::Mirror;
use crate::map::pages::{Pages, PagesError};
use crate::map::recover::recover_file;
use crate::observer::item_of;
use crate::sleeper::Ticket;
use crate::sys::fork::NotForChildren;
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::{Layout, Policy, Producers};
use perfring_ring::{
    Anchors, Corrupt, Count, Found, Frame, Lost, Observer, Range, Reader, TypeTable, WakeAt, Who,
};
use std::cell::Cell;
use std::time::Duration;

/// How far before its turn a line is asked for.
pub(crate) const AHEAD: u64 = 512;

/// What a consumer does with the cache lines of the records that it has read in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Writes one word of each back, unchanged, before the space goes back to the producer: the line
    /// is then its own, and the producer takes it in one step when it comes round. Between far cores
    /// several times as many records a second; between near ones a fifth to two fifths more from 256
    /// bytes to 4 KiB, and fewer from 16 KiB on (`benches/RESULTS.md`). The data area is mapped
    /// writable.
    #[default]
    HandBack,
    /// Leaves them alone: the data area is mapped read-only.
    Leave,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where its header stands in the stream.
    pub pos: u64,
    /// Its type.
    pub kind: u32,
    /// Its payload, of the exact length that was committed.
    pub bytes: &'a [u8],
    /// When it was reserved, if the ring stamps its records: ns of `CLOCK_BOOTTIME` in the initial
    /// time namespace, the same clock for all processes of the machine. In the order of the ring it
    /// never goes back, within one boot. [`Anchors`] tell the wall-clock time.
    pub time: Option<u64>,
}

impl Record<'_> {
    /// The wall-clock time of the stamp, ns since 1970: what the clock showed then. `None` if there
    /// is no stamp, or no anchor for it any more.
    #[must_use]
    pub fn wall(&self, anchors: &Anchors) -> Option<u64> {
        anchors.wall(self.pos, self.time?)
    }
}

/// What a reader comes to: a record, or the place where some are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A record.
    Record(Record<'a>),
    /// Records that are not there.
    Lost(Lost),
}

#[derive(Debug)]
pub(crate) enum Cursor {
    /// Drop: records are pinned.
    Pinned(Reader),
    /// Overwrite: records are copied, and the place is saved in the page, unless that is on hold.
    Copied { observer: Observer, unsaved: u64, hold: bool },
    /// Drop, of a producer that is not trusted: each record is copied.
    Guarded { reader: Reader, body: Box<Body> },
}

/// The one consumer of a ring, for as long as it lives.
#[derive(Debug)]
pub struct MappedReader {
    // First, so that it is dropped first: what a forked child is cut off from.
    children: NotForChildren,
    pub(crate) map: Mirror,
    pub(crate) cursor: Cursor,
    /// Where this consumer last went to sleep before something that was not published.
    lagged_at: Option<u64>,
    pub(crate) ring: RingFile,
    _lock: ByteLock,
}

impl MappedReader {
    /// Attaches as the consumer and signs with `name`. Goes on where the last consumer released,
    /// or saved itself.
    ///
    /// With [`Lines::HandBack`] the data area of a drop ring is mapped writable, but not with
    /// [`Guard::Always`].
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] while another process is attached.
    pub fn attach(
        home: impl Into<Home>,
        name: &str,
        lines: Lines,
        guard: Guard,
    ) -> Result<Self, AttachError> {
        let ring = RingFile::open(home.into(), Access::Write)?;
        let guard = guard.prepare(&ring)?;
        // Whoever copies has no business writing where others may.
        let hands =
            lines == Lines::HandBack && ring.layout.policy == Policy::Drop && guard == Guard::Never;
        let access = if hands { DataAccess::Write } else { DataAccess::Read };
        let map = Mirror::map(&ring, access)?;
        // Before the lock is taken: a child forked in between would keep it.
        let children = NotForChildren::new(map.ranges(), &ring.file);
        let lock = ring.take(Place::Consumer, Role::Consumer)?;
        let cursor = match ring.layout.policy {
            Policy::Drop => Reader::attach(map.ring(), futex::fences())
                .map(|reader| reader.with_aux(map.ring(), ring.layout.aux_size))
                .map(|reader| reader.with_time(ring.layout.time).with_hands(hands))
                .map(|reader| match guard {
                    Guard::Never | Guard::Auto => Cursor::Pinned(reader),
                    Guard::Always => Cursor::Guarded { reader, body: Box::new(Body::new()) },
                }),
            Policy::Overwrite => Observer::resume(map.ring()).map(|observer| Cursor::Copied {
                observer: observer.with_time(ring.layout.time).with_aux(ring.layout.aux_size),
                unsaved: 0,
                hold: false,
            }),
        }
        .map_err(|source| ring.corrupt(map.tell(source)))?;
        RingFile::me(name).sign(&map.ring().header().consumer_holder);
        Ok(MappedReader { children, map, cursor, lagged_at: None, ring, _lock: lock })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// Does something with the pages of the records, once.
    ///
    /// # Errors
    /// See [`PagesError`].
    pub fn set_pages(&self, pages: Pages) -> Result<(), PagesError> {
        pages.set(&self.map, &self.ring)
    }

    /// The type table: what `perfring_types` makes types of.
    #[must_use]
    pub fn types(&self) -> TypeTable<'_> {
        self.map.types()
    }

    /// Whether what it reads in a drop ring are copies: [`Guard::Always`] or [`Guard::Never`], also where
    /// it was attached with [`Guard::Auto`].
    #[must_use]
    pub fn guard(&self) -> Guard {
        match self.cursor {
            Cursor::Guarded { .. } => Guard::Always,
            Cursor::Pinned(_) | Cursor::Copied { .. } => Guard::Never,
        }
    }

    /// The ring's shape.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.ring.layout
    }

    /// The next item, or `None` if there is none now. The one before it counts as read.
    ///
    /// `before_look` is called with the cursor when everything known of has been read and the
    /// shared head must be looked at: the place to keep a distance.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline(always)]
    pub fn read(&mut self, before_look: impl FnOnce(u64)) -> Result<Option<Item<'_>>, Corrupt> {
        if let Cursor::Pinned(reader) = &mut self.cursor {
            let ring = self.map.ring();
            // What the last call returned is read, and not released yet.
            reader.hand_lines(ring);
            let mut frame = reader.next_record(ring);
            if frame.is_none() && reader.known() == 0 {
                before_look(reader.cursor());
                if reader.look_ahead(ring) {
                    frame = reader.next_record(ring);
                }
            }
            if let Some(frame) = frame {
                // Small records come faster than a core that looks at each can ask for their lines;
                // within a large one it needs no help, and is in the producer's way with more.
                if frame.size <= AHEAD && reader.known() > AHEAD {
                    self.map.prefetch(frame.pos + AHEAD);
                }
                // SAFETY: as in `read_rest`.
                let bytes = unsafe { self.map.pinned(&frame) };
                return Ok(Some(record(&frame, bytes)));
            }
        } else if let Cursor::Guarded { reader, .. } = &mut self.cursor
            && reader.known() == 0
        {
            before_look(reader.cursor());
        }
        self.read_any()
    }

    /// Shows `visit` all that is there now: what is published when it looks, once. Each item counts
    /// as read when `visit` returns. Returns how many there were. `before_look` as for
    /// [`MappedReader::read`].
    ///
    /// # Errors
    /// [`Corrupt`]; what was visited before stays read.
    #[inline(always)]
    pub fn drain(
        &mut self,
        before_look: impl FnOnce(u64),
        mut visit: impl FnMut(Item<'_>),
    ) -> Result<u64, Corrupt> {
        // Where the one look found the head.
        let (mut count, mut end) = (0, 0);
        let mut before_look = Some(before_look);
        loop {
            match &mut self.cursor {
                Cursor::Pinned(reader) => {
                    let ring = self.map.ring();
                    if before_look.is_none() && reader.cursor() >= end {
                        return Ok(count);
                    }
                    if reader.known() == 0
                        && let Some(before_look) = before_look.take()
                    {
                        reader.hand_lines(ring);
                        before_look(reader.cursor());
                        reader.look_ahead(ring);
                        end = reader.cursor() + reader.known();
                    }
                    let (map, known) = (self.map.sight(), reader.cursor() + reader.known());
                    let visit = &mut visit;
                    let show = move |frame: &Frame| {
                        if frame.size <= AHEAD && known - frame.pos > AHEAD {
                            map.prefetch(frame.pos + AHEAD);
                        }
                        // SAFETY: as in `read_rest`; the tail is not moved before the visit is over.
                        visit(record(frame, unsafe { map.pinned(frame) }));
                    };
                    let visited = if reader.is_plain() {
                        reader.visit_known::<true>(ring, show)
                    } else {
                        reader.visit_known::<false>(ring, show)
                    };
                    count += visited;
                    if visited > 0 && reader.known() == 0 {
                        continue; // to the one look, or the end
                    }
                }
                Cursor::Guarded { reader, .. } => {
                    if reader.known() == 0 {
                        if let Some(before_look) = before_look.take() {
                            reader.hand_lines(self.map.ring());
                            before_look(reader.cursor());
                            reader.look_ahead(self.map.ring());
                            end = reader.cursor() + reader.known();
                        } else if reader.cursor() >= end {
                            return Ok(count);
                        }
                    }
                }
                Cursor::Copied { observer, .. } => {
                    if observer.must_look() {
                        if let Some(before_look) = before_look.take() {
                            before_look(observer.saved().pos);
                            end = self.map.ring().head();
                        } else if observer.saved().pos >= end {
                            return Ok(count);
                        }
                    }
                }
            }
            match self.read_any()? {
                Some(item) => visit(item),
                None => return Ok(count),
            }
            count += 1;
        }
    }

    #[inline(never)]
    fn read_any(&mut self) -> Result<Option<Item<'_>>, Corrupt> {
        if let Cursor::Pinned(reader) = &mut self.cursor
            && !reader.is_plain()
            && let Some(frame) = reader.next_any(self.map.ring())
        {
            if frame.size <= AHEAD && reader.known() > AHEAD {
                self.map.prefetch(frame.pos + AHEAD);
            }
            // SAFETY: as in `read_rest`.
            let bytes = unsafe { self.map.pinned(&frame) };
            return Ok(Some(record(&frame, bytes)));
        }
        self.read_rest()
    }

    /// All that is not a record that was known of.
    #[inline(never)]
    fn read_rest(&mut self) -> Result<Option<Item<'_>>, Corrupt> {
        match &mut self.cursor {
            Cursor::Pinned(reader) => {
                let next = reader.next(self.map.ring());
                let (found, owed) = next.map_err(|corrupt| self.map.tell(corrupt))?;
                if owed {
                    futex::wake(self.map.ring().space_word());
                }
                Ok(match found {
                    Some(Found::Record(frame)) => {
                        // SAFETY: the reader found the frame before an acquired head, and moves the
                        // tail past it at the next call at the earliest, which needs `&mut self`.
                        let bytes = unsafe { self.map.pinned(&frame) };
                        Some(record(&frame, bytes))
                    }
                    Some(Found::Large(frame, range)) => {
                        // SAFETY: as above, and `aux_tail` is moved with the tail.
                        let bytes = unsafe { self.map.pinned_range(range) };
                        Some(record(&frame, bytes))
                    }
                    Some(Found::Lost(lost)) => Some(Item::Lost(lost)),
                    None => None,
                })
            }
            Cursor::Guarded { reader, body } => guarded::read(reader, body, &self.map),
            Cursor::Copied { observer, unsaved, hold } => {
                let ring = self.map.ring();
                // What the last call returned is dealt with now.
                if *unsaved >= ring.data_size() / 8 && !*hold {
                    observer.save(ring);
                    *unsaved = 0;
                }
                let seen = observer.next_in(ring, self.map.aux());
                let seen = seen.map_err(|corrupt| self.map.tell(corrupt))?;
                Ok(seen.map(|seen| {
                    let (item, size) = item_of(seen);
                    *unsaved = unsaved.saturating_add(size);
                    item
                }))
            }
        }
    }

    /// Hands back, or saves, everything that [`MappedReader::read`] returned before: the producer
    /// gets the space, and a restart goes on after it. On [`MappedReader::hold`] it does nothing.
    pub fn release(&mut self) {
        let ring = self.map.ring();
        match &mut self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => {
                if reader.release(ring) {
                    futex::wake(ring.space_word());
                }
            }
            Cursor::Copied { observer, unsaved, hold } => {
                if *unsaved > 0 && !*hold {
                    observer.save(ring);
                    *unsaved = 0;
                }
            }
        }
    }

    /// Everything that is there now, to be held together; `None` on an overwrite ring, whose
    /// records nothing pins, and with [`Guard::Always`].
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn pinned(&mut self) -> Result<Option<Pinned<'_>>, Corrupt> {
        let Cursor::Pinned(reader) = &mut self.cursor else {
            return Ok(None);
        };
        let ring = self.map.ring();
        if reader.release(ring) {
            futex::wake(ring.space_word());
        }
        reader.refresh(ring).map_err(|corrupt| self.map.tell(corrupt))?;
        let cursor = Cell::new(reader.cursor());
        let (count, last) = Default::default();
        Ok(Some(Pinned { map: &self.map, reader, cursor, count, last }))
    }

    /// Whether the next call of [`MappedReader::read`] may find something.
    #[must_use]
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.map.ring().head() != self.cursor()
    }

    /// As [`MappedReader::is_behind`], for a reader that does nothing but look: has the next
    /// record's cache lines come along with the head's.
    #[must_use]
    #[inline]
    pub fn is_behind_near(&self) -> bool {
        let next = self.cursor();
        self.map.prefetch(next);
        self.map.prefetch(next.wrapping_add(64));
        self.is_behind()
    }

    /// The position of the next record.
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> u64 {
        match &self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => reader.cursor(),
            Cursor::Copied { observer, .. } => observer.saved().pos,
        }
    }

    /// Sleeps until a producer publishes what `at` asks for, for at most `limit`. May return
    /// early; releases first.
    ///
    /// In a shared ring, what a dead producer left open is ended here, so that those who published
    /// behind it are read: nobody else may be there to do it.
    pub fn sleep(&mut self, at: WakeAt, limit: Duration) {
        if let Some(ticket) = self.prepare_sleep(at) {
            futex::sleep(self.map.ring().wait_word(), ticket.value, limit.min(ticket.most));
            self.end_sleep();
        }
    }

    /// The first part of [`MappedReader::sleep`]; the second is
    /// [`Sleeper::sleep`](crate::Sleeper::sleep), and the third
    /// [`MappedReader::end_sleep`]. `None` if there is something to read.
    pub fn prepare_sleep(&mut self, at: WakeAt) -> Option<Ticket> {
        self.release();
        let lags = self.tend();
        let ring = self.map.ring();
        let passed = match &self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => reader.passed().records,
            Cursor::Copied { observer, .. } => observer.saved().before.records,
        };
        let mut most = Duration::ZERO;
        let value = ring.prepare_sleep(self.cursor(), passed, at, || most = futex::heavy())?;
        Some(Ticket { value, most: if lags { most.min(futex::SLICE) } else { most } })
    }

    /// The last part of [`MappedReader::sleep`]: nobody of this process sleeps any more.
    pub fn end_sleep(&mut self) {
        self.map.ring().end_sleep();
    }

    /// Ends what a dead producer of a shared ring left open, if that stood there at the last call,
    /// too. Returns whether something is open before what is published.
    pub fn tend(&mut self) -> bool {
        if self.ring.layout.producers == Producers::One {
            return false;
        }
        let shared = self.map.shared();
        let lags = shared.lags();
        if lags {
            // A live producer's reservation is not seen twice at the same place; or its owner is
            // slow, and there is nothing to do about it.
            let cursor = self.cursor();
            if self.lagged_at == Some(cursor) && shared.held_up().is_none_or(is_dead(&self.ring)) {
                // It fails while a live producer is stopped with the lock: then later.
                let _ = recover_file(&self.ring);
            }
            self.lagged_at = Some(cursor);
        }
        lags
    }

    /// Records that were overwritten before this consumer, or one before it, came to them.
    #[must_use]
    pub fn lapped(&self) -> Count {
        match &self.cursor {
            Cursor::Pinned(_) | Cursor::Guarded { .. } => Count::default(),
            Cursor::Copied { observer, .. } => observer.lapped(),
        }
    }

    /// Records read since the ring was made, by this consumer and those before it.
    #[must_use]
    pub fn read_count(&self) -> Count {
        match &self.cursor {
            Cursor::Pinned(reader) | Cursor::Guarded { reader, .. } => reader.passed(),
            Cursor::Copied { observer, .. } => observer.saved().before.since(observer.lapped()),
        }
    }

    /// What tells wall-clock times of stamps, as of now. None in a ring without time.
    #[must_use]
    pub fn anchors(&self) -> Anchors {
        Anchors::read(self.map.ring())
    }

    /// Who produces, or did so last.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn producer(&self) -> Result<Who, AttachError> {
        self.ring.holder(Place::Producer(0))
    }
}

impl Drop for MappedReader {
    fn drop(&mut self) {
        if !self.children.forked() {
            self.release();
            // Of one that was armed for a descriptor: no producer is to wake who has gone.
            self.map.ring().end_sleep();
        }
    }
}

#[inline]
pub(crate) fn record<'a>(frame: &Frame, bytes: &'a [u8]) -> Item<'a> {
    Item::Record(Record { pos: frame.pos, kind: frame.kind, bytes, time: frame.time })
}

/// What a drop ring held at one moment: any number of its records can be kept at a time. When it
/// is dropped, what was taken from it is released, in one step.
#[derive(Debug)]
pub struct Pinned<'a> {
    map: &'a Mirror,
    reader: &'a mut Reader,
    cursor: Cell<u64>,
    count: Cell<Count>,
    /// The last range of the AUX area that was taken.
    last: Cell<Option<Range>>,
}

impl Pinned<'_> {
    /// The next item. It stays where it is until the whole is dropped.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn read(&self) -> Result<Option<Item<'_>>, Corrupt> {
        let found = self.reader.peek(self.map.ring(), self.cursor.get());
        let found = found.map_err(|corrupt| self.map.tell(corrupt))?;
        let Some((found, after)) = found else {
            return Ok(None);
        };
        self.cursor.set(after);
        Ok(Some(match found {
            Found::Record(frame) => {
                self.take(&frame);
                // SAFETY: found before an acquired head; the tail moves when `self` is dropped,
                // and the slice borrows `self`.
                let bytes = unsafe { self.map.pinned(&frame) };
                record(&frame, bytes)
            }
            Found::Large(frame, range) => {
                self.take(&frame);
                self.last.set(Some(range));
                // SAFETY: as above; `aux_tail` moves with the tail.
                record(&frame, unsafe { self.map.pinned_range(range) })
            }
            Found::Lost(lost) => Item::Lost(lost),
        }))
    }

    fn take(&self, frame: &Frame) {
        let count = self.count.get();
        self.count.set(Count {
            records: count.records.wrapping_add(1),
            bytes: count.bytes.wrapping_add(frame.size),
        });
    }

    /// Records taken from it so far.
    #[must_use]
    pub fn count(&self) -> Count {
        self.count.get()
    }

    /// Leaves everything unread: the next read starts where this one did.
    pub fn put_back(self) {
        self.cursor.set(self.reader.cursor());
        self.count.set(Count::default());
        self.last.set(None);
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        if let Some(range) = self.last.get() {
            self.reader.pass_range(&range);
        }
        self.reader.pass(self.cursor.get(), self.count.get());
        let ring = self.map.ring();
        if self.reader.release(ring) {
            futex::wake(ring.space_word());
        }
    }
}
