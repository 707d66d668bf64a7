//! Observers: the whole file mapped read-only, every record copied.

use crate::file::error::AttachError;
use crate::file::home::Home;
use crate::file::open::{Access, Place, RingFile};
use crate::file::peers::is_dead;
use crate::guarded::Guard;
use crate::map::plain::Plain;
use crate::reader::{Item, Record};
use bytemuck::cast_slice;
use perfring_abi::{Layout, Producers};
use perfring_ring::{
    Anchors, Corrupt, Count, Frame, Observer, Saved, Seen, SlotFigures, Snapshot, Start, Totals,
    TypeTable, Who,
};

/// A read-only view of a ring, dead or alive, with a cursor of its own.
#[derive(Debug)]
pub struct MappedObserver {
    pub(crate) map: Plain,
    pub(crate) ring: RingFile,
    pub(crate) observer: Observer,
}

impl MappedObserver {
    /// Opens a ring to look at it. Nobody can tell.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn open(home: impl Into<Home>, start: Start) -> Result<Self, AttachError> {
        Self::open_guarded(home, start, Guard::Never)
    }

    /// The same, of a ring whose producers need not be trusted: an observer copies in any case; with
    /// [`Guard::Always`] it takes no more memory than that says either, and survives a file that is
    /// cut short.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Unguarded`].
    pub fn open_guarded(
        home: impl Into<Home>,
        start: Start,
        guard: Guard,
    ) -> Result<Self, AttachError> {
        let ring = RingFile::open(home.into(), Access::Read)?;
        guard.prepare(&ring)?;
        let map = Plain::map(&ring)?;
        let observer = Observer::new(map.ring(), ring.layout.policy, start)
            .map_err(|source| ring.corrupt(map.tell(source)))?
            .with_time(ring.layout.time)
            .with_aux(ring.layout.aux_size);
        Ok(MappedObserver { map, ring, observer })
    }

    /// The type table: what `perfring_types` makes types of.
    #[must_use]
    pub fn types(&self) -> TypeTable<'_> {
        self.map.types()
    }

    /// The books of a ring, without the means to read its records: also of one so damaged that
    /// nothing can be read.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn peek(home: impl Into<Home>) -> Result<(RingFile, Option<Totals>), AttachError> {
        let (ring, map) = Plain::open(home.into())?;
        let totals =
            map.sure(&ring, Totals::of(map.shared(), ring.layout.policy, is_dead(&ring)))?;
        Ok((ring, totals))
    }

    /// The producers of a shared ring, dead and alive, that still have their slots; of any other
    /// nobody.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn slots(ring: &RingFile) -> Result<SlotsSeen, AttachError> {
        if ring.layout.producers == Producers::One {
            return Ok(SlotsSeen::default());
        }
        let map = Plain::map(ring)?;
        let (at, is_dead) = (map.shared(), is_dead(ring));
        let figures: Vec<_> = SlotFigures::all(at)
            .into_iter()
            .map(|figures| (!is_dead(figures.slot), figures))
            .collect();
        let line = &at.ring().header().shared;
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let held_up = at.held_up();
        let since = line.stuck_since_ns.load(relaxed);
        let noted = since != 0 && line.stuck_pos.load(relaxed) == at.ring().head();
        let seen = SlotsSeen {
            figures,
            locked_by: at.locked_by(),
            held_up,
            held_up_since_ns: (held_up.is_some() && noted).then_some(since),
        };
        map.sure(ring, seen)
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// The ring's shape.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.ring.layout
    }

    /// The next item, or `None` if there is none now. `before_look` is called with the cursor when
    /// all that was copied has been read: the place to keep a distance.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn read(&mut self, before_look: impl FnOnce(u64)) -> Result<Option<Item<'_>>, Corrupt> {
        if self.observer.must_look() {
            before_look(self.observer.saved().pos);
        }
        match self.observer.next_in(self.map.ring(), self.map.aux()) {
            Ok(seen) => Ok(seen.map(|seen| item_of(seen).0)),
            Err(corrupt) => Err(self.map.tell(corrupt)),
        }
    }

    /// Whether the next call of [`MappedObserver::read`] may find something.
    #[must_use]
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.map.ring().head() != self.observer.saved().pos
    }

    /// Where this observer would go on.
    #[must_use]
    pub fn saved(&self) -> Saved {
        self.observer.saved()
    }

    /// Records that were gone before this observer came to them.
    #[must_use]
    pub fn lapped(&self) -> Count {
        self.observer.lapped()
    }

    /// A copy of everything intact.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn snapshot(&self) -> Result<Snapshot, Corrupt> {
        Snapshot::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
            .and_then(|snapshot| {
                let snapshot = snapshot.with_time(self.ring.layout.time);
                snapshot.with_aux(self.map.ring(), self.map.aux())
            })
            .map_err(|corrupt| self.map.tell(corrupt))
            // What was cut short while it was copied may look whole.
            .and_then(|snapshot| if self.map.is_cut() { Err(Corrupt::CUT) } else { Ok(snapshot) })
    }

    /// The ring's books.
    #[must_use]
    pub fn totals(&self) -> Option<Totals> {
        Totals::of(self.map.shared(), self.ring.layout.policy, is_dead(&self.ring))
    }

    /// What tells wall-clock times of stamps, as of now. None in a ring without time.
    #[must_use]
    pub fn anchors(&self) -> Anchors {
        Anchors::read(self.map.ring())
    }

    /// Those of an open file.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn anchors_of(ring: &RingFile) -> Result<Anchors, AttachError> {
        let map = Plain::map(ring)?;
        map.sure(ring, Anchors::read(map.ring()))
    }

    /// Who holds a place, or held it last.
    #[must_use]
    pub fn holder(&self, place: Place) -> Who {
        self.map.holder(place)
    }
}

/// What can be seen of a shared ring's producers.
#[derive(Clone, Debug, Default)]
pub struct SlotsSeen {
    /// Whether each lives, and its figures.
    pub figures: Vec<(bool, SlotFigures)>,
    /// Who holds the ring's lock at this moment.
    pub locked_by: Option<u32>,
    /// Whose open reservation `data_head` stands before.
    pub held_up: Option<u32>,
    /// `CLOCK_REALTIME` of the first time that another producer found it so, ns.
    pub held_up_since_ns: Option<u64>,
}

/// An observer's find as an item, and the bytes that it takes in the ring.
#[inline]
pub(crate) fn item_of(seen: Seen<'_>) -> (Item<'_>, u64) {
    match seen {
        Seen::Record(frame, words) => {
            let bytes = bytes_of(words, frame.len);
            let Frame { pos, kind, size, time, .. } = frame;
            (Item::Record(Record { pos, kind, bytes, time }), size)
        }
        Seen::Lost(lost) => (Item::Lost(lost), lost.bytes.max(1)),
    }
}

/// The first `len` bytes of copied words.
#[must_use]
#[inline]
pub fn bytes_of(words: &[u64], len: usize) -> &[u8] {
    let bytes = cast_slice::<u64, u8>(words);
    // A record's words hold its payload; a length beyond them cannot come from the algorithm.
    bytes.get(..len).unwrap_or(bytes)
}
