//! Any process that can write the file can corrupt it: no content of the header or of the data area
//! makes any side of a shared ring panic, loop, or report anything but damage.
#![cfg(not(loom))]

use crate::spoiled::{SIZE, STEPS, Shape, Tally, corrupt, nasty};
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{Evict, Policy, RecordType, RecordWord, Report, TAIL_MARK, producer_totals};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    BatchSpan, CopyReader, Fences, OwnerInfo, Reader, RingCopy, RingTotals, SharedWriter, Start,
    System, Wake, full_fence, recover,
};
use perfring_testkit::choices::Choices;
use perfring_testkit::nasty::{INVALID_LOCKS, LOCKS, reservations};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::every;
use std::cell::Cell;
use std::time::Instant;

/// System with made-up answers. It detects a caller that asks without end.
struct MadeUp {
    alive: fn(u32) -> bool,
    asked: Cell<u64>,
}

impl MadeUp {
    const ALL: [fn(u32) -> bool; 3] = [|_| false, |_| true, |slot| slot == 0];

    fn new(alive: fn(u32) -> bool) -> Self {
        MadeUp { alive, asked: Cell::new(0) }
    }

    fn count(&self) {
        self.asked.set(self.asked.get() + 1);
        assert!(self.asked.get() < 100 * STEPS, "it asks without end");
    }
}

impl System for MadeUp {
    fn is_alive(&self, slot: u32) -> bool {
        self.count();
        // Like the kernel's answer: the lock of a slot that does not exist cannot be taken over.
        slot > MEMBERS || (self.alive)(slot)
    }

    fn relax(&self, _round: u32) {
        self.count();
    }

    fn now_ns(&self) -> u64 {
        1_700_000_000_000_000_000
    }
}

/// Slots of the shared rings.
const MEMBERS: u32 = 2;

fn join(heap: &HeapRing, index: u32, liveness: &MadeUp) -> Option<SharedWriter> {
    let (at, who) = (heap.shared(), OwnerInfo::default());
    SharedWriter::attach(at, heap.layout(), Fences::Full, index, &who, liveness, |_| false).ok()
}

/// Valid shared rings: fresh, in use, wrapped; with open reservations, holes and losses, and with
/// the lock taken.
fn shared_shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (policy, evict, report) in [
        (Policy::Drop, Evict::Exact, Report::InStream),
        (Policy::Overwrite, Evict::Exact, Report::InStream),
        (Policy::Overwrite, Evict::Half, Report::CountersOnly),
    ] {
        let heap = HeapRing::new(SIZE, policy).unwrap().evict(evict).report(report).many(MEMBERS);
        let (at, ring) = (heap.shared(), heap.ring());
        shapes.push(Shape::of(&heap));
        let liveness = MadeUp::new(|_| true);
        let mut writers = [0, 1].map(|index| join(&heap, index, &liveness).unwrap());
        let mut reader = Reader::attach(ring, Fences::Full).unwrap();
        let mut open = None;
        for round in 0..30_usize {
            let (writer, len) = (&mut writers[round % 2], [0, 9, 24, 40, 3, 300][round % 6]);
            let reserved = if round % 3 == 0 {
                writer
                    .publish(at, &liveness, RecordType::BYTES, len, None, Wake::Auto, |_| {})
                    .map(|_| None)
            } else {
                writer.reserve(at, &liveness, RecordType::BYTES, len, 0).map(Some)
            };
            match reserved {
                Ok(None) => {}
                Ok(Some(reserved)) if round % 5 == 3 => {
                    let _ = writer.discard(at, &liveness, reserved);
                }
                Ok(Some(reserved)) => open = open.or(Some((round % 2, reserved))),
                Err(refusal) => {
                    let _ = writer.refuse(at, refusal, len);
                }
            }
            if round % 4 == 3
                && let Some((owner, reserved)) = open.take()
            {
                let len = reserved.len();
                let _ = writers[owner].commit(at, &liveness, reserved, len / 2, Wake::Auto);
            }
            if policy == Policy::Drop && round % 3 == 2 {
                for _ in 0..3 {
                    let _ = reader.next(ring).unwrap();
                }
                let _ = reader.release(ring);
            }
            if [5, 14].contains(&round) {
                shapes.push(Shape::of(&heap));
            }
        }
        let epoch = at.slots()[1].holder.epoch.load(Ordering::Relaxed);
        heap.header().shared.lock.store(2 | epoch << 16, Ordering::Relaxed);
        shapes.push(Shape::of(&heap));
    }
    shapes
}

impl Tally {
    /// Reads a shared ring in every way.
    fn observe_shared(&mut self, heap: &HeapRing, is_alive: fn(u32) -> bool) {
        let (at, policy) = (heap.shared(), heap.layout().policy);
        let is_dead = |slot| !is_alive(slot);
        let _ = RingTotals::of(at, policy, is_dead).map(|totals| totals.unreported());
        self.taken(RingCopy::of(at, policy, is_dead));
        assert!(perfring_ring::producer_seats(at).len() <= MEMBERS as usize);
        let _ = (at.held_up(), at.locked_by());
    }

    /// Performs the operations of a producer of a shared ring.
    fn join_in(&mut self, writer: &mut SharedWriter, heap: &HeapRing, liveness: &MadeUp) {
        let at = heap.shared();
        let mut open = Vec::new();
        for round in 0..10_usize {
            let len = [0, 17, 64, 240, 300][round % 5];
            let refused = match round % 4 {
                0 => writer
                    .publish(at, liveness, RecordType::BYTES, len, None, Wake::Auto, |reserved| {
                        assert!(reserved.len() < SIZE as usize);
                        assert!(reserved.payload_pos().is_multiple_of(8));
                    })
                    .err(),
                1 => match writer.reserve_span(at, liveness, len as u64, 0) {
                    Ok(mut batch) => {
                        self.fill(writer, heap, &mut batch);
                        let _ = writer.commit_span(at, liveness, batch, Wake::Force);
                        None
                    }
                    Err(refusal) => Some(refusal),
                },
                _ => match writer.reserve(at, liveness, RecordType::BYTES, len, 0) {
                    Ok(reserved) => {
                        // A mapping writes whole words there.
                        assert!(reserved.payload_pos().is_multiple_of(8));
                        writer.fill(at, &reserved, &vec![7; len]);
                        open.push(reserved);
                        None
                    }
                    Err(refusal) => Some(refusal),
                },
            };
            if let Some(refusal) = refused {
                let _ = (writer.tail_for(at, len), writer.refuse(at, refusal, len));
                self.corrupt += 1;
            }
            if round % 4 == 3 {
                for (index, reserved) in open.drain(..).enumerate() {
                    let len = reserved.len() / (index + 1);
                    let _ = if index == 1 {
                        writer.discard(at, liveness, reserved)
                    } else {
                        writer.commit(at, liveness, reserved, len, Wake::Auto)
                    };
                }
            }
        }
        let _ = at.ring().prepare_space_sleep(writer.tail_for(at, 40), full_fence);
        let _ = writer.totals(at);
    }

    fn fill(&mut self, writer: &SharedWriter, heap: &HeapRing, batch: &mut BatchSpan) {
        while let Some(reserved) = writer.next_in_span(heap.shared(), batch, RecordType::BYTES, 9) {
            writer.fill(heap.shared(), &reserved, b"in groups");
            self.records += 1;
        }
    }

    /// Runs every side of a shared ring that was corrupted before.
    fn shared_sides(&mut self, shape: &Shape, heap: &HeapRing, turn: usize, corrupt: impl Fn()) {
        self.invalid += 1;
        let alive = MadeUp::ALL[turn % MadeUp::ALL.len()];
        let again = || {
            shape.restore(heap);
            corrupt();
        };
        again();
        self.observe_shared(heap, alive);
        self.observe(heap.ring(), CopyReader::new(heap.ring(), shape.policy, Start::Oldest));

        let liveness = MadeUp::new(alive);
        if let Some(mut writer) = join(heap, turn as u32 % MEMBERS, &liveness) {
            self.join_in(&mut writer, heap, &liveness);
            let _ = writer.detach(heap.shared(), &liveness);
        } else {
            self.corrupt += 1;
        }
        self.observe_shared(heap, alive);

        again();
        let liveness = MadeUp::new(alive);
        let _ = recover(heap.shared(), 99, &liveness).is_ok();
        self.observe_shared(heap, alive);
        self.read(heap.ring());
    }
}

/// The values that a word may be replaced by.
fn busy(old: u64) -> impl Iterator<Item = u64> {
    nasty(old).chain(reservations(SIZE)).chain(LOCKS).chain(INVALID_LOCKS)
}

/// Returns whether a word is a position or the lock, which every side reads first.
fn is_key(at: usize) -> bool {
    at < 4
}

#[test]
fn no_word_of_a_shared_ring_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    let part = if cfg!(miri) { 90 } else { 8 };
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        for (at, old) in shape.words.iter().enumerate() {
            // Every value for the words that every side reads first, and some values for all
            // others.
            let part = if is_key(at) { 1 } else { part };
            let mut taken = every(turn + at, part);
            for (index, value) in busy(*old).enumerate().filter(|_| taken()) {
                tally.shared_sides(&shape, &heap, turn + at + index / part, || {
                    corrupt(&heap, &[(at, value)]);
                });
            }
        }
    }
    println!("shared, one word: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

#[test]
fn no_random_words_of_a_shared_ring_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    let shapes = shared_shapes();
    let mut rng = Rng::new(2);
    for round in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let shape = &shapes[round % shapes.len()];
        let heap = shape.heap();
        let words = shape.words.len();
        let data = words - SIZE as usize / 8;
        let invalid: Vec<_> = (0..2 + rng.below(6))
            .map(|_| {
                // Mostly words that every side reads: positions, the lock and the words of records.
                let at = match rng.below(3) {
                    0 => rng.index(4),
                    1 => data + rng.index(words - data),
                    _ => rng.index(words),
                };
                (at, rng.number(shape.words[at], SIZE))
            })
            .collect();
        tally.shared_sides(shape, &heap, round, || corrupt(&heap, &invalid));
    }
    println!("shared, random: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

/// A shared ring that is valid but for positions near the maximum.
#[test]
fn positions_of_a_shared_ring_at_the_end_of_the_world_make_nobody_panic_or_loop() {
    let mut tally = Tally::default();
    let last = u64::MAX - (SIZE - 1);
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        let by = [1 << 62, (1 << 62) - SIZE, (1 << 62) + SIZE, 1 << 63, last - SIZE, last];
        for (index, by) in by.into_iter().enumerate() {
            // Together with the end of the last reservation, and that alone.
            for together in [true, false] {
                let header = heap.header();
                tally.shared_sides(&shape, &heap, turn + index, || {
                    let add = |word: &AtomicU64| {
                        let old = word.load(Ordering::Relaxed);
                        word.store(old.wrapping_add(by), Ordering::Relaxed);
                    };
                    add(&header.shared.producer_pos);
                    if together {
                        add(&header.data_head);
                        add(&header.data_tail);
                        for copy in &header.tail_mark.copies {
                            add(&copy[0]);
                            add(&copy[TAIL_MARK - 1]);
                        }
                        for copy in &header.producer.copies {
                            add(&copy[producer_totals::POS]);
                        }
                    }
                });
            }
        }
        // The last possible words, with records of any size there.
        for size in [8, 16, 240, 65_528] {
            for head in [u64::MAX - 7, u64::MAX - 15, u64::MAX - 255] {
                for end in [u64::MAX, u64::MAX - 1, u64::MAX - 7] {
                    tally.shared_sides(&shape, &heap, turn, || {
                        for word in heap.data() {
                            let corrupt = RecordWord::pack(4096, 0, size).raw();
                            word.store(corrupt, Ordering::Relaxed);
                        }
                        heap.header().data_head.store(head, Ordering::Relaxed);
                        heap.header().shared.producer_pos.store(end, Ordering::Relaxed);
                    });
                }
            }
        }
    }
    println!("shared, far: {tally:?}");
}

/// The ring changes while its producers work.
#[test]
fn a_word_of_a_shared_ring_that_changes_under_way_makes_nobody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        for (at, old) in shape.words.iter().enumerate() {
            let mut taken = every(turn + at, if is_key(at) { 1 } else { 5 });
            for (index, value) in busy(*old).enumerate().filter(|_| taken()) {
                shape.restore(&heap);
                // With a free lock, or no producer attaches.
                heap.header().shared.lock.store(0, Ordering::Relaxed);
                let liveness = MadeUp::new(MadeUp::ALL[(turn + index) % 3]);
                let mut writers = [0, 1].map(|index| join(&heap, index, &liveness).unwrap());
                for writer in &mut writers {
                    // Each knows its position before the corruption.
                    let at = heap.shared();
                    let _ = writer
                        .publish(at, &liveness, RecordType::BYTES, 40, None, Wake::Auto, |_| {})
                        .is_ok();
                }
                corrupt(&heap, &[(at, value)]);
                tally.invalid += 1;
                for writer in &mut writers {
                    tally.join_in(writer, &heap, &liveness);
                    let _ = writer.detach(heap.shared(), &liveness);
                }
                tally.observe_shared(&heap, liveness.alive);
            }
        }
        // While a producer has a reservation open it gets no other at the same position, wherever
        // positions move.
        for corrupt in (0..4 * SIZE).step_by(4) {
            shape.restore(&heap);
            let (at, header) = (heap.shared(), heap.header());
            header.shared.lock.store(0, Ordering::Relaxed);
            let liveness = MadeUp::new(|_| true);
            let Some(mut writer) = join(&heap, 0, &liveness) else { continue };
            let Ok(first) = writer.reserve(at, &liveness, RecordType::BYTES, 24, 0) else {
                continue;
            };
            header.shared.producer_pos.store(corrupt, Ordering::Relaxed);
            if let Ok(second) = writer.reserve(at, &liveness, RecordType::BYTES, 24, 0) {
                let apart = second.payload_pos().wrapping_sub(first.payload_pos()) % SIZE;
                assert!(apart.is_multiple_of(8) && (32..=SIZE - 32).contains(&apart), "{corrupt}");
                let _ = writer.commit(at, &liveness, second, 24, Wake::Auto);
            }
            let _ = writer.commit(at, &liveness, first, 20, Wake::Auto);
        }
        // All positions go back, and agree with each other.
        for end in [0, 8, 64, 128] {
            shape.restore(&heap);
            heap.header().shared.lock.store(0, Ordering::Relaxed);
            let liveness = MadeUp::new(|_| true);
            let Some(mut writer) = join(&heap, 0, &liveness) else { continue };
            tally.join_in(&mut writer, &heap, &liveness);
            let header = heap.header();
            for position in [&header.data_tail, &header.data_head, &header.shared.producer_pos] {
                position.store(end, Ordering::Relaxed);
            }
            tally.join_in(&mut writer, &heap, &liveness);
        }
    }
    println!("shared, under way: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0);
}

/// A request for more than any ring takes is refused, however large.
#[test]
fn a_group_of_any_size_is_refused_if_it_is_too_large() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap().many(MEMBERS);
    let liveness = MadeUp::new(|_| true);
    let mut writer = join(&heap, 0, &liveness).unwrap();
    for bytes in [SIZE, SIZE + 1, 65_528, 1 << 32, 1 << 63, u64::MAX - 8, u64::MAX - 7, u64::MAX] {
        let refused = writer.reserve_span(heap.shared(), &liveness, bytes, 0).map(|_| ());
        assert!(matches!(refused, Err(perfring_ring::Refusal::TooLarge { .. })), "{bytes}");
    }
    for len in [SIZE as usize, 65_520, usize::MAX - 16, usize::MAX] {
        let refused =
            writer.reserve(heap.shared(), &liveness, RecordType::BYTES, len, 0).map(|_| ());
        assert!(matches!(refused, Err(perfring_ring::Refusal::TooLarge { .. })), "{len}");
    }
}
