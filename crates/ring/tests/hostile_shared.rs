//! Whoever can write the file can lie in it: no content of the header or of the data area makes
//! any side of a shared ring panic, loop, or report anything but damage.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod spoiled;

use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{Evict, Policy, RecordType, RecordWord, Report, TAIL_MARK, producer_totals};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    BatchSpan, Fences, Liveness, Observer, OwnerInfo, Reader, RingTotals, SharedWriter,
    SlotFigures, Snapshot, Start, Wake, full_fence, recover,
};
use perfring_testkit::choices::Choices;
use perfring_testkit::nasty::{INVALID_LOCKS, LOCKS, reservations};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::every;
use spoiled::{SIZE, STEPS, Shape, Tally, lie, nasty};
use std::cell::Cell;
use std::time::Instant;

/// The system as the algorithm of shared rings sees it: who lives is made up, and whoever asks
/// without end is found out.
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

impl Liveness for MadeUp {
    fn is_alive(&self, slot: u32) -> bool {
        self.count();
        // As the kernel's answer is: a slot that there is none of is nobody's to rob.
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
    SharedWriter::attach(at, heap.layout(), Fences::Full, index, &who, liveness).ok()
}

/// Honest shared rings: fresh, in use, wrapped; with open reservations, holes and losses, and with
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
                    .publish(at, &liveness, RecordType::BYTES, len, Wake::Auto, |_| {})
                    .map(|_| None)
            } else {
                writer.try_reserve(at, &liveness, RecordType::BYTES, len, 0).map(Some)
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
    /// Whoever looks at a shared ring.
    fn look(&mut self, heap: &HeapRing, is_alive: fn(u32) -> bool) {
        let (at, policy) = (heap.shared(), heap.layout().policy);
        let is_dead = |slot| !is_alive(slot);
        let _ = RingTotals::of(at, policy, is_dead).map(|totals| totals.unreported());
        self.taken(Snapshot::of(at, policy, is_dead));
        assert!(SlotFigures::all(at).len() <= MEMBERS as usize);
        let _ = (at.held_up(), at.locked_by());
    }

    /// What a producer of a shared ring does.
    fn join_in(&mut self, writer: &mut SharedWriter, heap: &HeapRing, liveness: &MadeUp) {
        let at = heap.shared();
        let mut open = Vec::new();
        for round in 0..10_usize {
            let len = [0, 17, 64, 240, 300][round % 5];
            let refused = match round % 4 {
                0 => writer
                    .publish(at, liveness, RecordType::BYTES, len, Wake::Auto, |reserved| {
                        assert!(reserved.len() < SIZE as usize);
                        assert!(reserved.payload_pos().is_multiple_of(8));
                    })
                    .err(),
                1 => match writer.try_reserve_span(at, liveness, len as u64, 0) {
                    Ok(mut group) => {
                        self.fill(writer, heap, &mut group);
                        let _ = writer.commit_span(at, liveness, group, Wake::Force);
                        None
                    }
                    Err(refusal) => Some(refusal),
                },
                _ => match writer.try_reserve(at, liveness, RecordType::BYTES, len, 0) {
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
        let _ = (writer.written(), writer.refused(), writer.discarded());
    }

    fn fill(&mut self, writer: &SharedWriter, heap: &HeapRing, group: &mut BatchSpan) {
        while let Some(reserved) = writer.next_in_span(heap.shared(), group, RecordType::BYTES, 9) {
            writer.fill(heap.shared(), &reserved, b"in groups");
            self.records += 1;
        }
    }

    /// Every side of a shared ring on a lie that was there before it.
    fn shared_sides(&mut self, shape: &Shape, heap: &HeapRing, turn: usize, lie: impl Fn()) {
        self.invalid += 1;
        let alive = MadeUp::ALL[turn % MadeUp::ALL.len()];
        let again = || {
            shape.restore(heap);
            lie();
        };
        again();
        self.look(heap, alive);
        self.observe(heap.ring(), Observer::new(heap.ring(), shape.policy, Start::Oldest));

        let liveness = MadeUp::new(alive);
        if let Some(mut writer) = join(heap, turn as u32 % MEMBERS, &liveness) {
            self.join_in(&mut writer, heap, &liveness);
            let _ = writer.detach(heap.shared(), &liveness);
        } else {
            self.corrupt += 1;
        }
        self.look(heap, alive);

        again();
        let liveness = MadeUp::new(alive);
        let _ = recover(heap.shared(), 99, &liveness).is_ok();
        self.look(heap, alive);
        self.read(heap.ring());
    }
}

/// What a word may be replaced by.
fn busy(old: u64) -> impl Iterator<Item = u64> {
    nasty(old).chain(reservations(SIZE)).chain(LOCKS).chain(INVALID_LOCKS)
}

/// Whether a word is a position or the lock, which everybody looks at first.
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
            // All that there are for what everybody looks at first, and for all else some.
            let part = if is_key(at) { 1 } else { part };
            let mut taken = every(turn + at, part);
            for (index, value) in busy(*old).enumerate().filter(|_| taken()) {
                tally.shared_sides(&shape, &heap, turn + at + index / part, || {
                    lie(&heap, &[(at, value)]);
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
                // Rather what all look at: positions, the lock and the words of records.
                let at = match rng.below(3) {
                    0 => rng.index(4),
                    1 => data + rng.index(words - data),
                    _ => rng.index(words),
                };
                (at, rng.number(shape.words[at], SIZE))
            })
            .collect();
        tally.shared_sides(shape, &heap, round, || lie(&heap, &invalid));
    }
    println!("shared, random: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

/// An honest shared ring in all but that it has come unbelievably far.
#[test]
fn positions_of_a_shared_ring_at_the_end_of_the_world_make_nobody_panic_or_loop() {
    let mut tally = Tally::default();
    let last = u64::MAX - (SIZE - 1);
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        let by = [1 << 62, (1 << 62) - SIZE, (1 << 62) + SIZE, 1 << 63, last - SIZE, last];
        for (index, by) in by.into_iter().enumerate() {
            // With the end of the last reservation, and with it alone.
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
        // The last words there are, with records of any size at their place.
        for size in [8, 16, 240, 65_528] {
            for head in [u64::MAX - 7, u64::MAX - 15, u64::MAX - 255] {
                for end in [u64::MAX, u64::MAX - 1, u64::MAX - 7] {
                    tally.shared_sides(&shape, &heap, turn, || {
                        for word in heap.data() {
                            let lie = RecordWord::pack(4096, 0, size).raw();
                            word.store(lie, Ordering::Relaxed);
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

/// The ring changes while its producers are at work.
#[test]
fn a_word_of_a_shared_ring_that_changes_under_way_makes_nobody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        for (at, old) in shape.words.iter().enumerate() {
            let mut taken = every(turn + at, if is_key(at) { 1 } else { 5 });
            for (index, value) in busy(*old).enumerate().filter(|_| taken()) {
                shape.restore(&heap);
                // With a lock that is free, or nobody gets in.
                heap.header().shared.lock.store(0, Ordering::Relaxed);
                let liveness = MadeUp::new(MadeUp::ALL[(turn + index) % 3]);
                let mut writers = [0, 1].map(|index| join(&heap, index, &liveness).unwrap());
                for writer in &mut writers {
                    // Each knows where it is before the lie comes.
                    let at = heap.shared();
                    let _ = writer
                        .publish(at, &liveness, RecordType::BYTES, 40, Wake::Auto, |_| {})
                        .is_ok();
                }
                lie(&heap, &[(at, value)]);
                tally.invalid += 1;
                for writer in &mut writers {
                    tally.join_in(writer, &heap, &liveness);
                    let _ = writer.detach(heap.shared(), &liveness);
                }
                tally.look(&heap, liveness.alive);
            }
        }
        // Where a producer has a reservation open it gets no other, wherever positions go.
        for lie in (0..4 * SIZE).step_by(4) {
            shape.restore(&heap);
            let (at, header) = (heap.shared(), heap.header());
            header.shared.lock.store(0, Ordering::Relaxed);
            let liveness = MadeUp::new(|_| true);
            let Some(mut writer) = join(&heap, 0, &liveness) else { continue };
            let Ok(first) = writer.try_reserve(at, &liveness, RecordType::BYTES, 24, 0) else {
                continue;
            };
            header.shared.producer_pos.store(lie, Ordering::Relaxed);
            if let Ok(second) = writer.try_reserve(at, &liveness, RecordType::BYTES, 24, 0) {
                let apart = second.payload_pos().wrapping_sub(first.payload_pos()) % SIZE;
                assert!(apart.is_multiple_of(8) && (32..=SIZE - 32).contains(&apart), "{lie}");
                let _ = writer.commit(at, &liveness, second, 24, Wake::Auto);
            }
            let _ = writer.commit(at, &liveness, first, 20, Wake::Auto);
        }
        // All positions go back, and fit each other.
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
        let refused = writer.try_reserve_span(heap.shared(), &liveness, bytes, 0).map(|_| ());
        assert!(matches!(refused, Err(perfring_ring::Refusal::TooLarge { .. })), "{bytes}");
    }
    for len in [SIZE as usize, 65_520, usize::MAX - 16, usize::MAX] {
        let refused =
            writer.try_reserve(heap.shared(), &liveness, RecordType::BYTES, len, 0).map(|_| ());
        assert!(matches!(refused, Err(perfring_ring::Refusal::TooLarge { .. })), "{len}");
    }
}
