//! Tests that no producer gets memory a second time while it has it open, and that no reservation is refused without reason.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use crate::heap::HeapRing;
use crate::shared::publish::SharedWriter;
use crate::{Fences, OwnerInfo, Reader, Refusal, Reserved, System, Wake};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Policy, RANGE_ALIGN, RecordType, range_size, record_size};
use perfring_testkit::rng::Rng;

const KIND: RecordType = RecordType::BYTES;
const SIZE: u64 = 512;
const AUX: u64 = 4096;

struct Alive;

impl System for Alive {
    fn is_alive(&self, _slot: u32) -> bool {
        true
    }
    fn relax(&self, _round: u32) {}
    fn now_ns(&self) -> u64 {
        0
    }
}

fn join(heap: &HeapRing) -> SharedWriter {
    let who = OwnerInfo::default();
    SharedWriter::attach(heap.shared(), heap.layout(), Fences::Full, 0, &who, &Alive, |_| false)
        .unwrap()
}

/// The memory of a reservation: the area, and the offsets in it.
fn memory(reserved: &Reserved) -> (bool, u64, u64) {
    match reserved.site.is_large() {
        true => (true, reserved.range().unwrap().at, range_size(reserved.len())),
        false => (false, reserved.pos(), record_size(reserved.len())),
    }
}

fn overlap(one: (bool, u64, u64), other: (bool, u64, u64)) -> bool {
    let size = if one.0 { AUX } else { SIZE };
    let between = other.1.wrapping_sub(one.1) % size;
    one.0 == other.0 && (between < one.2 || size - between < other.2)
}

/// A peer moves the positions arbitrarily, mostly by whole rings, while reservations are open.
#[test]
fn no_two_open_reservations_overlap_whatever_another_process_writes() {
    let mut refused = 0;
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let policy = if seed % 2 == 0 { Policy::Drop } else { Policy::Overwrite };
        let heap = HeapRing::new(SIZE, policy).unwrap().with_aux(AUX).many(1);
        let (at, mut writer) = (heap.shared(), join(&heap));
        let mut open: Vec<Reserved> = Vec::new();
        for _ in 0..40 {
            match rng.below(4) {
                0 => {
                    let header = heap.header();
                    let by = [SIZE, SIZE, 3 * SIZE, 8, 64][rng.below(5) as usize];
                    for word in [&header.data_head, &header.data_tail, &header.shared.producer_pos]
                    {
                        word.fetch_add(by, Ordering::Relaxed);
                    }
                    let by = [AUX, 2 * AUX, RANGE_ALIGN][rng.below(3) as usize];
                    header.aux.head.fetch_add(by, Ordering::Relaxed);
                    header.aux.tail.fetch_add(by, Ordering::Relaxed);
                }
                1 if !open.is_empty() => {
                    let reserved = open.swap_remove(rng.below(open.len() as u64) as usize);
                    let _ = writer.commit(at, &Alive, reserved, 0, Wake::Auto);
                }
                _ => {
                    let len = [0, 24, 100, 600, 1500][rng.below(5) as usize];
                    match writer.reserve(at, &Alive, KIND, len, 0) {
                        Ok(reserved) => {
                            let it = memory(&reserved);
                            let other = open.iter().find(|open| overlap(memory(open), it));
                            assert!(other.is_none(), "{seed}: {reserved:?} and {other:?}");
                            open.push(reserved);
                        }
                        Err(Refusal::Corrupt { .. }) => refused += 1,
                        Err(_) => {}
                    }
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// There is always something open, and the oldest is never the same for long.
#[test]
fn nothing_is_refused_that_a_sound_ring_has_room_for() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap().with_aux(AUX).many(1);
    let (at, mut writer) = (heap.shared(), join(&heap));
    let mut reader = Reader::attach(heap.ring(), Fences::Full).unwrap();
    let (mut open, mut reserved) = (VecDeque::new(), 0);
    for round in 0..20_000_usize {
        let len = [24, 100, 600, 0, 1000][round % 5];
        match writer.reserve(at, &Alive, KIND, len, 0) {
            Ok(new) => {
                open.push_back(new);
                reserved += 1;
            }
            Err(refusal) => assert_eq!(refusal, Refusal::Full),
        }
        if open.len() > 1 {
            // Not always the oldest, and never all.
            let ended = open.remove(usize::from(round % 3 == 0)).unwrap();
            let len = ended.len();
            let _ = writer.commit(at, &Alive, ended, len, Wake::Auto);
        }
        while reader.next(heap.ring()).unwrap().0.is_some() {}
        let _ = reader.release(heap.ring());
    }
    assert!(reserved > 10_000, "{reserved}: hundreds of laps");
}
