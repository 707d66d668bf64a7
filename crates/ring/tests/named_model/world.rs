//! A ring with named consumers beside a list of everything that was ever published.

use super::consumers::{Dead, Seat, Watcher};
use crate::model::told;
use perfring_abi::{Cause, LOST_SIZE, RecordType, Report, record_size};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    Count, End, Fences, Lost, Next, OwnerInfo, Place, Refusal, Refused, RingTotals, SharedWriter,
    Start, Wake, Writer, drop_dead,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many refusals at one tail are between two searches for dead consumers.
const SEARCH_EVERY: u32 = 256;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Publish {
        who: u32,
        len: usize,
    },
    Discard {
        who: u32,
        len: usize,
    },
    Insist {
        who: u32,
        times: u32,
    },
    ProducerDies {
        who: u32,
    },
    Open {
        seat: u32,
        renamed: bool,
    },
    Read {
        seat: u32,
        times: u8,
    },
    Release {
        seat: u32,
    },
    Close {
        seat: u32,
    },
    Die {
        seat: u32,
    },
    /// Between the totals and the tail.
    DieBeforeTail {
        seat: u32,
    },
    /// With its tail stored, and nothing else; or long ago, where the tail was then.
    DieJoining {
        seat: u32,
        late: bool,
    },
    Recover,
    Watch {
        who: u8,
        start: Start,
    },
    Observe {
        who: u8,
        times: u8,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) size: u64,
    pub(crate) seats: u32,
    /// Producers of a shared ring, or 0 for one of an exclusive ring.
    pub(crate) many: u32,
    pub(crate) report: Report,
    pub(crate) ops: Vec<Op>,
}

/// What the test counted, for its last line.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) written: Cell<u64>,
    pub(crate) full: Cell<u64>,
    pub(crate) too_large: Cell<u64>,
    pub(crate) markers: Cell<u64>,
    pub(crate) read: Cell<u64>,
    pub(crate) missed: Cell<u64>,
    pub(crate) deaths: Cell<u64>,
    pub(crate) dropped: Cell<u64>,
    pub(crate) observed: Cell<u64>,
    pub(crate) lapped: Cell<u64>,
}

impl Tally {
    /// Each of them must have happened.
    pub(crate) fn assert_all(&self) {
        let all = [&self.written, &self.full, &self.too_large, &self.markers, &self.read];
        let rest = [&self.missed, &self.deaths, &self.dropped, &self.observed, &self.lapped];
        assert!(all.iter().chain(&rest).all(|cell| cell.get() > 0), "{self:?}");
    }
}

pub(crate) fn tick(cell: &Cell<u64>, by: u64) {
    cell.set(cell.get() + by);
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Data(RecordType, Vec<u8>),
    Hole,
    Lost(Lost),
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) size: u64,
    pub(crate) kind: Kind,
}

enum Real {
    One(Box<Writer>),
    Many(Box<SharedWriter>),
}

struct Producer {
    real: Real,
    unreported: Refused,
    /// The tail of its last search for the dead, and how many refusals there are left at it.
    searched: (u64, u32),
}

pub(crate) struct World<'a> {
    pub(crate) heap: &'a HeapRing,
    case: &'a Case,
    pub(crate) tally: &'a Tally,
    /// Everything that was ever published, by position.
    pub(crate) items: BTreeMap<u64, Item>,
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) refused: Refused,
    producers: Vec<Producer>,
    pub(crate) seats: Vec<Seat>,
    pub(crate) dead: Dead,
    pub(crate) watchers: BTreeMap<u8, Watcher>,
    next_id: u64,
}

impl<'a> World<'a> {
    pub(crate) fn new(heap: &'a HeapRing, case: &'a Case, tally: &'a Tally) -> Self {
        let mut world = World {
            heap,
            case,
            tally,
            items: BTreeMap::new(),
            head: 0,
            tail: 0,
            refused: Refused::default(),
            producers: Vec::new(),
            seats: (0..case.seats).map(|_| Seat::default()).collect(),
            dead: Dead::all(case.seats),
            watchers: BTreeMap::new(),
            next_id: 1,
        };
        for who in 0..case.many.max(1) {
            let producer = world.attach(who, Refused::default());
            world.producers.push(producer);
        }
        world
    }

    fn attach(&self, who: u32, unreported: Refused) -> Producer {
        let (ring, layout) = (self.heap.ring(), self.heap.layout());
        let real = match self.case.many {
            0 => {
                let writer = Writer::attach(ring, layout, Fences::Full).unwrap();
                Real::One(Box::new(writer.with_consumers(Arc::new(self.dead.clone()))))
            }
            _ => {
                let (at, nobody) = (self.heap.shared(), OwnerInfo::default());
                let writer = SharedWriter::attach(
                    at,
                    layout,
                    Fences::Full,
                    who,
                    &nobody,
                    &self.dead,
                    |_| false,
                );
                Real::Many(Box::new(writer.unwrap()))
            }
        };
        Producer { real, unreported, searched: (u64::MAX, 0) }
    }

    /// Data records in a range of positions.
    pub(crate) fn data(&self, from: u64, to: u64) -> Count {
        self.count(from, to, |kind| matches!(kind, Kind::Data(..)))
    }

    fn count(&self, from: u64, to: u64, is: impl Fn(&Kind) -> bool) -> Count {
        let mut count = Count::default();
        for item in self.items.range(from..to.max(from)).map(|(_, item)| item) {
            if is(&item.kind) {
                count = count.plus(Count { records: 1, bytes: item.size });
            }
        }
        count
    }

    pub(crate) fn is_boundary(&self, pos: u64) -> bool {
        pos == self.head || self.items.contains_key(&pos)
    }

    /// The first thing in a range that is no hole, and where it ends.
    pub(crate) fn first(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let mut found = self.items.range(from..to.max(from));
        let (pos, item) = found.find(|(_, item)| item.kind != Kind::Hole)?;
        Some((*pos, pos + item.size))
    }

    pub(crate) fn words(&self, pos: u64, count: u64) -> Vec<u64> {
        let data = self.heap.data();
        let word = |at| data[(pos / 8 + at) as usize % data.len()].load(Ordering::Relaxed);
        (0..count).map(word).collect()
    }

    pub(crate) fn assert_is(&self, found: &Next<Place>, at: u64) {
        let item = &self.items[&at];
        match found {
            Next::Record(Place::Ring(frame)) => {
                let Kind::Data(kind, bytes) = &item.kind else { panic!("no record at {at}") };
                let expected = (at, kind.get(), bytes.len(), item.size);
                assert_eq!((frame.pos, frame.kind, frame.len, frame.size), expected);
                assert_holds(&self.words(at + 8, item.size / 8 - 1), item);
            }
            Next::Lost(lost) => panic!("{lost:?} for {item:?}"),
            Next::Record(Place::Aux(..)) => panic!("without an AUX area"),
        }
    }

    fn push(&mut self, size: u64, kind: Kind) {
        self.items.insert(self.head, Item { size, kind });
        self.head += size;
    }

    /// What the markers before a position report.
    pub(crate) fn marked(&self, to: u64) -> Refused {
        let mut marked = Refused::default();
        for item in self.items.range(..to).map(|(_, item)| item) {
            if let Kind::Lost(Lost { records, bytes, cause, .. }) = item.kind {
                told::add(&mut marked, cause, Count { records, bytes });
            }
        }
        marked
    }

    /// The slowest of those that are waited for.
    fn slowest(&self) -> Option<u64> {
        self.seats.iter().filter(|seat| seat.waited_for).map(|seat| seat.tail).min()
    }

    /// Moves the tail to the slowest, as a producer does that needs it at `needed` or beyond.
    fn raise(&mut self, who: u32, needed: u64) {
        let to = |world: &Self| world.slowest().unwrap_or(0).max(world.tail);
        self.tail = to(self);
        if self.tail >= needed {
            return;
        }
        let (at, left) = &mut self.producers[who as usize].searched;
        if *at == self.tail && *left > 0 {
            *left -= 1;
        } else {
            (*at, *left) = (self.tail, SEARCH_EVERY);
            self.drop_dead();
            self.tail = to(self);
        }
    }

    /// Drops those that are dead, if the slowest is.
    fn drop_dead(&mut self) {
        let slowest = self.slowest();
        let holds_up = |seat: &Seat| seat.waited_for && Some(seat.tail) == slowest;
        if self.seats.iter().any(|seat| holds_up(seat) && seat.real.is_none()) {
            for seat in self.seats.iter_mut().filter(|seat| seat.real.is_none()) {
                tick(&self.tally.dropped, u64::from(seat.waited_for));
                seat.waited_for = false;
            }
        }
    }

    /// Makes what a producer does of `len` bytes: publishes them, or has a reservation discarded.
    fn publish(&mut self, who: u32, len: usize, discarded: bool) -> Result<(), Refusal> {
        let id = self.next_id;
        let (kind, bytes) = (kind_of(id), payload(id, len));
        let real = self.write(who, kind, &bytes, discarded);
        let size = record_size(len);
        let max = self.case.size as usize - 16;
        let mut markers = self.due_markers(who);
        if markers.len() as u64 * u64::from(LOST_SIZE) + size >= self.case.size {
            markers.clear();
        }
        let end = self.head + markers.len() as u64 * u64::from(LOST_SIZE) + size;
        let expected = if len > max {
            Err(Refusal::TooLarge { max })
        } else {
            let needed = end.saturating_sub(self.case.size - 1);
            if self.tail < needed {
                self.raise(who, needed);
            }
            if self.tail < needed { Err(Refusal::Full) } else { Ok(()) }
        };
        assert_eq!(real, expected, "{len} bytes at {}, tail {}", self.head, self.tail);
        if let Err(refusal) = expected {
            self.refuse(who, refusal, len);
            return Err(refusal);
        }
        for mut lost in markers {
            lost.pos = self.head;
            tick(&self.tally.markers, 1);
            let unreported = cause_of(&mut self.producers[who as usize].unreported, lost.cause);
            *unreported = Count::default();
            self.push(LOST_SIZE.into(), Kind::Lost(lost));
        }
        self.next_id += 1;
        tick(&self.tally.written, u64::from(!discarded));
        self.push(size, if discarded { Kind::Hole } else { Kind::Data(kind, bytes) });
        Ok(())
    }

    fn write(
        &mut self,
        who: u32,
        kind: RecordType,
        bytes: &[u8],
        discarded: bool,
    ) -> Result<(), Refusal> {
        let (ring, at, len) = (self.heap.ring(), self.heap.shared(), bytes.len());
        match &mut self.producers[who as usize].real {
            Real::One(writer) => {
                let reserved = writer.reserve(ring, kind, len, 0)?;
                if discarded {
                    writer.discard(ring, reserved);
                    let _ = writer.publish(ring, Wake::Auto);
                } else {
                    writer.fill(ring, &reserved, bytes);
                    let _ = writer.end(ring, reserved, len, End::Publish(Wake::Auto));
                }
            }
            Real::Many(writer) => {
                let reserved = writer.reserve(at, &self.dead, kind, len, 0)?;
                if discarded {
                    let _ = writer.discard(at, &self.dead, reserved);
                } else {
                    writer.fill(at, &reserved, bytes);
                    let _ = writer.commit(at, &self.dead, reserved, len, Wake::Auto);
                }
            }
        }
        Ok(())
    }

    /// The markers that come before the producer's next record, one for each cause.
    fn due_markers(&mut self, who: u32) -> Vec<Lost> {
        if self.case.report == Report::CountersOnly {
            return Vec::new();
        }
        let unreported = &mut self.producers[who as usize].unreported;
        let due = |cause| {
            let Count { records, bytes } = *cause_of(unreported, cause);
            (records != 0).then_some(Lost { pos: 0, records, bytes, cause, at_end: false })
        };
        [Cause::Full, Cause::TooLarge].into_iter().filter_map(due).collect()
    }

    fn refuse(&mut self, who: u32, refusal: Refusal, len: usize) {
        let producer = &mut self.producers[who as usize];
        let _ = match &mut producer.real {
            Real::One(writer) => writer.refuse(self.heap.ring(), refusal, len),
            Real::Many(writer) => writer.refuse(self.heap.shared(), refusal, len),
        };
        let (cause, tally) = match refusal {
            Refusal::Full => (Cause::Full, &self.tally.full),
            Refusal::TooLarge { .. } => (Cause::TooLarge, &self.tally.too_large),
            other => panic!("nobody does damage here: {other:?}"),
        };
        tick(tally, 1);
        for counts in [&mut self.refused, &mut producer.unreported] {
            let count = cause_of(counts, cause);
            *count = count.plus(Count { records: 1, bytes: record_size(len) });
        }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Publish { who, len } => drop(self.publish(who, len, false)),
            Op::Discard { who, len } => drop(self.publish(who, len, true)),
            Op::Insist { who, times } => {
                let len = self.case.size as usize / 4;
                for _ in 0..times {
                    let _ = self.publish(who, len, false);
                }
            }
            Op::ProducerDies { who } => {
                let unreported = self.producers[who as usize].unreported;
                self.producers[who as usize] = self.attach(who, unreported);
                tick(&self.tally.deaths, 1);
            }
            Op::Open { seat, renamed } => self.open(seat, renamed),
            Op::Read { seat, times } => {
                for _ in 0..times {
                    self.read(seat);
                }
            }
            Op::Release { seat } => self.release(seat),
            Op::Close { seat } => self.close(seat),
            Op::Die { seat } => self.die(seat),
            Op::DieBeforeTail { seat } => self.die_before_tail(seat),
            Op::DieJoining { seat, late } => self.die_joining(seat, late),
            Op::Recover => {
                drop_dead(self.heap.ring(), |seat| self.dead.is_dead(seat));
                for seat in self.seats.iter_mut().filter(|seat| seat.real.is_none()) {
                    tick(&self.tally.dropped, u64::from(seat.waited_for));
                    seat.waited_for = false;
                }
            }
            Op::Watch { who, start } => self.watch(who, start),
            Op::Observe { who, times } => {
                for _ in 0..times {
                    self.observe(who);
                }
            }
        }
    }

    pub(crate) fn check(&self) {
        let ring = self.heap.ring();
        assert_eq!((ring.head(), ring.tail()), (self.head, self.tail));
        assert!(self.head - self.tail < self.case.size, "never quite full");
        assert_eq!(ring.header().tail_next.load(Ordering::Relaxed), self.tail);
        let totals = RingTotals::of(self.heap.shared(), self.heap.layout().policy, |_| false);
        let totals = totals.unwrap();
        let (written, before) = (self.data(0, self.head), self.data(0, self.tail));
        assert_eq!((totals.producer.pos, totals.producer.written), (self.head, written));
        assert_eq!(totals.producer.refused, self.refused);
        assert_eq!(totals.consumer.read, before);
        assert_eq!(totals.present, self.data(self.tail, self.head), "written = read + present");
        self.check_seats();
    }
}

fn cause_of(refused: &mut Refused, cause: Cause) -> &mut Count {
    match cause {
        Cause::Full => &mut refused.full,
        Cause::TooLarge => &mut refused.too_large,
        other => panic!("no producer refuses for {other:?} here"),
    }
}

fn kind_of(id: u64) -> RecordType {
    RecordType::new(64 + (id % 5000) as u32).unwrap()
}

fn payload(id: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (id.wrapping_mul(131) + at * 7 + 1) as u8).collect()
}

pub(crate) fn assert_holds(words: &[u64], item: &Item) {
    let Kind::Data(_, bytes) = &item.kind else { panic!("no record") };
    let got: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert_eq!(&got[..bytes.len()], &bytes[..], "a torn record");
}
