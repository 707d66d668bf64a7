//! The real algorithm under loom: every interleaving, and every stale value that the orderings
//! allow, of a few operations on a ring of a few words.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom::
//! ```
//!
//! Each letter of the table in `src/lib.rs` was weakened in turn; `README.md` beside this file says
//! which test failed for which.
#![cfg(loom)]

use crate::loom_model::model;
use loom::sync::Arc;
use loom::thread;
use perfring_abi::{Cause, Policy, RecordType, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    CopyReader, Count, End, Fences, Frame, Lost, Next, Place, Reader, Refusal, Ring, RingTotals,
    Start, Wake, WakeAt, Writer, full_fence,
};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

fn heap(size: u64, policy: Policy) -> Arc<HeapRing> {
    Arc::new(HeapRing::new(size, policy).unwrap().report(Report::CountersOnly))
}

fn writer(heap: &HeapRing) -> Writer {
    Writer::attach(heap.ring(), heap.layout(), Fences::Full).unwrap()
}

/// Publishes one record with two words of payload, each of which identifies the record.
fn publish(writer: &mut Writer, ring: Ring<'_>, id: u64) -> Result<bool, Refusal> {
    let reserved = writer.reserve(ring, RecordType::BYTES, 16, 0)?;
    let bytes: Vec<u8> = [id, !id].iter().flat_map(|word| word.to_ne_bytes()).collect();
    writer.fill(ring, &reserved, &bytes);
    let len = reserved.len();
    let _ = writer.end(ring, reserved, len, End::Hold);
    Ok(writer.publish(ring, Wake::Auto).is_due())
}

fn whole(words: &[u64]) -> u64 {
    assert_eq!(words.len(), 2);
    assert_eq!(words[0], !words[1], "a torn record");
    words[0]
}

fn borrowed(heap: &HeapRing, pos: u64) -> u64 {
    let data = heap.data();
    let word = |at: u64| data[(at / 8) as usize % data.len()].load(Relaxed);
    whole(&[word(pos), word(pos + 8)])
}

/// Reads on the fast path, and where that returns nothing, on the other.
fn read(reader: &mut Reader, heap: &HeapRing) -> Option<Frame> {
    reader.next_known::<true>(heap.ring()).or_else(|| match reader.next(heap.ring()).unwrap().0 {
        Some(Next::Record(Place::Ring(frame))) => Some(frame),
        Some(Next::Lost(_) | Next::Record(Place::Aux(..))) | None => None,
    })
}

/// Reads as a holder of several records does: a poll, a peek, and then a pass.
fn hold(reader: &mut Reader, heap: &HeapRing) -> Option<Frame> {
    reader.refresh(heap.ring()).unwrap();
    match reader.peek(heap.ring(), reader.cursor()).unwrap() {
        Some((Next::Record(Place::Ring(frame)), after)) => {
            reader.pass(after, Count { records: 1, bytes: frame.size });
            Some(frame)
        }
        Some((Next::Lost(_) | Next::Record(Place::Aux(..)), _)) | None => None,
    }
}

/// C, D: a line that the consumer write-touches is not one that the producer is writing, nor is it
/// stored over new bytes. The tail is within a line, and the producer writes where that line
/// begins.
#[test]
fn a_line_is_handed_back_before_the_tail_moves_or_never() {
    model("write-touch", 4, |wraps| {
        let heap = heap(64, Policy::Drop);
        let mut writer = writer(&heap);
        let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap().with_hands(true);
        publish(&mut writer, heap.ring(), 1).unwrap();
        publish(&mut writer, heap.ring(), 2).unwrap();
        assert_eq!(read(&mut reader, &heap).map(|frame| frame.pos), Some(0));
        let _ = reader.release(heap.ring());
        let producer = {
            let heap = Arc::clone(&heap);
            // From 48 on: its payload's second word is the ring's first.
            thread::spawn(move || publish(&mut writer, heap.ring(), 3).is_ok())
        };
        let mut got = Vec::new();
        for _ in 0..3 {
            reader.hand_lines(heap.ring());
            if let Some(frame) = read(&mut reader, &heap) {
                got.push(borrowed(&heap, frame.payload_pos()));
            }
        }
        let _ = reader.release(heap.ring());
        assert!(producer.join().unwrap());
        reader.hand_lines(heap.ring());
        while let Some(frame) = read(&mut reader, &heap) {
            got.push(borrowed(&heap, frame.payload_pos()));
        }
        assert_eq!(got, [2, 3]);
        wraps.fetch_add(1, Relaxed);
    });
}

/// What a reader returned: losses, how many of them at the end of the stream, and records.
#[derive(Default)]
struct Told {
    at_end: u64,
    lost: u64,
    records: u64,
}

impl Told {
    fn lose(&mut self, lost: Lost) {
        self.lost += lost.records;
        self.at_end += u64::from(lost.at_end);
    }
}

/// A, B, G, H: a reader at the end is told a loss once, by the counters or by the marker that is written meanwhile.
/// `turn` reads once, and returns whether there was something.
fn a_loss_is_told_once<R>(
    name: &str,
    attach: fn(Ring<'_>) -> R,
    turn: fn(&mut R, Ring<'_>, &mut Told) -> bool,
) where
    R: 'static,
{
    model(name, 3, move |by_marker| {
        let heap = Arc::new(HeapRing::new(128, Policy::Drop).unwrap());
        let mut writer = writer(&heap);
        let mut reader = attach(heap.ring());
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                let refusal = Refusal::TooLarge { max: 1 };
                let _ = writer.refuse(heap.ring(), refusal, 1000);
                publish(&mut writer, heap.ring(), 1).unwrap() // behind a marker
            })
        };
        let mut told = Told::default();
        for _ in 0..2 {
            turn(&mut reader, heap.ring(), &mut told);
        }
        producer.join().unwrap();
        while turn(&mut reader, heap.ring(), &mut told) {}
        assert_eq!((told.lost, told.records), (1, 1), "each once");
        by_marker.fetch_add(u64::from(told.at_end == 0), Relaxed);
    });
}

#[test]
fn a_loss_is_told_once_at_the_end_or_by_its_marker() {
    let attach =
        |ring: Ring<'_>| Reader::attach(ring, Fences::Full).unwrap().with_losses(ring.into(), 0);
    a_loss_is_told_once("told a consumer by the marker", attach, |reader, ring, told| {
        match reader.next(ring).unwrap().0 {
            Some(Next::Record(Place::Ring(_))) => told.records += 1,
            Some(Next::Lost(lost)) => told.lose(lost),
            Some(Next::Record(Place::Aux(..))) => panic!("without an AUX area"),
            None => {
                let lost = reader.lost(ring.into(), false);
                lost.map(|lost| told.lose(lost));
                return lost.is_some();
            }
        }
        true
    });
}

#[test]
fn an_observer_is_told_a_loss_once_at_the_end_or_by_its_marker() {
    let attach = |ring: Ring<'_>| {
        CopyReader::new(ring, Policy::Drop, Start::Oldest).unwrap().with_losses(ring.into(), 0)
    };
    a_loss_is_told_once("told an observer by the marker", attach, |observer, ring, told| {
        match observer.next(ring).unwrap() {
            Some(Next::Record(_)) => told.records += 1,
            Some(Next::Lost(lost)) => told.lose(lost),
            None => return false,
        }
        true
    });
}

/// A, B, C, D.
#[test]
fn a_drop_rings_record_is_never_torn_and_no_loss_uncounted() {
    model("drop", 4, |wraps| {
        // Room for one record: the second goes where the first was, once that is released.
        let heap = heap(32, Policy::Drop);
        let mut writer = writer(&heap);
        let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap().with_hands(true);
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                let mut refused = 0;
                for id in 1..=2 {
                    if let Err(refusal) = publish(&mut writer, heap.ring(), id) {
                        let _ = writer.refuse(heap.ring(), refusal, 16);
                        refused += 1;
                    }
                }
                refused
            })
        };
        let mut got = Vec::new();
        for _ in 0..2 {
            if let Some(frame) = read(&mut reader, &heap) {
                got.push(borrowed(&heap, frame.payload_pos()));
            }
            let _ = reader.release(heap.ring());
            thread::yield_now();
        }
        let refused = producer.join().unwrap();
        while let Some(frame) = read(&mut reader, &heap) {
            got.push(borrowed(&heap, frame.payload_pos()));
        }
        let _ = reader.release(heap.ring());
        assert!(got.is_sorted() && got.len() as u64 + refused == 2, "{got:?}, {refused} refused");
        let totals = RingTotals::read(heap.ring(), Policy::Drop).unwrap();
        assert_eq!(totals.producer.refused.full.records, refused);
        assert_eq!(totals.consumer.read.records, got.len() as u64);
        if got.len() == 2 {
            wraps.fetch_add(1, Relaxed);
        }
    });
}

fn observe(
    heap: &HeapRing,
    observer: &mut CopyReader,
    polls: u32,
    hits: &Plain,
) -> (Vec<u64>, u64) {
    let (mut got, mut lost) = (Vec::new(), 0);
    for _ in 0..polls {
        match observer.next(heap.ring()) {
            Ok(Some(Next::Record((_, words)))) => got.push(whole(words)),
            Ok(Some(Next::Lost(reported))) => {
                assert_eq!(reported.cause, Cause::Lapped);
                lost += reported.records;
                hits.fetch_add(1, Relaxed);
            }
            Ok(None) => thread::yield_now(),
            Err(corrupt) => panic!("{corrupt}"),
        }
    }
    (got, lost)
}

/// E, F (and A, B, G, H on the way).
#[test]
fn an_observer_never_sees_a_torn_record_and_counts_what_it_lost() {
    model("overwrite", 4, |laps| {
        let heap = heap(32, Policy::Overwrite);
        let mut writer = writer(&heap);
        publish(&mut writer, heap.ring(), 1).unwrap();
        let mut observer = CopyReader::new(heap.ring(), Policy::Overwrite, Start::Oldest).unwrap();
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                publish(&mut writer, heap.ring(), 2).unwrap();
            })
        };
        let (mut got, mut lost) = observe(&heap, &mut observer, 2, laps);
        producer.join().unwrap();
        let (more, after) = observe(&heap, &mut observer, 3, laps);
        got.extend(more);
        lost += after;
        assert!(got.is_sorted() && got.len() as u64 + lost == 2, "{got:?} and {lost} lost");
        assert_eq!(observer.lapped(), Count { records: lost, bytes: lost * 24 });
    });
}

/// E, F where a producer of an overwrite ring evicts one record and nothing else is due, and the
/// new record covers the first word of the evicted one: a record of 16 bytes at `pos`.
fn observed_eviction(name: &str, size: u64, lens: &'static [usize], pos: u64) {
    model(name, 4, move |laps| {
        let heap = heap(size, Policy::Overwrite);
        let mut writer = writer(&heap);
        let mut put = move |heap: &HeapRing, len: usize| {
            let ring = heap.ring();
            let reserved = writer.reserve(ring, RecordType::BYTES, len, 0).unwrap();
            writer.fill(ring, &reserved, &[0xff; 16][..len]);
            let len = reserved.len();
            let _ = writer.end(ring, reserved, len, End::Hold);
            let _ = writer.publish(ring, Wake::Auto);
        };
        for len in lens {
            put(&heap, *len);
        }
        let mut observer = CopyReader::new(heap.ring(), Policy::Overwrite, Start::Oldest).unwrap();
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || put(&heap, 8))
        };
        match observer.next(heap.ring()) {
            Ok(Some(Next::Record((frame, words)))) => {
                assert_eq!((frame.pos, frame.len, words), (pos, 16, &[u64::MAX; 2][..]));
            }
            Ok(Some(Next::Lost(lost))) => {
                assert_eq!((lost.records, lost.bytes), (1, 24));
                laps.fetch_add(1, Relaxed);
            }
            other => panic!("{other:?}"),
        }
        producer.join().unwrap();
    });
}

/// The producer walks to what it evicts.
#[test]
fn an_observer_of_the_short_way_never_sees_a_torn_record() {
    // The last totals are at 104, the head at 120: the next record evicts the first.
    observed_eviction("short path", 128, &[16, 8, 8, 8, 8, 8, 8], 0);
}

/// It knows what to evict from the eviction before: no walk, and a fence of its own.
#[test]
fn an_observer_of_what_is_known_to_go_never_sees_a_torn_record() {
    // The one that ends at 256 evicts the first, at 0, and learns where the second ends; the last
    // totals are at 256. The next but one evicts the second.
    let lens = &[16, 16, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8];
    observed_eviction("known", 256, lens, 24);
}

/// E, F of a range of the AUX area, while its record remains where it was copied.
#[test]
fn an_observer_of_a_range_never_sees_a_torn_payload() {
    model("range", 3, |laps| {
        let heap = HeapRing::new(64, Policy::Overwrite).unwrap().report(Report::CountersOnly);
        let heap = Arc::new(heap.with_aux(64));
        let mut writer = writer(&heap);
        let mut put = move |heap: &HeapRing, byte: u8| {
            let ring = heap.ring();
            let reserved = writer.reserve(ring, RecordType::BYTES, 64, 0).unwrap();
            // Only the last words, which are copied last and written first.
            let at = reserved.range().unwrap().at + 48;
            heap.fill_range(perfring_ring::AuxRange { at, len: 16 }, &[byte; 16]);
            let _ = writer.end(ring, reserved, 64, End::Publish(Wake::Auto));
        };
        put(&heap, 1);
        let observer = CopyReader::new(heap.ring(), Policy::Overwrite, Start::Oldest).unwrap();
        let mut observer = observer.with_aux(64);
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || put(&heap, 2))
        };
        match observer.next_in(heap.ring().into(), heap.aux()) {
            Ok(Some(Next::Record((frame, words)))) => {
                assert_eq!(frame.len, 64);
                let byte = if frame.pos == 0 { 1 } else { 2 };
                assert_eq!(words[6..], [u64::from_ne_bytes([byte; 8]); 2]);
            }
            Ok(Some(Next::Lost(lost))) => {
                assert_eq!((lost.records, lost.bytes), (1, 48));
                laps.fetch_add(1, Relaxed);
            }
            other => panic!("{other:?}"),
        }
        producer.join().unwrap();
    });
}

/// E, F on a drop ring, whose tail the consumer moves: C, D, E, F.
#[test]
fn an_observer_of_a_drop_ring_never_sees_a_torn_record() {
    model("drop observed", 4, |laps| {
        let heap = heap(32, Policy::Drop);
        let mut writer = writer(&heap);
        publish(&mut writer, heap.ring(), 1).unwrap();
        let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap().with_hands(true);
        let mut observer = CopyReader::new(heap.ring(), Policy::Drop, Start::Oldest).unwrap();
        let consumer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                assert!(reader.next(heap.ring()).unwrap().0.is_some());
                let _ = reader.release(heap.ring());
            })
        };
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                let _ = publish(&mut writer, heap.ring(), 2);
            })
        };
        let (got, lost) = observe(&heap, &mut observer, 1, laps);
        assert!(got.len() as u64 + lost == 1);
        consumer.join().unwrap();
        producer.join().unwrap();
    });
}

/// E, F by the totals: on a drop ring whose consumer keeps up, the tail does not show what the
/// producer overwrites, and the totals do.
#[test]
fn a_late_comers_count_is_of_records_that_stood() {
    model("late-comer", 2, |counted| {
        let heap = heap(32, Policy::Drop);
        let mut writer = writer(&heap);
        let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap().with_hands(true);
        publish(&mut writer, heap.ring(), 1).unwrap();
        assert!(reader.next(heap.ring()).unwrap().0.is_some());
        let _ = reader.release(heap.ring());
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || publish(&mut writer, heap.ring(), 2).unwrap())
        };
        let saved = CopyReader::new(heap.ring(), Policy::Drop, Start::Latest).unwrap().saved();
        assert_eq!(saved.before.records * 24, saved.pos);
        assert_eq!(saved.before.bytes, saved.pos);
        counted.fetch_add(u64::from(saved.pos > 0), Relaxed);
        producer.join().unwrap();
    });
}

/// The bytes of a ring as loom sees plain memory: loom fails the test when two accesses of which
/// one writes are not ordered, whatever values they saw.
struct Plainly(Vec<loom::cell::UnsafeCell<()>>);

// SAFETY: nothing is ever read or written through the cells, loom only keeps account of them.
unsafe impl Sync for Plainly {}

/// A and B, C and D: payloads are plain bytes to a process that maps the ring.
#[test]
fn payloads_need_no_atomics_between_producer_and_consumer() {
    model("plain bytes", 4, |wraps| {
        let heap = heap(32, Policy::Drop);
        let plainly = (0..4).map(|_| loom::cell::UnsafeCell::new(())).collect();
        let plainly = Arc::new(Plainly(plainly));
        let places = |pos: u64| [pos, pos + 8].map(|pos| (pos / 8) as usize % 4);
        let mut writer = writer(&heap);
        let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap().with_hands(true);
        let producer = {
            let (heap, plainly) = (Arc::clone(&heap), Arc::clone(&plainly));
            thread::spawn(move || {
                for _ in 0..2 {
                    let ring = heap.ring();
                    if let Ok(reserved) = writer.reserve(ring, RecordType::BYTES, 16, 0) {
                        for at in places(reserved.payload_pos()) {
                            plainly.0[at].with_mut(drop);
                        }
                        let len = reserved.len();
                        let _ = writer.end(ring, reserved, len, End::Hold);
                        let _ = writer.publish(ring, Wake::Auto);
                    }
                }
            })
        };
        for turn in 0..2 {
            let frame = if turn == 0 { read(&mut reader, &heap) } else { hold(&mut reader, &heap) };
            if let Some(frame) = frame {
                for at in places(frame.payload_pos()) {
                    plainly.0[at].with(drop);
                }
                wraps.fetch_add(turn, Relaxed);
            }
            let _ = reader.release(heap.ring());
            thread::yield_now();
        }
        producer.join().unwrap();
    });
}

/// I, J.
#[test]
fn a_consumer_never_sleeps_past_a_record() {
    model("sleep", 4, |sleeps| {
        let heap = heap(32, Policy::Drop);
        let mut writer = writer(&heap);
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || publish(&mut writer, heap.ring(), 1).unwrap())
        };
        let slept = heap.ring().prepare_sleep(0, 0, WakeAt::Record, full_fence);
        let woken = producer.join().unwrap();
        if let Some(seq) = slept {
            assert!(woken, "it sleeps and is not woken");
            assert_ne!(
                seq,
                heap.ring().wait_word().load(Relaxed),
                "the futex would continue to sleep"
            );
            sleeps.fetch_add(1, Relaxed);
        }
    });
}

/// I, J with the targets of a threshold: a second sleep with another target than the first.
#[test]
fn a_sleeper_is_woken_at_its_own_threshold() {
    model("threshold", 4, |sleeps| {
        let heap = heap(128, Policy::Drop);
        let mut writer = writer(&heap);
        let ring = heap.ring();
        assert!(ring.prepare_sleep(0, 0, WakeAt::Bytes(64), full_fence).is_some());
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                publish(&mut writer, heap.ring(), 1).unwrap();
                publish(&mut writer, heap.ring(), 2).unwrap()
            })
        };
        ring.end_sleep();
        let slept = ring.prepare_sleep(0, 0, WakeAt::Records(2), full_fence);
        producer.join().unwrap();
        if let Some(seq) = slept {
            assert_ne!(seq, ring.wait_word().load(Relaxed), "two records, and it is not woken");
            sleeps.fetch_add(1, Relaxed);
        }
    });
}

/// K, L.
#[test]
fn a_producer_never_sleeps_past_free_space() {
    model("space", 4, |sleeps| {
        let heap = heap(32, Policy::Drop);
        let mut writer = writer(&heap);
        publish(&mut writer, heap.ring(), 1).unwrap();
        assert_eq!(publish(&mut writer, heap.ring(), 2), Err(Refusal::Full));
        let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap().with_hands(true);
        assert!(reader.next(heap.ring()).unwrap().0.is_some());
        let consumer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || reader.release(heap.ring()))
        };
        let target = writer.tail_for(heap.ring(), 16);
        let slept = heap.ring().prepare_space_sleep(target, full_fence);
        let woken = consumer.join().unwrap();
        if let Some(seq) = slept {
            assert!(woken.is_due(), "it sleeps and is not woken");
            assert_ne!(
                seq,
                heap.ring().space_word().load(Relaxed),
                "the futex would continue to sleep"
            );
            sleeps.fetch_add(1, Relaxed);
        }
    });
}

/// G, H: the tail mark, of which three writes in two copies an observer reads as it starts.
#[test]
fn a_reader_of_a_latch_always_gets_a_whole_copy() {
    model("sequence latch", 4, |changes| {
        let heap = heap(32, Policy::Overwrite);
        let mut writer = writer(&heap);
        publish(&mut writer, heap.ring(), 1).unwrap();
        publish(&mut writer, heap.ring(), 2).unwrap();
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                for id in 3..=4 {
                    publish(&mut writer, heap.ring(), id).unwrap();
                }
            })
        };
        // A live producer can outrun the few tries that an observer has here.
        if let Ok(observer) = CopyReader::new(heap.ring(), Policy::Overwrite, Start::Oldest) {
            let saved = observer.saved();
            assert_eq!(saved.before.bytes, saved.pos, "a torn mark");
            assert_eq!(saved.before.records * 24, saved.pos, "a torn mark");
            changes.fetch_add(u64::from(saved.pos > 24), Relaxed);
        }
        producer.join().unwrap();
    });
}
