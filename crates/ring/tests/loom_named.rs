//! Named consumers under loom: the producer moves the tail past what all have released, while they
//! read, join, sleep and leave.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom_named::
//! ```
#![cfg(loom)]

use crate::loom_model::model;
use loom::sync::Arc;
use loom::thread;
use perfring_abi::{Policy, RecordType, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    End, Fences, Next, Owed, Place, Reader, Refusal, Ring, System, Wake, Writer, drop_dead,
    full_fence,
};
use std::sync::atomic::Ordering::Relaxed;

/// Nobody is dead, but for those that `drop_dead` is told of.
#[derive(Clone, Copy)]
struct Dead(&'static [u32]);

impl System for Dead {
    fn is_alive(&self, _slot: u32) -> bool {
        true
    }

    fn relax(&self, _round: u32) {}

    fn now_ns(&self) -> u64 {
        1
    }

    fn drop_dead(&self, ring: Ring<'_>) -> bool {
        drop_dead(ring, |seat| self.0.contains(&seat))
    }
}

fn heap(size: u64) -> Arc<HeapRing> {
    let heap = HeapRing::new(size, Policy::Drop).unwrap().report(Report::CountersOnly);
    Arc::new(heap.consumers(2))
}

fn writer(heap: &HeapRing, dead: &'static [u32]) -> Writer {
    let writer = Writer::attach(heap.ring(), heap.layout(), Fences::Full).unwrap();
    writer.with_consumers(std::sync::Arc::new(Dead(dead)))
}

fn join(heap: &HeapRing, seat: u32) -> Reader {
    Reader::join(heap.ring(), heap.seat(seat).unwrap(), Fences::Full).unwrap()
}

/// Bytes of a record with two words of payload.
const SIZE: u64 = 24;

fn publish(writer: &mut Writer, ring: Ring<'_>, id: u64) -> Result<bool, Refusal> {
    let reserved = writer.reserve(ring, RecordType::BYTES, 16, 0)?;
    let bytes: Vec<u8> = [id, !id].iter().flat_map(|word| word.to_ne_bytes()).collect();
    writer.fill(ring, &reserved, &bytes);
    let len = reserved.len();
    let _ = writer.end(ring, reserved, len, End::Hold);
    Ok(writer.publish(ring, Wake::Auto).is_due())
}

/// Reads what is there: each record whole, at its own position. Returns how many losses there were.
fn read_all(reader: &mut Reader, ring: Ring<'_>) -> u64 {
    let mut lost = 0;
    while let Some(found) = reader.next(ring).unwrap().0 {
        match found {
            Next::Record(Place::Ring(frame)) => {
                let id = frame.pos / SIZE + 1;
                let words = [0, 8].map(|at| ring.load(frame.payload_pos() + at));
                assert_eq!(words, [id, !id], "a record that was overwritten");
            }
            Next::Lost(loss) => lost += loss.records,
            Next::Record(Place::Aux(..)) => panic!("{found:?}"),
        }
    }
    lost
}

/// S, T: who joins while the tail is moved begins where it will be, or is waited for.
#[test]
fn a_consumer_that_joins_while_the_tail_is_moved_is_not_passed() {
    model("join", 2, |stopped| {
        let heap = heap(64);
        let ring = heap.ring();
        let mut writer = writer(&heap, &[]);
        let mut first = join(&heap, 0);
        publish(&mut writer, ring, 1).unwrap();
        publish(&mut writer, ring, 2).unwrap();
        read_all(&mut first, ring);
        let _ = first.release(ring);
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                let there_was_room = publish(&mut writer, heap.ring(), 3).is_ok();
                (there_was_room, writer)
            })
        };
        let mut second = join(&heap, 1);
        second.hold(); // it releases nothing
        let began = second.cursor();
        let lost = read_all(&mut second, heap.ring());
        assert_eq!(lost, began / SIZE);
        let (there_was_room, _writer) = producer.join().unwrap();
        assert!(heap.ring().tail() <= began, "the tail has passed a consumer");
        // Where one has joined there is no room; one that went on may have been waited for on the way.
        assert!(!there_was_room || began != 0);
        stopped.fetch_add(u64::from(!there_was_room), Relaxed);
        read_all(&mut second, heap.ring());
    });
}

/// D over two steps: from each consumer to its producer. That C is a release is not seen here: loom lets
/// no load see a later store, and named consumers store nothing to the data.
#[test]
fn what_any_consumer_has_not_released_is_not_overwritten() {
    model("two consumers", 3, |wrapped| {
        let heap = heap(64);
        let mut writer = writer(&heap, &[]);
        let (mut first, mut second) = (join(&heap, 0), join(&heap, 1));
        publish(&mut writer, heap.ring(), 1).unwrap();
        publish(&mut writer, heap.ring(), 2).unwrap();
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || publish(&mut writer, heap.ring(), 3).is_ok())
        };
        let consumer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || {
                read_all(&mut first, heap.ring());
                let _ = first.release(heap.ring());
            })
        };
        read_all(&mut second, heap.ring());
        let _ = second.release(heap.ring());
        consumer.join().unwrap();
        wrapped.fetch_add(u64::from(producer.join().unwrap()), Relaxed);
        read_all(&mut second, heap.ring());
    });
}

/// K, L, where each of two consumers may be the slowest when the other looks. The fence between them is
/// not seen here: to loom the light fence of K is a full one.
#[test]
fn of_the_slowest_consumers_one_wakes_the_producer() {
    model("space of two", 3, |sleeps| {
        let heap = heap(32);
        let mut writer = writer(&heap, &[]);
        let (mut first, mut second) = (join(&heap, 0), join(&heap, 1));
        publish(&mut writer, heap.ring(), 1).unwrap();
        assert_eq!(publish(&mut writer, heap.ring(), 2), Err(Refusal::Full));
        read_all(&mut first, heap.ring());
        read_all(&mut second, heap.ring());
        let release = |mut reader: Reader| {
            let heap = Arc::clone(&heap);
            thread::spawn(move || reader.release(heap.ring()))
        };
        let (one, other) = (release(first), release(second));
        let target = writer.tail_for(heap.ring(), 16);
        let slept = heap.ring().prepare_space_sleep(target, full_fence);
        let woken = [one.join().unwrap(), other.join().unwrap()].map(Owed::is_due);
        if let Some(seq) = slept {
            assert!(woken.contains(&true), "it sleeps and is not woken");
            assert_ne!(seq, heap.ring().space_word().load(Relaxed), "it would continue to sleep");
            sleeps.fetch_add(1, Relaxed);
        }
        publish(&mut writer, heap.ring(), 2).unwrap();
    });
}

/// I, J with two sleepers on one word, of which one gives up.
#[test]
fn a_sleeper_that_gives_up_takes_nobodys_wake() {
    model("two sleepers", 3, |sleeps| {
        let heap = heap(64);
        let mut writer = writer(&heap, &[]);
        let other = {
            let heap = Arc::clone(&heap);
            // Sleeps, and gives up: it stores nothing.
            thread::spawn(move || heap.ring().prepare_named_sleep(0, full_fence))
        };
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || publish(&mut writer, heap.ring(), 1).unwrap())
        };
        let slept = heap.ring().prepare_named_sleep(0, full_fence);
        producer.join().unwrap();
        other.join().unwrap();
        if let Some(seq) = slept {
            assert_ne!(seq, heap.ring().wait_word().load(Relaxed), "it would continue to sleep");
            sleeps.fetch_add(1, Relaxed);
        }
    });
}

/// What a dead consumer held is given back, and no more.
#[test]
fn a_dead_consumer_holds_nobody_up_and_takes_nothing_of_a_live_one() {
    model("dead", 3, |wrapped| {
        let heap = heap(64);
        let mut writer = writer(&heap, &[0]);
        let (_dead, mut alive) = (join(&heap, 0), join(&heap, 1));
        publish(&mut writer, heap.ring(), 1).unwrap();
        publish(&mut writer, heap.ring(), 2).unwrap();
        let producer = {
            let heap = Arc::clone(&heap);
            thread::spawn(move || publish(&mut writer, heap.ring(), 3).is_ok())
        };
        read_all(&mut alive, heap.ring());
        let _ = alive.release(heap.ring());
        read_all(&mut alive, heap.ring());
        wrapped.fetch_add(u64::from(producer.join().unwrap()), Relaxed);
    });
}
