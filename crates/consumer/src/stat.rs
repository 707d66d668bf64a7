//! A ring's figures as seen from outside, and the holders of its seats: what [`Stat::read`] returns, and the parts of it.

use perfring_abi::{Layout, Producers};
use perfring_ring::{Anchors, MetricsFill};
pub use perfring_ring::{
    ConsumerFigures, ConsumerTotals, Count, OwnerInfo, ProducerFigures, ProducerTotals, Refused,
    RingTotals, Seat, SeatState,
};
use perfring_shm::{
    AttachError, Location, RingFile, SeatId, SlotsSeen, anchors, named, peek, slots,
};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The fill of a ring from the view of one of its readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Bytes that are published and that it has not read.
    pub unread: u64,
    /// Bytes that it has read and not released; 0 for a reader that copies.
    pub held: u64,
    /// The size of the data area.
    pub size: u64,
}

/// An open reservation that no younger record can pass, or a lock that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The slot of the producer.
    pub slot: u32,
    /// Whether that producer is alive: slow, or stopped. A dead one's reservation is ended by the
    /// next process that needs it, or by `perfring recover`.
    pub alive: bool,
    /// How long other producers, or the caller, have found it so, at least.
    pub since: Duration,
    /// Whether it also holds the lock, so that no producer can reserve.
    pub locked: bool,
}

/// How long a ring is observed before it counts as held up.
const POLL: Duration = Duration::from_millis(20);

/// A ring's figures at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Shape and identity.
    pub layout: Layout,
    /// The totals; `None` if the header has values that no producer leaves.
    pub totals: Option<RingTotals>,
    /// The anchors that convert timestamps to wall-clock times; none in a ring without time.
    pub anchors: Anchors,
    /// The producer's seat. In a shared ring, the seat of its first slot: see `producers`.
    pub producer: Seat,
    /// The slots of a shared ring that have, or had, a producer: each with its last producer, and the producer's counts since
    /// its attach. Empty in an exclusive ring.
    pub producers: Vec<Seat<ProducerFigures>>,
    /// The producer that holds up a shared ring, if any does.
    pub held_up: Option<HeldUp>,
    /// The consumer's seat. In a ring with named consumers it is free.
    pub consumer: Seat,
    /// The named consumers that have, or had, their seats.
    pub consumers: Vec<Seat<ConsumerFigures>>,
    /// How full the metrics area is, and where it is damaged.
    pub metrics: MetricsFill,
}

impl Stat {
    /// Reads a ring's figures. Needs read permission, and disturbs no process.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn read(location: impl Into<Location>) -> Result<Self, AttachError> {
        let (file, totals) = peek(location)?;
        Self::of(&file, totals)
    }

    pub(crate) fn of(file: &RingFile, totals: Option<RingTotals>) -> Result<Self, AttachError> {
        let seen = slots(file)?;
        Ok(Stat {
            layout: *file.layout(),
            anchors: anchors(file)?,
            producer: file.seat(SeatId::Producer(0))?,
            held_up: HeldUp::find(file, &seen)?,
            producers: seen.producers,
            consumer: file.seat(SeatId::Consumer)?,
            consumers: named(file, totals.as_ref())?,
            metrics: file.metrics_fill()?,
            totals,
        })
    }

    /// Returns a number that rises whenever a producer attaches: with the ring's `uuid`, it shows
    /// that a producer has restarted.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        match self.layout.producers {
            Producers::One => self.producer.owner.epoch,
            Producers::Many | Producers::Cpu => {
                let epochs = self.producers.iter().map(|seat| seat.owner.epoch);
                epochs.fold(0, u64::wrapping_add)
            }
        }
    }
}

impl HeldUp {
    /// A busy ring nearly always has an open reservation and a held lock. It only counts as held up
    /// if they stay for a while.
    fn find(file: &RingFile, first: &SlotsSeen) -> Result<Option<Self>, AttachError> {
        let since = Instant::now();
        let seat = |seen: &SlotsSeen, slot: u32| {
            let seat = seen.producers.iter().find(|seat| seat.number == slot);
            seat.map(|seat| (seat.figures.written, seat.figures.discarded))
        };
        // Each by itself: a producer that waits for room takes the lock for a moment now and then,
        // and that does not mean that the open reservation has ended.
        let (mut locked, mut open) = (first.locked_by, first.held_up);
        while locked.is_some() || open.is_some() {
            let now = slots(file)?;
            let stays = |slot: &u32| seat(&now, *slot) == seat(first, *slot);
            locked = locked.filter(|slot| now.locked_by == Some(*slot) && stays(slot));
            open = open.filter(|slot| now.held_up == Some(*slot) && stays(slot));
            let Some(slot) = locked.or(open) else { break };
            if since.elapsed() >= POLL {
                let noted = now.held_up_since_ns.map_or(Duration::ZERO, |then| {
                    let then = UNIX_EPOCH + Duration::from_nanos(then);
                    SystemTime::now().duration_since(then).unwrap_or_default()
                });
                return Ok(Some(HeldUp {
                    slot,
                    alive: file.is_held(SeatId::Producer(slot))?,
                    since: noted.max(since.elapsed()),
                    locked: locked.is_some(),
                }));
            }
            std::thread::sleep(POLL / 4);
        }
        Ok(None)
    }
}
