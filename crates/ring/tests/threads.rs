//! All sides at once, at full speed, on real threads: a producer, a consumer, two observers and a
//! taker of snapshots. Every record carries its number; the totals are added up at the end.
#![cfg(not(loom))]

use perfring_abi::atomic::Ordering;
use perfring_abi::{Cause, Evict, Policy, RecordType, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    CopyReader, Count, End, Fences, Frame, Next, Place, Reader, Refusal, Ring, RingCopy,
    RingTotals, Start, Wake, Writer,
};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

// Miri takes a microsecond per word, and snapshots copy whole rings again and again.
const RECORDS: u64 = if cfg!(miri) { 100 } else { 300_000 };
const LARGE: u64 = if cfg!(miri) { 8 << 10 } else { 1 << 20 };
const MIDDLE: u64 = if cfg!(miri) { 8 << 10 } else { 64 << 10 };
const KIND: RecordType = RecordType::new(5000).unwrap();

/// The length of a record; length and content follow from its number.
fn len(id: u64) -> usize {
    (8 + id.wrapping_mul(0x9e37_79b9) % 57) as usize
}

fn write(writer: &mut Writer, ring: Ring<'_>, id: u64) -> Result<(), Refusal> {
    let reserved = writer.reserve(ring, KIND, len(id), 0)?;
    let mut bytes = [id as u8; 72];
    bytes[..8].copy_from_slice(&id.to_ne_bytes());
    writer.fill(ring, &reserved, &bytes[..len(id)]);
    let len = reserved.len();
    let _ = writer.end(ring, reserved, len, End::Hold);
    Ok(())
}

/// The id of a record; checks every byte of it.
fn id_of(frame: Frame, words: &[u64]) -> u64 {
    let id = words[0];
    assert_eq!((frame.kind, frame.len), (KIND.get(), len(id)), "a torn record at {}", frame.pos);
    let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let (body, padding) = bytes.split_at(frame.len - 8);
    assert!(body.iter().all(|&byte| byte == id as u8), "a torn record at {}", frame.pos);
    assert!(padding.iter().all(|&byte| byte == 0), "padding at {}", frame.pos);
    id
}

fn produce(heap: &HeapRing, done: &AtomicBool, pause: u64) -> RingTotals {
    let ring = heap.ring();
    let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
    let mut id = 0;
    while id < RECORDS {
        // One by one, in batches, and as a producer that was killed and restarted.
        let batch = if id % 64 < 8 { 4 } else { 1 };
        for _ in 0..batch {
            if let Err(refusal) = write(&mut writer, ring, id) {
                let _ = writer.refuse(ring, refusal, len(id));
                // The consumer of a full ring needs the core.
                thread::yield_now();
            }
            id += 1;
        }
        let _ = writer.publish(ring, Wake::Auto);
        if id % 97 == 0
            && let Ok(reserved) = writer.reserve(ring, KIND, 16, 0)
        {
            writer.discard(ring, reserved);
            let _ = writer.publish(ring, Wake::Auto);
        }
        if id % pause == 0 {
            thread::yield_now();
        }
        if id % 1013 == 0 {
            writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
        }
    }
    let _ = writer.detach(ring);
    let sums = writer.totals();
    done.store(true, Ordering::Release);
    assert_eq!(sums.written.records + sums.refused.full.records, id, "attempts = written + full");
    RingTotals { producer: sums, overwritten: writer.overwritten(ring), ..RingTotals::default() }
}

/// The consumer of a drop ring: everything arrives, in order, and the markers add up to what is
/// missing.
fn consume(heap: &HeapRing, done: &AtomicBool) -> (Count, u64) {
    let ring = heap.ring();
    let mut reader = Reader::attach(ring, Fences::Full).unwrap().with_hands(true);
    let (mut count, mut next, mut lost) = (Count::default(), 0, 0);
    loop {
        let last = done.load(Ordering::Acquire);
        let found = match reader.next_known::<true>(ring) {
            Some(frame) => Some(Next::Record(Place::Ring(frame))),
            None => reader.next(ring).unwrap().0,
        };
        match found {
            Some(Next::Record(Place::Ring(frame))) => {
                let data = heap.data();
                let at = |word: u64| {
                    data[((frame.payload_pos() / 8 + word) as usize) % data.len()]
                        .load(Ordering::Relaxed)
                };
                let words: Vec<_> = (0..frame.size / 8 - 1).map(at).collect();
                let id = id_of(frame, &words);
                // Only records that markers reported may be missing before it.
                assert!(id >= next, "{id} after {next}");
                assert_eq!(id - next, lost, "a loss that was not reported, or reported twice");
                (next, lost) = (id + 1, 0);
                count.records += 1;
                count.bytes += frame.size;
            }
            Some(Next::Record(Place::Aux(..))) => panic!("without an AUX area"),
            Some(Next::Lost(reported)) => {
                assert_eq!(reported.cause, Cause::Full);
                lost += reported.records;
            }
            None if last => break,
            None => thread::yield_now(),
        }
        if count.records.is_multiple_of(5003) {
            // Killed and restarted: what was not released is returned again.
            let before = reader.passed();
            let _ = reader.release(ring);
            reader = Reader::attach(ring, Fences::Full).unwrap().with_hands(true);
            assert_eq!(reader.passed(), before);
        }
    }
    let _ = reader.release(ring);
    assert_eq!(reader.passed(), count);
    (count, next + lost)
}

struct Watched {
    read: Count,
    lapped: Count,
    reported: u64,
    laps: u64,
}

/// An observer, from the oldest record on: in order, and read + lapped = written.
fn observe(heap: &HeapRing, done: &AtomicBool, mut observer: CopyReader, keeper: bool) -> Watched {
    let ring = heap.ring();
    let start = observer.saved().before;
    let mut watched =
        Watched { read: Count::default(), lapped: Count::default(), reported: 0, laps: 0 };
    let mut newest = None;
    loop {
        let last = done.load(Ordering::Acquire);
        match observer.next(ring) {
            Ok(Some(Next::Record((frame, words)))) => {
                let id = id_of(frame, words);
                assert!(newest < Some(id), "{id} after {newest:?}");
                newest = Some(id);
                watched.read.records += 1;
                watched.read.bytes += frame.size;
            }
            Ok(Some(Next::Lost(lost))) if lost.cause == Cause::Lapped => {
                watched.laps += 1;
            }
            Ok(Some(Next::Lost(lost))) => watched.reported += lost.records,
            Ok(None) if last => break,
            Ok(None) => thread::yield_now(),
            Err(error) => panic!("a valid ring is reported as damaged: {error}"),
        }
        if keeper && watched.read.records.is_multiple_of(1009) {
            observer.save(ring);
            let saved = observer.saved();
            observer = CopyReader::resume(ring).unwrap();
            assert_eq!(observer.saved(), saved);
        }
    }
    if keeper {
        observer.save(ring);
    }
    watched.lapped = observer.lapped();
    let passed = observer.saved().before;
    assert_eq!(start.plus(watched.read).plus(watched.lapped), passed, "read + lapped = written");
    watched
}

/// Snapshots without a pause: each whole, in order, and with consistent totals.
fn snap(heap: &HeapRing, done: &AtomicBool) -> (u64, u64, u64) {
    let (ring, policy) = (heap.ring(), heap.layout().policy);
    let (mut taken, mut records, mut empty) = (0, 0, 0);
    while !done.load(Ordering::Acquire) {
        let snapshot = RingCopy::take(ring, policy).unwrap();
        taken += 1;
        empty += u64::from(snapshot.start() == snapshot.end() && snapshot.end() > 0);
        let (mut cursor, mut newest) = (snapshot.start(), None);
        while let Some((found, after)) = snapshot.step(cursor).unwrap() {
            if let Next::Record((frame, words)) = found {
                let id = id_of(frame, words);
                assert!(newest < Some(id), "{id} after {newest:?}");
                newest = Some(id);
                records += 1;
            }
            cursor = after;
        }
        assert_eq!(cursor.max(snapshot.start()), cursor);
        let totals = snapshot.totals();
        assert!(totals.producer.written.records >= totals.consumer.read.records);
        // From a position that was intact: the count of an observer that starts late is exact too.
        let late = CopyReader::new(ring, policy, Start::Latest).unwrap().saved();
        assert!(late.before.records <= RECORDS && late.before.bytes <= late.pos);
    }
    (taken, records, empty)
}

/// The producer yields every `pause` records: on few cores the others then meet it more often.
fn everybody(name: &str, size: u64, policy: Policy, evict: Evict, pause: u64) {
    let heap = HeapRing::new(size, policy).unwrap().evict(evict).report(Report::InStream);
    let (heap, done) = (&heap, &AtomicBool::new(false));
    let started = Instant::now();
    let start = || CopyReader::new(heap.ring(), policy, Start::Oldest).unwrap();
    let (first, second) = (start(), start());
    let (produced, consumed, kept, watched, snaps) = thread::scope(|scope| {
        let consumer = (policy == Policy::Drop).then(|| scope.spawn(|| consume(heap, done)));
        let keeper = (policy == Policy::Overwrite).then(|| {
            let observer = CopyReader::resume(heap.ring()).unwrap();
            scope.spawn(|| observe(heap, done, observer, true))
        });
        let watchers = [first, second].map(|it| scope.spawn(|| observe(heap, done, it, false)));
        let snaps = scope.spawn(|| snap(heap, done));
        let produced = scope.spawn(|| produce(heap, done, pause)).join();
        done.store(true, Ordering::Release);
        (
            produced.unwrap(),
            consumer.map(|it| it.join().unwrap()),
            keeper.map(|it| it.join().unwrap()),
            watchers.map(|it| it.join().unwrap()),
            snaps.join().unwrap(),
        )
    });
    let totals = RingTotals::read(heap.ring(), policy).unwrap();
    let sums = produced.producer;
    assert_eq!(totals.producer, sums);
    for watcher in &watched {
        assert_eq!(watcher.read.plus(watcher.lapped), sums.written, "observer: read + lapped");
    }
    println!(
        "{name}: {} written, {} full, {} overwritten; observers read {:?} and lost {:?} in {:?} \
         laps; {} snapshots of {} records, {} empty; {:?}",
        sums.written.records,
        sums.refused.full.records,
        produced.overwritten.records,
        watched.each_ref().map(|it| it.read.records),
        watched.each_ref().map(|it| it.lapped.records),
        watched.each_ref().map(|it| it.laps),
        snaps.0,
        snaps.1,
        snaps.2,
        started.elapsed(),
    );
    if let Some((read, offered)) = consumed {
        println!("{name}: the consumer read {}", read.records);
        assert_eq!(read, sums.written, "written = read, when all is read");
        assert_eq!(totals.consumer.read, read);
        assert_eq!(totals.present, Count::default());
        let unreported = totals.unreported().records;
        assert_eq!(offered + unreported, sums.written.records + sums.refused.full.records);
    }
    if let Some(kept) = kept {
        println!("{name}: the keeper read {}", kept.read.records);
        assert_eq!(totals.consumer.read, kept.read);
        assert_eq!(totals.consumer.lapped, kept.lapped);
        assert_eq!(kept.read.plus(kept.lapped), sums.written);
        assert_eq!(totals.overwritten.plus(totals.present), sums.written);
    }
}

#[test]
fn everybody_at_once_on_a_drop_ring() {
    everybody("drop, 4 KiB", 4096, Policy::Drop, Evict::Exact, u64::MAX);
    everybody("drop, large", LARGE, Policy::Drop, Evict::Exact, u64::MAX);
}

#[test]
fn everybody_at_once_on_an_overwrite_ring() {
    everybody("overwrite, 4 KiB", 4096, Policy::Overwrite, Evict::Exact, 30);
    everybody("overwrite, larger", MIDDLE, Policy::Overwrite, Evict::Exact, u64::MAX);
}

#[test]
fn everybody_at_once_on_a_ring_that_is_evicted_by_halves() {
    everybody("halves, 4 KiB", 4096, Policy::Overwrite, Evict::Half, 30);
    everybody("halves, larger", MIDDLE, Policy::Overwrite, Evict::Half, u64::MAX);
}
