//! The producers of one ring per CPU, a reader and an observer, one step after the other.

use super::expected::{Expected, Kind, id, is_open, who};
use super::readers::Order;
use crate::common::{Reported, attach_at};
use perfring_abi::{Policy, RecordType};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    BatchSpan, CopyReader, Count, Reader, Refused, Reserved, Ring, Shared, SharedWriter, Start,
    recover,
};
use perfring_testkit::rng::Rng;
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

pub(super) const KIND: RecordType = RecordType::BYTES;
pub(crate) const SLOTS: u32 = 4;
/// How deep one producer is interrupted by another.
const DEEPEST: usize = 3;
/// A producer that others keep from publishing so often gives up.
pub(super) const ROUNDS: u32 = 64;

/// What happened in all cases.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) by_sequence: u64,
    pub(crate) under_lock: u64,
    pub(crate) aborted: u64,
    pub(crate) died_inside: u64,
    pub(crate) died_between: u64,
    pub(crate) died_locked: u64,
    pub(crate) opened: u64,
    pub(crate) found_open: u64,
    pub(crate) pending: u64,
    pub(crate) full: u64,
    /// Of those, the ones that needed no lock.
    pub(crate) full_still: u64,
    pub(crate) too_large: u64,
    pub(crate) ended: u64,
    pub(crate) reclaimed: u64,
    pub(crate) read: u64,
    pub(crate) seen: u64,
    pub(crate) lapped: u64,
    pub(crate) markers: u64,
    pub(crate) heirs: u64,
}

pub(super) enum What {
    One { reserved: Reserved, id: u64, time: Option<u64> },
    Batch { span: BatchSpan, records: Vec<(u64, usize)>, time: Option<u64> },
}

pub(super) struct Held {
    pub(super) slot: u32,
    pub(super) start: u64,
    pub(super) what: What,
}

/// What the producer in a slot has done without sequences since it attached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    pub(crate) written: Count,
    pub(crate) discarded: Count,
    pub(crate) refused: [Count; 4],
}

pub(crate) struct World<'a> {
    pub(crate) heap: &'a HeapRing,
    pub(crate) policy: Policy,
    pub(crate) liveness: Reported,
    pub(crate) expected: Expected,
    pub(crate) refused: [Count; 4],
    pub(crate) own: [Own; SLOTS as usize],
    pub(crate) reader: Option<Reader>,
    pub(crate) observer: CopyReader,
    pub(crate) tail: u64,
    /// The furthest position up to which room was made.
    pub(crate) room: u64,
    pub(crate) tally: &'a mut Tally,
    pub(super) read_order: Order,
    pub(super) seen_order: Order,
    /// What the consumer, and the observer, were told of refused records.
    pub(super) read_told: Refused,
    pub(super) seen_told: Refused,
    pub(super) writers: Vec<Option<SharedWriter>>,
    pub(super) open: Vec<Held>,
    pub(super) numbers: [u64; SLOTS as usize],
    clock: u64,
    pub(super) rng: Rng,
    /// Nobody reserves: the ring is mostly open.
    calm: bool,
    /// Slots whose producers are in the middle of something.
    pub(super) busy: Vec<u32>,
}

impl Tally {
    /// Everything that can happen has happened.
    pub(crate) fn has_everything(&self) {
        let all = [
            self.by_sequence,
            self.under_lock,
            self.aborted,
            self.died_inside,
            self.died_between,
            self.died_locked,
            self.opened,
            self.found_open,
            self.pending,
            self.too_large,
            self.ended,
            self.reclaimed,
            self.seen,
            self.markers,
            self.heirs,
        ];
        assert!(cfg!(miri) || !all.contains(&0), "{self:?}");
    }
}

impl<'a> World<'a> {
    pub(crate) fn new(heap: &'a HeapRing, seed: u64, tally: &'a mut Tally) -> Self {
        let policy = heap.layout().policy;
        let mut rng = Rng::new(seed);
        let mut world = World {
            heap,
            policy,
            liveness: Reported::default(),
            expected: Expected::default(),
            refused: Default::default(),
            own: Default::default(),
            reader: None,
            observer: CopyReader::new(heap.ring(), policy, Start::Oldest).unwrap(),
            tail: 0,
            room: 0,
            tally,
            read_order: Order::default(),
            seen_order: Order::default(),
            read_told: Refused::default(),
            seen_told: Refused::default(),
            writers: (0..SLOTS).map(|_| None).collect(),
            open: Vec::new(),
            numbers: Default::default(),
            clock: 0,
            calm: rng.below(2) == 0,
            rng,
            busy: Vec::new(),
        };
        world.attach_readers();
        for slot in 0..SLOTS - 1 {
            world.attach(slot);
        }
        world
    }

    pub(crate) fn ring(&self) -> Ring<'a> {
        self.heap.ring()
    }

    pub(crate) fn at(&self) -> Shared<'a> {
        self.heap.shared()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.heap.header().cpu.state.load(Relaxed) == perfring_ring::OPEN
    }

    pub(crate) fn timed(&self) -> bool {
        self.heap.layout().time
    }

    pub(super) fn size_of(&self, len: usize) -> u64 {
        self.heap.layout().record_size(len)
    }

    pub(super) fn writer(&mut self, slot: u32) -> &mut SharedWriter {
        self.writers[slot as usize].as_mut().unwrap()
    }

    pub(super) fn newest(&self) -> u64 {
        self.heap.header().shared.newest_timestamp.load(Relaxed)
    }

    /// A clock that goes back from time to time.
    pub(super) fn now(&mut self) -> u64 {
        self.clock += 1;
        16 * self.clock + self.rng.below(64)
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.rng.below(of) == 0
    }

    pub(super) fn new_id(&mut self, slot: u32) -> u64 {
        self.numbers[slot as usize] += 1;
        id(slot, self.numbers[slot as usize])
    }

    pub(super) fn len(&mut self) -> usize {
        let size = self.ring().data_size();
        match self.rng.below(40) {
            0 => self.rng.index(size as usize),
            1 => size as usize - 24 + self.rng.index(64),
            2..10 => self.rng.index(300),
            10..16 => (size / 8) as usize,
            _ => self.rng.index(60),
        }
    }

    /// A producer that is not in the middle of something.
    fn any_slot(&mut self) -> Option<u32> {
        let slot = self.rng.below(SLOTS.into()) as u32;
        let free = self.writers[slot as usize].is_some() && !self.busy.contains(&slot);
        free.then_some(slot)
    }

    pub(crate) fn step(&mut self) {
        match self.rng.below(64) {
            0 => self.recover(),
            1 => self.attach_readers(),
            2 => {
                if let Some(slot) = self.any_slot() {
                    self.detach(slot);
                }
            }
            3 => {
                if let Some(slot) = self.any_slot() {
                    self.die(slot);
                }
            }
            4..9 => {
                let slot = self.rng.below(SLOTS.into()) as u32;
                if self.writers[slot as usize].is_none() && !self.busy.contains(&slot) {
                    self.attach(slot);
                }
            }
            9..15 => self.observe(),
            15..22 => self.read(),
            22..32 => self.end_one(),
            what => {
                let Some(slot) = self.any_slot() else { return };
                self.busy.push(slot);
                match what {
                    32..39 if self.calm => self.publish(slot),
                    32..35 => self.batch(slot),
                    35..39 => self.reserve(slot),
                    _ => self.publish(slot),
                }
                assert_eq!(self.busy.pop(), Some(slot));
            }
        }
        self.check();
    }

    /// The producer is off its CPU for a while, and others run.
    pub(super) fn others_run(&mut self) {
        while self.busy.len() < DEEPEST && self.one_in(3) {
            self.step();
        }
    }

    /// Others run, or the producer dies between two steps of its own. Returns whether it lives.
    pub(super) fn lives_on(&mut self, slot: u32) -> bool {
        if self.one_in(60) {
            self.die(slot);
            self.tally.died_between += 1;
            return false;
        }
        self.others_run();
        true
    }

    fn attach(&mut self, slot: u32) {
        self.tally.heirs += u64::from(self.liveness.dead.borrow_mut().remove(&slot));
        self.own[slot as usize] = Own::default();
        let mut writer = attach_at(self.heap, &self.liveness, slot);
        writer.set_writer(who(slot).to_word());
        self.writers[slot as usize] = Some(writer);
        self.sync();
        assert!(self.expected.open().all(|(_, owner)| owner != slot), "an heir ends what was left");
    }

    pub(super) fn die(&mut self, slot: u32) {
        self.writers[slot as usize] = None;
        self.liveness.dead.borrow_mut().insert(slot);
        self.open.retain(|held| held.slot != slot);
    }

    fn detach(&mut self, slot: u32) {
        if self.open.iter().any(|held| held.slot == slot) {
            return;
        }
        let (at, heap) = (self.at(), self.heap);
        let mut writer = self.writers[slot as usize].take().unwrap();
        let _ = writer.detach(at, &self.liveness);
        let end = heap.header().shared.producer_pos.load(Relaxed).max(heap.ring().head());
        self.expected.reported_until(slot, end);
        self.room = self.room.max(end);
        self.liveness.dead.borrow_mut().insert(slot);
    }

    pub(super) fn recover(&mut self) {
        let dead = self.liveness.dead.borrow().clone();
        let left = self.expected.open().map(|(_, slot)| slot).filter(|slot| dead.contains(slot));
        let left: HashSet<_> = left.collect();
        let lock = self.at().locked_by();
        let done = recover(self.at(), 1, &self.liveness).unwrap();
        let swept: HashSet<_> = done.swept.iter().map(|(slot, _)| *slot).collect();
        assert_eq!((swept, done.lock), (left, lock));
        self.sync();
        assert!(self.expected.open().all(|(_, slot)| !dead.contains(&slot)));
    }

    /// What a dead producer left open may have been ended by anybody.
    pub(crate) fn sync(&mut self) {
        let open: Vec<_> = self.expected.open().collect();
        for (pos, slot) in open {
            let is_held = self.open.iter().any(|held| held.start == pos);
            if !is_held && !is_open(self.ring().load(pos), slot) {
                let size = self.expected.at(pos).unwrap().size;
                self.expected.ended(pos, &[(size, Kind::Reclaimed)]);
                self.tally.reclaimed += 1;
            }
        }
    }
}
