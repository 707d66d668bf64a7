//! Any process that can write the file can corrupt it: no content of the header or of the data area
//! makes any side of an exclusive ring panic, loop, or report anything but damage.
#![cfg(not(loom))]

use crate::spoiled::{SIZE, Shape, Tally, corrupt, nasty};
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    Evict, Hole, Policy, RecordType, RecordWord, Report, TAIL_MARK, consumer_totals,
    producer_totals,
};
use perfring_ring::heap::HeapRing;
use perfring_ring::{CopyReader, End, Fences, Reader, Start, Wake, WakeAt, Writer, full_fence};
use perfring_testkit::choices::Choices;
use perfring_testkit::rng::Rng;
use perfring_testkit::size::every;
use std::time::Instant;

/// Valid rings: fresh, half full, full, wrapped; with holes and losses, released and not.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for policy in [Policy::Drop, Policy::Overwrite] {
        for (evict, report) in
            [(Evict::Exact, Report::InStream), (Evict::Half, Report::CountersOnly)]
        {
            let heap = HeapRing::new(SIZE, policy).unwrap().evict(evict).report(report);
            let ring = heap.ring();
            shapes.push(Shape::of(&heap));
            let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
            let mut reader = Reader::attach(ring, Fences::Full).unwrap();
            for round in 0..40_usize {
                let len = [0, 9, 24, 40, 3, 300, 100][round % 7];
                match writer.reserve(ring, RecordType::BYTES, len, 0) {
                    Ok(reserved) if round % 5 == 3 => writer.discard(ring, reserved),
                    Ok(reserved) => {
                        writer.fill(ring, &reserved, &vec![round as u8; len]);
                        let len = reserved.len();
                        let _ = writer.end(ring, reserved, len, End::Hold);
                    }
                    Err(refusal) => {
                        let _ = writer.refuse(ring, refusal, len);
                    }
                }
                let _ = writer.publish(ring, Wake::Auto);
                if policy == Policy::Drop && round % 3 == 2 {
                    for _ in 0..3 {
                        let _ = reader.next(ring).unwrap();
                    }
                    let _ = reader.release(ring);
                }
                if policy == Policy::Overwrite && round == 20 {
                    let mut keeper = CopyReader::resume(ring).unwrap();
                    let _ = keeper.next(ring).unwrap();
                    keeper.save(ring);
                }
                if [4, 13, 27].contains(&round) {
                    shapes.push(Shape::of(&heap));
                }
            }
            shapes.push(Shape::of(&heap));
        }
    }
    shapes
}

/// There are more shapes than this; each gets one of so many parts of the corruptions.
const PART: usize = if cfg!(miri) { 90 } else { 12 };

/// Runs every side on a ring that is corrupt from the beginning.
fn all_sides(tally: &mut Tally, shape: &Shape, heap: &HeapRing, corrupt: impl Fn()) {
    let again = || {
        shape.restore(heap);
        corrupt();
    };
    again();
    tally.meet(heap);
    again();
    tally.write(heap);
    tally.meet(heap);
    again();
    tally.read(heap.ring());
    tally.write(heap);
}

#[test]
fn no_word_of_a_ring_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    for (turn, shape) in shapes().into_iter().enumerate() {
        let heap = shape.heap();
        for (at, old) in shape.words.iter().enumerate() {
            // Every value in every word, spread over the shapes.
            let mut taken = every(turn + at, PART);
            for value in nasty(*old).filter(|_| taken()) {
                all_sides(&mut tally, &shape, &heap, || corrupt(&heap, &[(at, value)]));
            }
        }
    }
    println!("one word: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

#[test]
fn no_random_bytes_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    let shapes = shapes();
    let mut rng = Rng::new(1);
    let rounds = if cfg!(miri) { 20 } else { 8_000 };
    for round in 0..rounds {
        let shape = &shapes[round % shapes.len()];
        let heap = shape.heap();
        let words = shape.words.len();
        // A few words, or all; values that pass the first checks, or any.
        let (all, few) = (round % 7 == 0, 2 + rng.index(6));
        let invalid: Vec<_> = (0..if all { words } else { few })
            .map(|index| {
                let at = if all { index } else { rng.index(words) };
                (at, rng.number(shape.words[at], SIZE))
            })
            .collect();
        all_sides(&mut tally, shape, &heap, || corrupt(&heap, &invalid));
    }
    println!("random: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

/// A stream of only holes, and positions as far apart as possible: the longest walks there are.
#[test]
fn a_ring_of_holes_keeps_nobody_for_ever() {
    let mut tally = Tally::default();
    for (head, tail) in [(1 << 62, 0), (1 << 62, (1 << 62) - SIZE + 8), (SIZE, 0), (1 << 40, 8)] {
        for policy in [Policy::Drop, Policy::Overwrite] {
            let heap = HeapRing::new(SIZE, policy).unwrap();
            let corrupt = || {
                for word in heap.data() {
                    word.store(RecordWord::nop(8, Hole::Discarded).raw(), Ordering::Relaxed);
                }
                heap.header().data_head.store(head, Ordering::Relaxed);
                heap.header().data_tail.store(tail, Ordering::Relaxed);
            };
            let shape = Shape::of(&heap);
            all_sides(&mut tally, &shape, &heap, corrupt);
        }
    }
    println!("holes: {tally:?}");
}

/// Between a consumer's last poll and its sleep another process may move the head: counting the
/// records up to there must end.
#[test]
fn a_head_out_of_reach_keeps_no_sleeper_for_ever() {
    for record in [RecordWord::pack(4096, 0, 16), RecordWord::lost()] {
        let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
        for word in heap.data() {
            word.store(record.raw(), Ordering::Relaxed);
        }
        for head in [SIZE, 1 << 40, (1 << 62) - 8, u64::MAX - 7] {
            heap.header().data_head.store(head, Ordering::Relaxed);
            let at = WakeAt::Records(u64::MAX);
            // It does not sleep, as its next poll reports what is wrong.
            assert_eq!(heap.ring().prepare_sleep(8, 0, at, full_fence), None);
        }
    }
}

/// A ring that is valid but for positions near the maximum: every position is moved by as many
/// rings, to where sums would overflow.
#[test]
fn positions_at_the_end_of_the_world_make_nobody_panic_or_loop() {
    let mut tally = Tally::default();
    let (last, believed) = (u64::MAX - (SIZE - 1), 1 << 62);
    let mut refused = 0;
    for shape in shapes() {
        let heap = shape.heap();
        let head = shape.words[0];
        for end in [believed - SIZE, believed, believed + SIZE, 1 << 63, last - SIZE, last] {
            for by in [end, end.wrapping_sub(head / SIZE * SIZE)] {
                let header = heap.header();
                let moved = || {
                    let by = |word: &AtomicU64| {
                        word.store(
                            word.load(Ordering::Relaxed).wrapping_add(by),
                            Ordering::Relaxed,
                        );
                    };
                    by(&header.data_head);
                    by(&header.data_tail);
                    for copy in &header.tail_mark.copies {
                        by(&copy[0]);
                        by(&copy[TAIL_MARK - 1]);
                    }
                    for copy in &header.producer.copies {
                        by(&copy[producer_totals::POS]);
                    }
                    for copy in &header.consumer.copies {
                        by(&copy[consumer_totals::POS]);
                    }
                };
                all_sides(&mut tally, &shape, &heap, moved);
                shape.restore(&heap);
                moved();
                let ring = heap.ring();
                let writer = Writer::attach(ring, heap.layout(), Fences::Full);
                let believable = ring.head() <= believed && ring.tail() <= ring.head();
                assert_eq!(writer.is_ok(), believable, "head {}", ring.head());
                refused += u64::from(!believable);
            }
        }
    }
    println!("far: {tally:?}, {refused} refused");
    assert!(refused > 0 && tally.records > 0);
}

/// The header changes while its readers and its writer work: each uses the values that it checked.
#[test]
fn a_word_that_changes_under_way_makes_nobody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    for (turn, shape) in shapes().into_iter().enumerate() {
        let heap = shape.heap();
        let ring = heap.ring();
        for (at, old) in shape.words.iter().enumerate() {
            let mut taken = every(turn + at, PART);
            for value in nasty(*old).filter(|_| taken()) {
                shape.restore(&heap);
                let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
                let reader = Reader::attach(ring, Fences::Full);
                let mut observers: Vec<_> = [Start::Oldest, Start::Latest]
                    .into_iter()
                    .map(|start| CopyReader::new(ring, shape.policy, start).unwrap())
                    .collect();
                corrupt(&heap, &[(at, value)]);
                tally.invalid += 1;
                if let Ok(mut reader) = reader {
                    for _ in 0..3 {
                        let next = reader.next(ring);
                        tally.corrupt += u64::from(next.is_err());
                    }
                    let _ = reader.release(ring);
                }
                tally.write_on(&mut writer, ring);
                for observer in observers.drain(..) {
                    tally.observe(ring, Ok(observer));
                }
                tally.snapshot(ring, shape.policy);
            }
        }
    }
    println!("under way: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}
