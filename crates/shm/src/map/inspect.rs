//! What a look into a ring's file tells, that maps it for no longer.

use crate::file::error::{AttachError, Role};
use crate::file::liveness::is_dead;
use crate::file::location::Location;
use crate::file::open::{Access, RingFile, Seat};
use crate::map::plain::Plain;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::Producers;
use perfring_abi::atomic::Ordering;
use perfring_ring::{Anchors, OwnerInfo, RingTotals, SlotFigures};

impl RingFile {
    /// Who holds the place, or held it last.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn holder(&self, seat: Seat) -> Result<OwnerInfo, AttachError> {
        let map = Plain::map(self)?;
        map.sure(self, map.holder(seat))
    }

    /// The books; `None` if they are damaged.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn totals(&self) -> Result<Option<RingTotals>, AttachError> {
        let map = Plain::map(self)?;
        map.sure(self, RingTotals::of(map.shared(), self.layout.policy, is_dead(self)))
    }

    /// The wall-clock time of the newest record's stamp, ns since 1970: `None` in a ring without time,
    /// or without records so far. Of a busy ring perhaps that of a record some time before.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn newest_wall(&self) -> Result<Option<u64>, AttachError> {
        if !self.layout.time {
            return Ok(None);
        }
        let map = Plain::map(self)?;
        map.sure(self, newest_wall(&map))
    }

    /// The last sign of life that the file has kept, ns since 1970: when it was made, when somebody
    /// last attached, the stamp of its newest record.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn last_sign_of_life(&self) -> Result<u64, AttachError> {
        let map = Plain::map(self)?;
        let attached = self.seats().map(|seat| map.holder(seat).attached_ns).max();
        let timestamped = if self.layout.time { newest_wall(&map) } else { None };
        map.sure(
            self,
            self.layout.created_ns.max(attached.unwrap_or(0)).max(timestamped.unwrap_or(0)),
        )
    }

    /// Takes a place, or says who has it.
    pub(crate) fn take(&self, seat: Seat) -> Result<ByteLock, AttachError> {
        let io = |source| self.io("locking its place", source);
        let take = || ByteLock::take(&self.file, self.lock_byte(seat)).map_err(io);
        self.take_with(take)?.ok_or_else(|| self.busy(seat))
    }

    /// What to say of a place that somebody has.
    pub(crate) fn busy(&self, seat: Seat) -> AttachError {
        let role = match seat {
            Seat::Producer(_) => Role::Producer,
            Seat::Consumer => Role::Consumer,
        };
        match self.holder(seat) {
            Ok(holder) => AttachError::Busy { location: self.location.clone(), role, holder },
            Err(error) => error,
        }
    }

    /// What to say of a producer that lives, has the ring's lock, and does not go on, or did not for a
    /// while.
    pub(crate) fn held_up(&self, slot: u32) -> AttachError {
        match self.holder(Seat::Producer(slot)) {
            Ok(holder) => AttachError::HeldUp { location: self.location.clone(), slot, holder },
            Err(error) => error,
        }
    }
}

fn newest_wall(map: &Plain) -> Option<u64> {
    let ring = map.ring();
    match perfring_ring::newest_timestamp(ring) {
        0 => None,
        timestamp => Anchors::read(ring).wall(ring.head(), timestamp),
    }
}

/// Opens a ring and reads its books, also those of one so damaged that nothing can be read.
pub fn peek(location: impl Into<Location>) -> Result<(RingFile, Option<RingTotals>), AttachError> {
    let ring = RingFile::open(location.into(), Access::Read)?;
    let totals = ring.totals()?;
    Ok((ring, totals))
}

/// What tells wall-clock times of stamps, as of now. None in a ring without time.
pub fn anchors(ring: &RingFile) -> Result<Anchors, AttachError> {
    let map = Plain::map(ring)?;
    map.sure(ring, Anchors::read(map.ring()))
}

/// The producers of a shared ring, dead and alive, that still have their slots; of any other
/// nobody.
pub fn slots(ring: &RingFile) -> Result<SlotsSeen, AttachError> {
    if ring.layout.producers == Producers::One {
        return Ok(SlotsSeen::default());
    }
    let map = Plain::map(ring)?;
    let (at, is_dead) = (map.shared(), is_dead(ring));
    let figures: Vec<_> =
        SlotFigures::all(at).into_iter().map(|figures| (!is_dead(figures.slot), figures)).collect();
    let line = &at.ring().header().shared;
    let held_up = at.held_up();
    // Relaxed: figures to look at.
    let since = line.stuck_since_ns.load(Ordering::Relaxed);
    let noted = since != 0 && line.stuck_pos.load(Ordering::Relaxed) == at.ring().head();
    let seen = SlotsSeen {
        figures,
        locked_by: at.locked_by(),
        held_up,
        held_up_since_ns: (held_up.is_some() && noted).then_some(since),
    };
    map.sure(ring, seen)
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
