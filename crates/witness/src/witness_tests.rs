#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use super::*;
use perfring_consumer::{Consumer, Item};
use perfring_producer::{Options, Producer};
use perfring_why::witness::{How, Seat};
use tempfile::TempDir;

/// A ring with a producer and a consumer, both of this process, and its witness.
fn stage() -> (TempDir, Followed, Consumer, Producer, Witness, NamedRing) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders");
    let producer = Producer::create(&path, &Options::default()).unwrap();
    let consumer = Consumer::attach(&*path).unwrap();
    let followed = Followed { location: Location::from(&*path), uuid: producer.layout().uuid };
    let (witness, ring) = Witness::begin(Files::Snapshots, [followed.clone()]).unwrap();
    (dir, followed, consumer, producer, witness, ring)
}

/// Returns what a ring of a witness says of seats.
fn said(snapshot: &Snapshot) -> Vec<(u64, SeatOf, How)> {
    let seat = |item| match item {
        Item::Record(record) if record.is::<Seat>() => {
            let seat: Seat = bytemuck::pod_read_unaligned(&record.bytes[..size_of::<Seat>()]);
            Some((record.time.unwrap(), seat.role.get().unwrap(), seat.how.get().unwrap()))
        }
        _ => None,
    };
    snapshot.iter().filter_map(|item| seat(item.unwrap())).collect()
}

#[test]
fn the_seats_that_one_look_found_together_have_one_time() {
    let (_dir, _, _consumer, _producer, _witness, ring) = stage();
    let all = said(&Snapshot::take(ring.location()).unwrap());
    let [(first, SeatOf::Producer, How::Alive), (second, SeatOf::Consumer, How::Alive)] = all[..]
    else {
        panic!("{all:?}")
    };
    assert_eq!(first, second);
}

#[test]
fn what_holds_when_a_snapshot_begins_is_said_also_if_it_changed_later() {
    let (_dir, followed, consumer, producer, mut witness, _ring) = stage();
    let begun = witness.clock.now_ns();
    drop(consumer);
    witness.hurry();
    witness.look([followed.clone()]);
    let left = witness.clock.now_ns();
    drop(producer);
    witness.hurry();
    witness.look([followed]);
    let of = |from: u64| {
        let mut all = said(&witness.standing(from, u64::MAX, &[]).unwrap());
        all.sort_by_key(|(_, role, _)| *role as u32);
        all
    };
    let (producer, consumer) = (SeatOf::Producer, SeatOf::Consumer);
    assert_eq!(of(begun), [(begun, producer, How::Alive), (begun, consumer, How::Alive)]);
    assert_eq!(of(left), [(left, producer, How::Alive), (left, consumer, How::Detached)]);
    let now = witness.clock.now_ns();
    assert_eq!(of(now), [(now, producer, How::Detached), (now, consumer, How::Detached)]);
}

#[test]
fn a_process_without_a_seat_is_watched_no_more() {
    let (_dir, followed, consumer, producer, mut witness, _ring) = stage();
    let me = std::process::id();
    assert!(witness.processes.contains_key(&me));
    drop(consumer);
    witness.hurry();
    witness.look([followed.clone()]);
    assert!(witness.processes.contains_key(&me), "it has the producer's seat");
    drop(producer);
    witness.hurry();
    witness.look([followed]);
    assert!(witness.processes.is_empty());
}
