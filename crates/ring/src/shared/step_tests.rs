//! The number of records that one hold of the lock, and one advance, pass: counted, not timed. Also walks without the lock
//! that are overtaken in the middle.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use crate::heap::{HeapRing, fill};
use crate::observer::intact::RingCopy;
use crate::shared::cpu::{Sequence, close, section};
use crate::shared::owner::recover;
use crate::shared::publish::SharedWriter;
use crate::shared::sweep::STEPS;
use crate::{Fences, OwnerInfo, Reader, Reserved, RingTotals, System, Wake, steps};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Evict, Policy, RecordType, RecordWord};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const KIND: RecordType = RecordType::BYTES;
const PRODUCERS: u32 = 3;
/// The limit for a ring of any size: a few pieces of work, of at most [`STEPS`] records each.
const MOST: u64 = 12 * STEPS as u64;

/// Slots of the dead, as bits.
#[derive(Default)]
struct Dead(Cell<u64>);

impl System for Dead {
    fn is_alive(&self, slot: u32) -> bool {
        self.0.get() >> slot & 1 == 0
    }
    fn relax(&self, _round: u32) {}
    fn now_ns(&self) -> u64 {
        1
    }
}

struct World {
    heap: HeapRing,
    dead: Dead,
    most: u64,
}

impl World {
    fn new(size: u64, policy: Policy, evict: Evict) -> Self {
        let heap = HeapRing::new(size, policy).unwrap().evict(evict).many(PRODUCERS);
        World { heap, dead: Dead::default(), most: 0 }
    }

    fn attach(&mut self, slot: u32) -> SharedWriter {
        self.dead.0.set(self.dead.0.get() & !(1 << slot));
        let (at, layout, who) = (self.heap.shared(), self.heap.layout(), OwnerInfo::default());
        let writer =
            SharedWriter::attach(at, layout, Fences::Full, slot, &who, &self.dead, |_| false);
        self.check("attach");
        writer.unwrap()
    }

    fn publish(&mut self, writer: &mut SharedWriter, len: usize) -> bool {
        let (at, wake) = (self.heap.shared(), Wake::Auto);
        let done = writer.publish(at, &self.dead, KIND, len, None, wake, |_| {});
        if let Err(refusal) = done {
            let _ = writer.refuse(at, refusal, len);
        }
        self.check("publish");
        done.is_ok()
    }

    fn reserve(&mut self, writer: &mut SharedWriter) -> Option<Reserved> {
        let reserved = writer.reserve(self.heap.shared(), &self.dead, KIND, 24, 0).ok();
        self.check("reserve");
        reserved
    }

    fn check(&mut self, what: &str) {
        let most = steps::most_locked();
        assert!(most <= MOST, "{what}: {most} records under the lock");
        self.most = self.most.max(most);
    }

    /// Kills a producer under the lock: the running totals are unknown after that.
    fn dies_locked(&self, writer: &mut SharedWriter) {
        let (at, die) = (self.heap.shared(), |_: &Reserved| resume_unwind(Box::new(())));
        let life = || writer.publish(at, &self.dead, KIND, 8, None, Wake::No, die);
        assert!(catch_unwind(AssertUnwindSafe(life)).is_err());
    }

    /// Returns whether the running totals are known.
    fn has_counted(&self) -> bool {
        self.heap.header().shared.running_stale.load(Ordering::Relaxed) == 0
    }

    /// Checks that every written record is present or gone, to the record.
    fn balance(&self) {
        let (at, policy) = (self.heap.shared(), self.heap.layout().policy);
        let totals = RingTotals::of(at, policy, |slot| !self.dead.is_alive(slot)).unwrap();
        let gone = totals.overwritten.plus(totals.consumer.passed());
        assert_eq!(totals.producer.written, gone.plus(totals.present));
        assert!(RingCopy::of(at, policy, |_| false).is_ok());
    }
}

const SIZES: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];

#[test]
fn an_eviction_by_halves_is_as_short_in_a_large_ring() {
    for size in SIZES {
        let mut world = World::new(size, Policy::Overwrite, Evict::Half);
        let mut writer = world.attach(0);
        for record in 0..3 * size / 16 {
            assert!(world.publish(&mut writer, 8 * (record as usize % 3)));
        }
        world.balance();
    }
}

#[test]
fn counting_behind_an_open_reservation_is_done_in_short_steps() {
    for (policy, evict) in [
        (Policy::Overwrite, Evict::Exact),
        (Policy::Overwrite, Evict::Half),
        (Policy::Drop, Evict::Exact),
    ] {
        for size in SIZES {
            let mut world = World::new(size, policy, evict);
            let mut reader = Reader::attach(world.heap.ring(), Fences::Full).unwrap();
            let (mut one, mut other) = (world.attach(0), world.attach(1));
            for _ in 0..4 {
                // A ring of short records behind it, and then the next one is open at once.
                let open = world.reserve(&mut one);
                while world.publish(&mut other, 0) {}
                let next = world.reserve(&mut other);
                let at = world.heap.shared();
                let _ = open.map(|open| one.commit(at, &world.dead, open, 24, Wake::Auto));
                for _ in 0..size / 16 {
                    if policy == Policy::Drop {
                        let _ = reader.next(world.heap.ring()).unwrap();
                        let _ = reader.release(world.heap.ring());
                    }
                    world.publish(&mut other, 8);
                }
                if let Some(next) = next {
                    let _ = other.commit(world.heap.shared(), &world.dead, next, 24, Wake::Auto);
                }
                world.publish(&mut other, 200);
                world.balance();
            }
        }
    }
}

#[test]
fn what_the_dead_left_is_ended_in_short_steps() {
    for size in SIZES {
        for by in 0..3 {
            let mut world = World::new(size, Policy::Overwrite, Evict::Exact);
            let mut writers: Vec<_> = (0..PRODUCERS).map(|slot| world.attach(slot)).collect();
            // A ring of records, every second one open.
            while world.reserve(&mut writers[0]).is_some() && world.publish(&mut writers[1], 8) {}
            world.dead.0.set(1);
            writers.swap_remove(0);
            match by {
                0 => drop(world.attach(0)),
                1 => {
                    // A few at a time, when they block a publish.
                    let mut publishes = 0;
                    while world.heap.shared().held_up() == Some(0) {
                        world.publish(&mut writers[1], 8);
                        publishes += 1;
                        assert!(publishes < size);
                    }
                }
                _ => {
                    // The recovery has the slot after the last, and asks whether slot 0 is dead.
                    let recovered = recover(world.heap.shared(), 7, &world.dead).unwrap();
                    assert_eq!(recovered.swept.len(), 1);
                    world.check("recover");
                }
            }
            assert!(world.heap.shared().held_up() != Some(0));
            world.balance();
        }
    }
}

#[test]
fn after_a_death_the_records_are_counted_in_short_steps_until_all_are() {
    for size in SIZES {
        let mut world = World::new(size, Policy::Overwrite, Evict::Exact);
        let mut writer = world.attach(0);
        for _ in 0..size / 8 {
            assert!(world.publish(&mut writer, 0));
        }
        world.dies_locked(&mut writer);
        let mut writer = world.attach(0);
        for _ in 0..size / 8 {
            assert!(world.publish(&mut writer, 0));
        }
        assert!(world.has_counted(), "{size}");
        world.balance();
    }
}

/// Publishes the shortest records in sequences, until there is no more room before the limit.
fn fill_block(world: &World) {
    let word = RecordWord::of(KIND, 0);
    while section(world.heap.ring(), word, &[], None, || true) == Some(Sequence::Done) {}
}

#[test]
fn a_ring_per_cpu_is_opened_in_short_steps() {
    for (policy, evict) in [
        (Policy::Overwrite, Evict::Exact),
        (Policy::Overwrite, Evict::Half),
        (Policy::Drop, Evict::Exact),
    ] {
        for size in SIZES {
            let mut world = World::new(size, policy, evict);
            world.heap = HeapRing::new(size, policy).unwrap().evict(evict).per_cpu(PRODUCERS);
            let mut reader = Reader::attach(world.heap.ring(), Fences::Full).unwrap();
            let (mut one, mut longest) = (world.attach(0), 0);
            for round in 0..80 {
                fill_block(&world);
                close(world.heap.ring(), 0);
                if round == 40 {
                    world.dies_locked(&mut one);
                    one = world.attach(0);
                }
                let at = world.heap.shared();
                while policy == Policy::Drop && reader.next(at.ring()).unwrap().0.is_some() {}
                let _ = reader.release(at.ring());
                one.open_for_sequences(at, &world.dead, 0).unwrap();
                let header = world.heap.header();
                let block = header.cpu.limit.load(Ordering::Relaxed) - at.ring().head();
                longest = block.max(longest);
                let (most, may) = (steps::most_locked(), MOST + 2 * longest / 8);
                assert!(block <= 64 << 10 && most <= may, "{block}, {most} records under the lock");
            }
            assert!(world.has_counted());
            world.balance();
        }
    }
}

/// Another process moves the head at every thousandth record that an advance passes.
fn an_advance_ends_although(move_head: fn(u64) -> u64) {
    let heap = Arc::new(HeapRing::new(1 << 20, Policy::Drop).unwrap().many(PRODUCERS));
    let dead = Dead::default();
    let at = heap.shared();
    let join = |slot| {
        let who = OwnerInfo::default();
        SharedWriter::attach(at, heap.layout(), Fences::Full, slot, &who, &dead, |_| false).unwrap()
    };
    let (mut one, mut other) = (join(0), join(1));
    let open = one.reserve(at, &dead, KIND, 8, 0).unwrap();
    for _ in 0..(1 << 15) {
        let _ = other.publish(at, &dead, KIND, 8, None, Wake::Auto, |_| {}).unwrap();
    }
    let hostile = Arc::clone(&heap);
    steps::at_each(move |steps| {
        assert!(steps < 1 << 17, "a ring has {} records, and it goes on", 1 << 15);
        if steps % 1000 == 0 {
            let head = &hostile.header().data_head;
            head.store(move_head(head.load(Ordering::SeqCst)), Ordering::SeqCst);
        }
    });
    let _ = one.commit(at, &dead, open, 8, Wake::Auto);
}

#[test]
fn an_advance_ends_although_the_head_is_set_back() {
    an_advance_ends_although(|_| 0);
}

#[test]
fn an_advance_ends_although_the_head_is_moved_on_under_it() {
    an_advance_ends_although(|head| head + 16);
}

/// A ring with a reservation of slot 0 at the head, a record, a reservation of slot 1, which stays open, and records
/// of slot 2. A walk from the head is overtaken after its first step.
struct Overtaken {
    heap: Arc<HeapRing>,
    one: (SharedWriter, Reserved),
    two: (SharedWriter, Reserved),
    three: SharedWriter,
}

impl Overtaken {
    const SIZE: u64 = 4 << 10;
    /// The positions of the walk's second record and of the reservation of slot 1.
    const SECOND: u64 = 16;
    const OPEN: u64 = 32;
    /// A slot without a producer.
    const DEAD: u32 = 3;

    fn new() -> Self {
        let heap = HeapRing::new(Self::SIZE, Policy::Overwrite).unwrap().many(Self::DEAD + 1);
        let (heap, dead) = (Arc::new(heap), Dead::default());
        let at = heap.shared();
        let join = |slot| {
            let who = OwnerInfo::default();
            SharedWriter::attach(at, heap.layout(), Fences::Full, slot, &who, &dead, |_| false)
                .unwrap()
        };
        let (mut one, mut two, mut three) = (join(0), join(1), join(2));
        let first = one.reserve(at, &dead, KIND, 8, 0).unwrap();
        let _ = two.publish(at, &dead, KIND, 8, None, Wake::No, |_| {}).unwrap();
        let open = two.reserve(at, &dead, KIND, 8, 0).unwrap();
        assert_eq!((first.pos(), open.pos()), (0, Self::OPEN));
        for _ in 0..4 {
            publish_words(&mut three, &heap, RecordWord::busy(24, Self::DEAD));
        }
        Overtaken { heap, one: (one, first), two: (two, open), three }
    }

    /// Other producers publish until the ring is full up to the open reservation. A payload that looks like the record
    /// `forged` overwrites the walk's second record.
    fn overtake(mut by: SharedWriter, heap: &HeapRing, forged: RecordWord) {
        let (at, dead) = (heap.shared(), Dead::default());
        while at.producer_pos() < Self::SIZE {
            let _ = by.publish(at, &dead, KIND, 8, None, Wake::No, |_| {}).unwrap();
        }
        publish_words(&mut by, heap, forged);
        assert_eq!(heap.ring().load(Self::SECOND), forged.raw());
        assert_eq!((at.ring().tail(), at.ring().head()), (Self::OPEN, Self::OPEN));
    }

    /// Checks that nothing has passed the open reservation, or changed the records behind it.
    fn check(heap: &HeapRing, (mut two, open): (SharedWriter, Reserved)) {
        let (at, dead) = (heap.shared(), Dead::default());
        assert_eq!(at.ring().head(), Self::OPEN);
        for record in 0..4 {
            let payload = Self::OPEN + 16 + 24 * record + 8;
            let word = RecordWord::busy(24, Self::DEAD).raw();
            assert_eq!([payload, payload + 8].map(|pos| at.ring().load(pos)), [word; 2]);
        }
        let _ = two.commit(at, &dead, open, 8, Wake::No);
        assert_eq!(at.ring().head(), at.producer_pos());
        assert!(RingCopy::of(at, Policy::Overwrite, |_| false).is_ok());
    }
}

/// Publishes a record with the same word twice as its payload.
fn publish_words(by: &mut SharedWriter, heap: &HeapRing, word: RecordWord) {
    let payload = [word.raw().to_le_bytes(); 2].concat();
    let write = |reserved: &Reserved| fill(heap.ring(), reserved, &payload);
    let _ = by.publish(heap.shared(), &Dead::default(), KIND, 16, None, Wake::No, write).unwrap();
}

#[test]
fn an_advance_that_is_overtaken_does_not_pass_what_is_open() {
    let Overtaken { heap, one: (mut one, first), two, three } = Overtaken::new();
    let (hooked, mut three) = (Arc::clone(&heap), Some(three));
    steps::at_each(move |_| {
        let Some(three) = three.take() else { return };
        Overtaken::overtake(three, &hooked, RecordWord::of(KIND, 40));
    });
    let _ = one.commit(heap.shared(), &Dead::default(), first, 8, Wake::No);
    Overtaken::check(&heap, two);
}

#[test]
fn a_recovery_that_is_overtaken_makes_no_holes_in_payloads() {
    let Overtaken { heap, one, two, three } = Overtaken::new();
    let (hooked, mut others) = (Arc::clone(&heap), Some((one, three)));
    steps::at_each(move |_| {
        let Some(((mut one, first), three)) = others.take() else { return };
        let _ = one.commit(hooked.shared(), &Dead::default(), first, 8, Wake::No);
        Overtaken::overtake(three, &hooked, RecordWord::busy(48, Overtaken::DEAD));
    });
    let dead = Dead(Cell::new(1 << Overtaken::DEAD));
    let recovered = recover(heap.shared(), 7, &dead).unwrap();
    assert_eq!(recovered.swept, []);
    Overtaken::check(&heap, two);
}
