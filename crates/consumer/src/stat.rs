//! A ring's figures as seen from outside, and who has its seats.

use perfring_abi::{Layout, Producers};
use perfring_ring::{Anchors, ConsumerTotals, Count, RingTotals, SeatFigures};
pub use perfring_ring::{OwnerInfo, SeatState, SlotFigures};
use perfring_shm::{AttachError, Location, RingFile, Seat, SlotsSeen, anchors, named, peek, slots};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The holder of a seat, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Whether a live process holds the seat, according to the kernel's locks.
    pub alive: bool,
    /// How the holder is, or how the last one ended.
    pub state: SeatState,
    /// The process that took it last; hints.
    pub owner: OwnerInfo,
}

/// One of the producers of a shared ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Whether it is alive, according to the kernel's locks.
    pub alive: bool,
    /// How it is, or how it ended.
    pub state: SeatState,
    /// Its owner info and totals.
    pub figures: SlotFigures,
}

/// A named consumer, which the producers wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedConsumer {
    /// The number of its seat.
    pub seat: u32,
    /// Whether it is alive, according to the kernel's locks.
    pub alive: bool,
    /// How it is, or how it ended.
    pub state: SeatState,
    /// Whether the producers wait for it: since it attached, until it detaches or is found dead.
    pub waited_for: bool,
    /// Whether nobody that is waited for is behind it: a full ring waits for this one.
    pub slowest: bool,
    /// The process that has the seat, or had it last.
    pub owner: OwnerInfo,
    /// What it has released, and what it missed.
    pub totals: ConsumerTotals,
    /// What it has still to release, or what is beyond it if it is not waited for.
    pub unread: Count,
}

impl NamedConsumer {
    fn all(seen: Vec<(SeatState, SeatFigures)>, totals: Option<&RingTotals>) -> Vec<Self> {
        let waited_for = seen.iter().filter(|(_, figures)| figures.waited_for);
        let least = waited_for.map(|(_, figures)| figures.totals.pos).min();
        let consumer = |(state, figures): (SeatState, SeatFigures)| {
            let SeatFigures { seat, owner, waited_for, totals: own } = figures;
            let unread = totals.map_or(Count::default(), |totals| {
                let passed = own.read.plus(own.lapped);
                let records = totals.producer.written.since(passed).records;
                Count { records, bytes: totals.head.saturating_sub(own.pos) }
            });
            let slowest = waited_for && Some(own.pos) == least;
            let alive = state == SeatState::Alive;
            NamedConsumer { seat, alive, state, waited_for, slowest, owner, totals: own, unread }
        };
        seen.into_iter().map(consumer).collect()
    }
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
    /// The producer's seat; in a shared ring, that of its first slot.
    pub producer: Holding,
    /// The producers of a shared ring that have, or had, their slots, with their totals
    /// since they attached.
    pub producers: Vec<Member>,
    /// What holds a shared ring up, if anything does.
    pub held_up: Option<HeldUp>,
    /// The consumer's seat; of a ring with named consumers, nobody's.
    pub consumer: Holding,
    /// The named consumers that have, or had, their seats.
    pub consumers: Vec<NamedConsumer>,
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
        let holding = |seat| -> Result<Holding, AttachError> {
            let (state, owner) = file.seat(seat)?;
            Ok(Holding { alive: state == SeatState::Alive, state, owner })
        };
        let seen = slots(file)?;
        let held_up = HeldUp::find(file, &seen)?;
        let consumers = NamedConsumer::all(named(file)?, totals.as_ref());
        let member = |(state, figures)| Member { alive: state == SeatState::Alive, state, figures };
        Ok(Stat {
            layout: *file.layout(),
            totals,
            anchors: anchors(file)?,
            producer: holding(Seat::Producer(0))?,
            producers: seen.figures.into_iter().map(member).collect(),
            held_up,
            consumer: holding(Seat::Consumer)?,
            consumers,
        })
    }

    /// Returns a number that rises whenever a producer attaches: with the ring's `uuid`, it shows
    /// that a producer has restarted.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        match self.layout.producers {
            Producers::One => self.producer.owner.epoch,
            Producers::Many | Producers::Cpu => {
                let epochs = self.producers.iter().map(|member| member.figures.owner.epoch);
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
            let figures = seen.figures.iter().find(|(_, figures)| figures.slot == slot);
            figures.map(|(_, figures)| (figures.written, figures.discarded))
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
                    alive: file.is_held(Seat::Producer(slot))?,
                    since: noted.max(since.elapsed()),
                    locked: locked.is_some(),
                }));
            }
            std::thread::sleep(POLL / 4);
        }
        Ok(None)
    }
}
