//! What a seat says of its last holder: whoever gave it up said so, and nobody says it for another.
#![cfg(not(loom))]

use perfring_abi::Policy;
use perfring_ring::heap::HeapRing;
use perfring_ring::{Fences, OwnerInfo, SeatState, SharedWriter, System, Unattached, sign_off};
use std::sync::atomic::Ordering;

/// Nobody is dead.
struct AllAlive;

impl System for AllAlive {
    fn is_alive(&self, _slot: u32) -> bool {
        true
    }

    fn relax(&self, _round: u32) {}

    fn now_ns(&self) -> u64 {
        0
    }
}

fn ring() -> HeapRing {
    HeapRing::new(4096, Policy::Drop).unwrap().many(2)
}

fn attach(heap: &HeapRing, slot: u32) -> Result<SharedWriter, Unattached> {
    let who = OwnerInfo { pid: 17, uid: 1000, ..OwnerInfo::default() };
    SharedWriter::attach(heap.shared(), heap.layout(), Fences::Full, slot, &who, &AllAlive, |_| {
        false
    })
}

fn owner(heap: &HeapRing, slot: usize) -> OwnerInfo {
    OwnerInfo::read(&heap.shared().slots()[slot].holder)
}

#[test]
fn a_holder_is_dead_until_it_has_detached_and_so_is_the_next_one() {
    let heap = ring();
    assert_eq!(owner(&heap, 0).state(false), SeatState::Free);
    for epoch in 1..4 {
        let mut writer = attach(&heap, 0).unwrap();
        let of = owner(&heap, 0);
        assert_eq!((of.state(true), of.state(false)), (SeatState::Alive, SeatState::Dead));
        assert_eq!((of.epoch, of.user()), (epoch, Some(1000)));
        let _ = writer.detach(heap.shared(), &AllAlive);
        let of = owner(&heap, 0);
        assert_eq!((of.state(true), of.state(false)), (SeatState::Alive, SeatState::Detached));
        assert_eq!((of.epoch, of.pid, of.user()), (epoch, 17, None));
    }
}

#[test]
fn who_could_not_attach_has_not_died() {
    let heap = ring();
    // Held by slot 0, which is alive.
    heap.header().shared.lock.store(1 | 1 << 16, Ordering::Relaxed);
    assert!(matches!(attach(&heap, 1), Err(Unattached::Contended { slot: 0 })));
    assert_eq!(owner(&heap, 1).state(false), SeatState::Detached);
}

#[test]
fn an_attach_that_waits_for_the_lock_counts_once() {
    let heap = ring();
    let lock = &heap.header().shared.lock;
    lock.store(1 | 1 << 16, Ordering::Relaxed);
    let mut tries = 0;
    let again = |slot| {
        tries += 1;
        if tries == 3 {
            lock.store(0, Ordering::Relaxed);
        }
        slot == 0
    };
    let (at, who) = (heap.shared(), OwnerInfo::default());
    let _writer =
        SharedWriter::attach(at, heap.layout(), Fences::Full, 1, &who, &AllAlive, again).unwrap();
    assert_eq!((tries, owner(&heap, 1).epoch), (3, 1));
}

#[test]
fn nobody_signs_off_for_another() {
    let heap = ring();
    let mut older = attach(&heap, 0).unwrap();
    // The lock has not kept the two apart.
    let _newer = attach(&heap, 0).unwrap();
    let _ = older.detach(heap.shared(), &AllAlive);
    assert_eq!(owner(&heap, 0).state(false), SeatState::Dead);
    sign_off(&heap.shared().slots()[1].holder, 0);
    assert_eq!(owner(&heap, 1), OwnerInfo::default(), "a seat that was never signed");
}
