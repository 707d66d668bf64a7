//! Time in a ring: anchors, and timestamps across producers and boots.
#![cfg(not(loom))]

use crate::common::{Reported, attach_at};
use perfring_abi::atomic::Ordering;
use perfring_abi::{ANCHORS, Lead, PERF_CAP_TIME_ZERO, Policy, RecordType, RecordWord};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    Anchor, Anchors, CopyReader, Corrupt, End, Fences, Next, Reader, Reading, RingCopy, Scale,
    SharedWriter, Start, Wake, Writer,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const WALL: u64 = 1_700_000_000 * SECOND;

fn timed() -> HeapRing {
    HeapRing::new(4096, Policy::Overwrite).unwrap().timed()
}

fn attach(heap: &HeapRing) -> Writer {
    Writer::attach(heap.ring(), heap.layout(), Fences::Full).unwrap()
}

fn publish(writer: &mut Writer, heap: &HeapRing, now: u64) -> u64 {
    let ring = heap.ring();
    let reserved = writer.reserve(ring, RecordType::BYTES, 8, now).unwrap();
    let pos = reserved.pos();
    let _ = writer.end(ring, reserved, 8, End::Publish(Wake::Auto));
    pos
}

fn reading(clock_ns: u64, wall_ahead: u64) -> Reading {
    let realtime_ns = clock_ns.wrapping_add(wall_ahead);
    Reading { boot: 7, clock_ns, realtime_ns, error_ns: 100, scale: None }
}

fn timestamps(heap: &HeapRing) -> Vec<u64> {
    let snapshot = RingCopy::take(heap.ring(), Policy::Overwrite).unwrap().with_lead(Lead::Time);
    let (mut cursor, mut timestamps) = (snapshot.start(), Vec::new());
    while let Some((found, after)) = snapshot.step(cursor).unwrap() {
        if let Next::Record((frame, _)) = found {
            timestamps.push(frame.time.unwrap());
        }
        cursor = after;
    }
    timestamps
}

#[test]
fn a_wall_clock_that_nobody_sets_needs_one_anchor() {
    let heap = timed();
    let mut writer = attach(&heap);
    for second in 1..1000 {
        // Noise of two readings.
        let noise = second * 7919 % 200;
        writer.keep_time(heap.ring(), &reading(second * SECOND, WALL + noise));
    }
    let anchors = Anchors::read(heap.ring());
    assert_eq!(anchors.all().len(), 1);
    assert!(anchors.wall(0, 500 * SECOND).unwrap().abs_diff(WALL + 500 * SECOND) < 1000);
}

/// However small the steps, no wall-clock time is off by more than a step that goes unnoticed.
#[test]
fn a_wall_clock_that_is_set_gets_an_anchor_where_that_was() {
    let heap = timed();
    let mut writer = attach(&heap);
    let (mut wall, mut records) = (WALL, Vec::new());
    for step in 0..12u64 {
        for _ in 0..3 {
            wall += 15_000; // not detected at once
            let now = (1 + step) * SECOND;
            writer.keep_time(heap.ring(), &reading(now, wall));
            records.push((publish(&mut writer, &heap, now), now, now + wall));
        }
        wall = wall.wrapping_sub(3600 * SECOND * (step % 3)); // also back
    }
    let anchors = Anchors::read(heap.ring());
    assert!(anchors.all().len() > 8, "{anchors:?}");
    let mut compared = 0;
    for (pos, timestamp, true_wall) in records {
        let Some(wall) = anchors.wall(pos, timestamp) else { continue };
        assert!(wall.abs_diff(true_wall) <= 20_300, "{wall} for {true_wall}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn of_many_anchors_the_newest_can_be_read() {
    let heap = timed();
    let mut writer = attach(&heap);
    let mut at = Vec::new();
    for hour in 0..40 {
        writer.keep_time(heap.ring(), &reading(SECOND, WALL + hour * 3600 * SECOND));
        at.push(publish(&mut writer, &heap, SECOND));
    }
    let anchors = Anchors::read(heap.ring());
    assert_eq!(anchors.all().len(), ANCHORS - 1);
    for (hour, pos) in at.iter().enumerate() {
        let wall = anchors.wall(*pos, SECOND);
        let known = hour + (ANCHORS - 1) >= 40;
        let true_wall = WALL + SECOND + hour as u64 * 3600 * SECOND;
        assert_eq!(wall, known.then_some(true_wall), "of hour {hour}");
    }
}

/// The next producer's clock may be a little behind the last one's; within a boot timestamps do not
/// show it.
#[test]
fn stamps_go_on_from_producer_to_producer_and_begin_anew_with_a_boot() {
    let heap = timed();
    for (turn, detach) in [(0u64, true), (1, false), (2, true), (3, false), (4, true)] {
        let mut writer = attach(&heap);
        let behind = 9 * SECOND - turn * 50;
        writer.begin_time(heap.ring(), &reading(behind, WALL));
        for n in 0..turn + 1 {
            publish(&mut writer, &heap, behind + n);
        }
        if detach {
            let _ = writer.detach(heap.ring());
        }
    }
    let of_one_boot = timestamps(&heap);
    assert_eq!(of_one_boot, vec![9 * SECOND; 15]);

    // The same ring after a reboot: the boot clock restarted.
    let mut writer = attach(&heap);
    let boot = Reading { boot: 8, ..reading(500, WALL + SECOND) };
    writer.begin_time(heap.ring(), &boot);
    let pos = publish(&mut writer, &heap, 600);
    let mut writer = attach(&heap); // the one before was killed
    writer.begin_time(heap.ring(), &Reading { boot: 8, ..reading(580, WALL + SECOND) });
    publish(&mut writer, &heap, 590);
    assert_eq!(timestamps(&heap)[15..], [600, 600]);
    let anchors = Anchors::read(heap.ring());
    assert_eq!(anchors.wall(0, 9 * SECOND), Some(WALL + 9 * SECOND));
    assert_eq!(anchors.wall(pos, 600), Some(WALL + SECOND + 600));
}

/// A value that cannot be a timestamp of this boot does not raise all later ones.
#[test]
fn a_stamp_from_the_future_is_not_believed() {
    let heap = timed();
    let mut writer = attach(&heap);
    writer.keep_time(heap.ring(), &reading(SECOND, WALL));
    heap.header().shared.newest_timestamp.store(u64::MAX, Ordering::Relaxed);
    let mut writer = attach(&heap);
    writer.begin_time(heap.ring(), &reading(2 * SECOND, WALL));
    publish(&mut writer, &heap, 2 * SECOND);
    assert_eq!(timestamps(&heap), [2 * SECOND]);
    // But a producer that was stopped, and stores an earlier reading, takes nothing back.
    writer.keep_time(heap.ring(), &reading(1, WALL));
    publish(&mut writer, &heap, 1);
    assert_eq!(timestamps(&heap), [2 * SECOND; 2]);
}

/// A producer of a shared ring was stopped for long after it had read the clock; others continued.
#[test]
fn a_producer_that_was_stopped_takes_no_time_back() {
    let heap = timed().many(2);
    let (at, liveness) = (heap.shared(), Reported::default());
    let [mut stopped, mut other] = [0, 1].map(|slot| attach_at(&heap, &liveness, slot));
    let publish = |writer: &mut SharedWriter, now| {
        writer.publish(at, &liveness, RecordType::BYTES, 8, Some(now), Wake::Auto, |_| ()).unwrap()
    };
    for writer in [&stopped, &other] {
        assert!(writer.begin_time(at, &liveness, || reading(SECOND, WALL)));
    }
    let _ = publish(&mut stopped, SECOND);
    let _ = publish(&mut other, 9 * SECOND);
    assert!(stopped.keep_time(at, &liveness, || reading(2 * SECOND, WALL)));
    let _ = publish(&mut stopped, 2 * SECOND);
    let _ = publish(&mut other, 9 * SECOND - 5);
    assert_eq!(timestamps(&heap), [1, 9, 9, 9].map(|n| n * SECOND));
    // After a reboot, the next producer to attach starts anew.
    let mut next = attach_at(&heap, &liveness, 0);
    assert!(next.begin_time(at, &liveness, || Reading { boot: 8, ..reading(SECOND, 2 * WALL) }));
    let _ = publish(&mut next, SECOND);
    assert_eq!(timestamps(&heap)[4], SECOND);
}

#[test]
fn perf_readers_get_a_scale_of_one_moment_and_none_of_another_boot() {
    let heap = timed();
    let mut writer = attach(&heap);
    let perf = &heap.header().perf_time;
    let scale = Scale { shift: 31, mult: 0x3456_789a, zero: 99 };
    perf.lock.store(5, Ordering::Relaxed); // a producer died while it wrote
    writer.begin_time(heap.ring(), &reading(SECOND, WALL));
    assert_eq!(perf.lock.load(Ordering::Relaxed) % 2, 0);
    perf.lock.store(5, Ordering::Relaxed);
    writer.keep_time(heap.ring(), &Reading { scale: Some(scale), ..reading(SECOND, WALL) });
    assert_eq!(perf.lock.load(Ordering::Relaxed) % 2, 0);
    assert_eq!(perf.zero.load(Ordering::Relaxed), 99);
    let bytes = perf.scale.load(Ordering::Relaxed).to_ne_bytes();
    assert_eq!(bytes[2..4], 31u16.to_ne_bytes());
    assert_eq!(bytes[4..], 0x3456_789au32.to_ne_bytes());
    assert_eq!(perf.capabilities.load(Ordering::Relaxed), 2 | PERF_CAP_TIME_ZERO);
    writer.begin_time(heap.ring(), &Reading { boot: 8, ..reading(5, WALL) });
    assert_eq!(perf.capabilities.load(Ordering::Relaxed), 2);
    assert_eq!((perf.scale.load(Ordering::Relaxed), perf.zero.load(Ordering::Relaxed)), (0, 0));
}

/// Readers copy anchors while they are written: each is whole, and they are in order.
#[test]
fn anchors_are_whole_while_they_are_written() {
    let heap = timed();
    let mut writer = attach(&heap);
    let (rounds, mut reads) = (if cfg!(miri) { 60 } else { 200_000u64 }, 0u64);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for n in 1..=rounds {
                // The wall clock follows from the clock, and both are set all the time.
                writer.keep_time(heap.ring(), &reading(n, WALL + n * SECOND));
            }
        });
        while !writing.is_finished() {
            let anchors = Anchors::read(heap.ring());
            for pair in anchors.all().windows(2) {
                assert_eq!(pair[0].clock_ns + 1, pair[1].clock_ns, "in order, without a gap");
            }
            for anchor in anchors.all() {
                let wall = WALL + anchor.clock_ns * SECOND + anchor.clock_ns;
                assert_eq!(anchor.realtime_ns, wall, "a torn anchor");
            }
            reads += u64::from(!anchors.all().is_empty());
        }
    });
    println!("{reads} reads at {rounds} anchors");
}

/// A record with this word, after another one, is damage to every reader, at every call.
fn assert_damage(words: impl IntoIterator<Item = RecordWord>) {
    for word in words {
        let heap = timed();
        let mut writer = attach(&heap);
        publish(&mut writer, &heap, 1);
        let bad = Corrupt { pos: 24 };
        heap.data()[3].store(word.raw(), Ordering::Relaxed);
        heap.header().data_head.store(24 + word.size(), Ordering::Relaxed);

        let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap().with_lead(Lead::Time);
        assert!(reader.next(heap.ring()).unwrap().0.is_some());
        assert_eq!(reader.next_known::<false>(heap.ring()), None);
        assert_eq!(reader.next(heap.ring()), Err(bad));
        assert_eq!(reader.next(heap.ring()), Err(bad));
        let observer = CopyReader::new(heap.ring(), Policy::Overwrite, Start::Oldest).unwrap();
        let mut observer = observer.with_lead(Lead::Time);
        assert!(matches!(observer.next(heap.ring()), Ok(Some(Next::Record(_)))));
        assert_eq!(observer.next(heap.ring()), Err(bad.into()));
        assert_eq!(observer.next(heap.ring()), Err(bad.into()));
        let snapshot = RingCopy::take(heap.ring(), Policy::Overwrite);
        if word.kind() == RecordType::LOST {
            assert!(snapshot.is_err(), "the losses cannot be counted");
            continue;
        }
        let snapshot = snapshot.unwrap().with_lead(Lead::Time);
        let (_, after) = snapshot.step(0).unwrap().unwrap();
        assert_eq!(snapshot.step(after), Err(bad));
    }
}

#[test]
fn a_record_without_room_for_a_timestamp_is_damage() {
    assert_damage(
        [(0, 8), (1, 16), (7, 16)].map(|(misc, size)| RecordWord::pack(4096, misc, size)),
    );
}

#[test]
fn a_loss_without_room_for_its_count_is_damage() {
    assert_damage([8, 16].map(|size| RecordWord::pack(RecordType::LOST, 0, size)));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 5 } else { 2000 }, failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Nonsensical anchors give nonsensical times, or none; a producer continues.
    #[test]
    fn anchors_of_nonsense_harm_nobody(
        written in prop_oneof![any::<u64>(), 0..40u64, Just(u64::MAX)],
        boot in prop_oneof![Just(7), any::<u64>()],
        newest in any::<u64>(),
        words in proptest::collection::vec(prop_oneof![any::<u64>(), 0..100u64], 4 * ANCHORS),
        clock in any::<u64>(), wall in any::<u64>(), error in any::<u64>(), pos in any::<u64>(),
    ) {
        let heap = timed();
        let line = &heap.header().time;
        line.anchors_written.store(written, Ordering::Relaxed);
        line.boot.store(boot, Ordering::Relaxed);
        heap.header().shared.newest_timestamp.store(newest, Ordering::Relaxed);
        for (to, word) in line.anchors.iter().flatten().zip(&words) {
            to.store(*word, Ordering::Relaxed);
        }
        let anchors = Anchors::read(heap.ring());
        prop_assert!(anchors.all().len() < ANCHORS);
        let _ = (anchors.wall(pos, clock), anchors.at(pos).map(Anchor::to_words));
        let mut writer = attach(&heap);
        let odd = Reading { boot: 7, clock_ns: clock, realtime_ns: wall, error_ns: error, scale: None };
        writer.begin_time(heap.ring(), &odd);
        let _ = Anchors::read(heap.ring()).wall(pos, clock);
        publish(&mut writer, &heap, clock);
        prop_assert!(timestamps(&heap)[0] >= clock);
    }
}
