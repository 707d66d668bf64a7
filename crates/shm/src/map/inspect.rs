//! Information from a ring's file that needs a short-lived mapping only.

use crate::file::error::{AttachError, Role};
use crate::file::liveness::is_dead;
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile, SeatId};
use crate::map::plain::Plain;
use crate::sys::clock::{boot_began_ns, boot_id};
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::Producers;
use perfring_abi::atomic::Ordering;
use perfring_ring::{
    Anchors, ConsumerFigures, MetricsFill, OwnerInfo, ProducerFigures, RingTotals, Seat,
};

impl RingFile {
    /// Returns the owner info of the seat's present or last holder.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn holder(&self, seat: SeatId) -> Result<OwnerInfo, AttachError> {
        let map = Plain::map(self)?;
        map.sure(self, map.holder(seat))
    }

    /// Returns the state of a seat's present or last holder, and its owner info.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped, or if the file system lacks these locks.
    pub fn seat(&self, seat: SeatId) -> Result<Seat, AttachError> {
        let map = Plain::map(self)?;
        let (state, owner) = map.seat(self, seat)?;
        let number = match seat {
            SeatId::Producer(number) | SeatId::Named(number) => number,
            SeatId::Consumer => 0,
        };
        map.sure(self, Seat { number, state, owner, figures: () })
    }

    /// Returns the totals; `None` if they are corrupt.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn totals(&self) -> Result<Option<RingTotals>, AttachError> {
        let map = Plain::map(self)?;
        map.sure(self, RingTotals::of(map.shared(), self.layout.policy, is_dead(self)))
    }

    /// Returns how full the ring's metrics area is, and where it is damaged.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn metrics_fill(&self) -> Result<MetricsFill, AttachError> {
        if self.layout.metrics_size == 0 {
            return Ok(MetricsFill::default());
        }
        let map = Plain::map(self)?;
        map.sure(self, map.metrics().fill())
    }

    /// Returns the wall-clock time of the newest record's timestamp, ns since 1970; `None` in a
    /// ring without time or without records so far. In a busy ring the record may be a slightly
    /// older one.
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

    /// Returns the time of the last activity that the file recorded, ns since 1970: its creation,
    /// the last attach, or the timestamp of its newest record. The clock may have been wrong at that moment: a
    /// machine sets it some time after it starts. For a ring of this boot, no time before the boot is returned.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn last_sign_of_life(&self) -> Result<u64, AttachError> {
        let map = Plain::map(self)?;
        let attached = self.seats().map(|seat| map.holder(seat).attached_ns).max();
        let timestamped = if self.layout.time { newest_wall(&map) } else { None };
        let of_this_boot = self.layout.boot_id != [0; 16] && self.layout.boot_id == boot_id();
        let began = of_this_boot.then(boot_began_ns);
        let signs = [Some(self.layout.created_ns), attached, timestamped, began];
        map.sure(self, signs.into_iter().flatten().max().unwrap_or(0))
    }

    /// Takes a seat, or returns an error that names its holder.
    pub(crate) fn take(&self, seat: SeatId) -> Result<ByteLock, AttachError> {
        let io = |source| self.io("locking its seat", source);
        let byte = self.lock_byte(seat);
        let take = || ByteLock::take(&self.file, byte).map_err(io);
        self.take_with(take)?
            .ok_or_else(|| self.read_locked((byte, 1)).unwrap_or_else(|| self.busy(seat)))
    }

    /// Returns the error for a seat that is taken.
    pub(crate) fn busy(&self, seat: SeatId) -> AttachError {
        let role = match seat {
            SeatId::Producer(_) => Role::Producer,
            SeatId::Consumer | SeatId::Named(_) => Role::Consumer,
        };
        match self.holder(seat) {
            Ok(holder) => AttachError::Busy { location: self.location.clone(), role, holder },
            Err(error) => error,
        }
    }

    /// Returns the error for a live producer that holds the ring's lock and does not continue, or did
    /// not for a while.
    pub(crate) fn held_up(&self, slot: u32) -> AttachError {
        match self.holder(SeatId::Producer(slot)) {
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

/// Opens a ring and reads its totals, also where it is so corrupt that no record can be read.
pub fn peek(location: impl Into<Location>) -> Result<(RingFile, Option<RingTotals>), AttachError> {
    let ring = RingFile::open(location.into(), FileAccess::Read)?;
    let totals = ring.totals()?;
    Ok((ring, totals))
}

/// Returns the anchors that convert timestamps to wall-clock times, as of now; none in a ring
/// without time.
pub fn anchors(ring: &RingFile) -> Result<Anchors, AttachError> {
    let map = Plain::map(ring)?;
    map.sure(ring, Anchors::read(map.ring()))
}

/// Returns the producers of a shared ring that have, or had, their slots; none of an
/// exclusive ring.
pub fn slots(ring: &RingFile) -> Result<SlotsSeen, AttachError> {
    if ring.layout.producers == Producers::One {
        return Ok(SlotsSeen::default());
    }
    let map = Plain::map(ring)?;
    let at = map.shared();
    let mut producers = perfring_ring::producer_seats(at);
    for seat in &mut producers {
        (seat.state, seat.owner) = map.seat(ring, SeatId::Producer(seat.number))?;
    }
    let line = &at.ring().header().shared;
    let held_up = at.held_up();
    // Relaxed: for display only.
    let since = line.stuck_since_ns.load(Ordering::Relaxed);
    let noted = since != 0 && line.stuck_pos.load(Ordering::Relaxed) == at.ring().head();
    let seen = SlotsSeen {
        producers,
        locked_by: at.locked_by(),
        held_up,
        held_up_since_ns: (held_up.is_some() && noted).then_some(since),
    };
    map.sure(ring, seen)
}

/// Returns the named consumers that have, or had, their seats, of a ring with these totals.
pub fn named(
    ring: &RingFile,
    totals: Option<&RingTotals>,
) -> Result<Vec<Seat<ConsumerFigures>>, AttachError> {
    let map = Plain::map(ring)?;
    let mut all = perfring_ring::consumer_seats(map.ring(), map.seats(), totals);
    for seat in &mut all {
        (seat.state, seat.owner) = map.seat(ring, SeatId::Named(seat.number))?;
    }
    map.sure(ring, all)
}

/// The producers of a shared ring as seen from outside.
#[derive(Clone, Debug, Default)]
pub struct SlotsSeen {
    /// The slots that have, or had, a producer.
    pub producers: Vec<Seat<ProducerFigures>>,
    /// The slot that holds the ring's lock at this moment.
    pub locked_by: Option<u32>,
    /// The slot whose open reservation holds up `data_head`.
    pub held_up: Option<u32>,
    /// `CLOCK_REALTIME` of the first time that another producer found it so, ns.
    pub held_up_since_ns: Option<u64>,
}
