//! Named consumers on a heap ring: one that is stopped while it joins.
#![cfg(not(loom))]

use perfring_abi::{Policy, RecordType, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    End, Fences, Owed, OwnerInfo, Reader, Refusal, Ring, System, Wake, Writer, drop_dead,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the consumer of seat 1 is dead.
#[derive(Clone, Default)]
struct SecondDied(Arc<AtomicBool>);

impl System for SecondDied {
    fn is_alive(&self, _slot: u32) -> bool {
        true
    }

    fn relax(&self, _round: u32) {}

    fn now_ns(&self) -> u64 {
        1
    }

    fn drop_dead(&self, ring: Ring<'_>) -> bool {
        drop_dead(ring, |seat| seat == 1 && self.0.load(Ordering::Relaxed))
    }
}

fn publish(writer: &mut Writer, ring: Ring<'_>) -> Result<Owed, Refusal> {
    let reserved = writer.reserve(ring, RecordType::BYTES, 120, 0)?;
    writer.fill(ring, &reserved, &[7; 120]);
    let len = reserved.len();
    let _ = writer.end(ring, reserved, len, End::Hold);
    Ok(writer.publish(ring, Wake::Auto))
}

fn fill(writer: &mut Writer, ring: Ring<'_>) -> (u64, Refusal) {
    let mut records = 0;
    loop {
        match publish(writer, ring) {
            Ok(_) => records += 1,
            Err(refusal) => return (records, refusal),
        }
    }
}

fn read_all(reader: &mut Reader, ring: Ring<'_>) {
    while reader.next(ring).unwrap().0.is_some() {}
    let _ = reader.release(ring);
}

/// The producer has moved the tail twice since a consumer looked where to join (T).
#[test]
fn one_that_is_stopped_while_it_joins_is_waited_for_and_no_damage() {
    let heap = HeapRing::new(4096, Policy::Drop).unwrap().report(Report::CountersOnly).consumers(2);
    let (ring, died) = (heap.ring(), SecondDied::default());
    let writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
    let mut writer = writer.with_consumers(Arc::new(died.clone()));
    let mut reader = Reader::join(ring, heap.seat(0).unwrap(), Fences::Full).unwrap();
    for _ in 0..3 {
        assert_eq!(fill(&mut writer, ring).1, Refusal::Full);
        read_all(&mut reader, ring);
    }
    let _ = publish(&mut writer, ring).unwrap();
    let tail = ring.tail();
    assert!(tail > 0);
    // It stores a tail that the producer has passed since, and is stopped there.
    let joins = &ring.header().named_tails[1][0];
    joins.store(1, Ordering::Relaxed);
    assert_eq!(fill(&mut writer, ring).1, Refusal::Full);
    read_all(&mut reader, ring);
    assert_eq!((fill(&mut writer, ring).1, ring.tail()), (Refusal::Full, tail));
    // Killed there, it is dropped when the next search is due.
    died.0.store(true, Ordering::Relaxed);
    let refused = (0..1000).take_while(|_| publish(&mut writer, ring).is_err()).count();
    assert!(refused < 1000, "it holds the ring up for good");
    assert_eq!((joins.load(Ordering::Relaxed), ring.tail() > tail), (0, true));
}

/// A program that does not know `told` takes a dead consumer's seat and leaves `told` there. The next name gets every loss.
#[test]
fn what_one_name_was_told_does_not_count_for_another() {
    let heap = HeapRing::new(4096, Policy::Drop).unwrap().consumers(2);
    let (ring, at) = (heap.ring(), heap.shared());
    let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
    let join = |name: &str| {
        let mut seat = heap.seat(0).unwrap();
        seat.sign(&OwnerInfo { name: name.to_owned(), ..OwnerInfo::default() });
        Reader::join(ring, seat, Fences::Full).unwrap().with_losses(at, 0)
    };
    let told = |reader: &mut Reader| {
        read_all(reader, ring);
        let lost = reader.lost(at, true).map_or(0, |lost| lost.records);
        let _ = reader.release(ring);
        lost
    };
    let (_, refusal) = fill(&mut writer, ring);
    let _ = writer.refuse(ring, refusal, 120);
    assert_eq!(told(&mut join("one")), 1);
    assert_eq!(told(&mut join("one")), 0, "the same name, after a death");
    // As an earlier program clears the seat: its tail and its totals.
    assert_eq!(told(&mut join("two")), 1, "another name");
    assert_eq!(told(&mut join("two")), 0);
    heap.seat(0).unwrap().clear(ring);
    assert_eq!(told(&mut join("one")), 1, "this one is new again");
}
