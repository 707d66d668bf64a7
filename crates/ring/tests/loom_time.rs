//! The anchors under loom, read while others overwrite the oldest (Q), and perf's fields, as a perf
//! reader reads them (R).
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom_time::
//! ```
#![cfg(loom)]

use crate::loom_model::model;
use loom::sync::Arc;
use loom::thread;
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{ANCHORS, PerfTime, Policy};
use perfring_ring::heap::HeapRing;
use perfring_ring::{Anchors, Fences, Reading, Scale, Writer};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

const SECOND: u64 = 1_000_000_000;

/// A reading whose wall clock is set anew each time, to a value that follows from the clock.
fn reading(n: u64, scale: Option<Scale>) -> Reading {
    let realtime_ns = if scale.is_some() { n } else { n * SECOND };
    Reading { boot: 7, clock_ns: n, realtime_ns, error_ns: 100, scale }
}

fn timed() -> (HeapRing, Writer) {
    let heap = HeapRing::new(64, Policy::Drop).unwrap().timed();
    let writer = Writer::attach(heap.ring(), heap.layout(), Fences::Full).unwrap();
    (heap, writer)
}

/// The reader sees one round of anchors, while two more overwrite the oldest.
#[test]
fn anchors_that_are_read_are_whole() {
    let seen = std::sync::Arc::new([const { Plain::new(0) }; 3]);
    let count = std::sync::Arc::clone(&seen);
    model("", 2, move |_| {
        let (heap, mut writer) = timed();
        for n in 0..ANCHORS as u64 {
            writer.keep_time(heap.ring(), &reading(n, None));
        }
        let heap = Arc::new(heap);
        let writing = thread::spawn({
            let heap = Arc::clone(&heap);
            move || {
                for n in [ANCHORS as u64, ANCHORS as u64 + 1] {
                    writer.keep_time(heap.ring(), &reading(n, None));
                }
            }
        });
        let reading = thread::spawn({
            let heap = Arc::clone(&heap);
            move || Anchors::read(heap.ring())
        });
        let anchors = reading.join().unwrap();
        for pair in anchors.all().windows(2) {
            assert_eq!(pair[0].clock_ns + 1, pair[1].clock_ns, "in order, without a gap");
        }
        for anchor in anchors.all() {
            assert_eq!(anchor.realtime_ns, anchor.clock_ns * SECOND, "a torn anchor");
        }
        let newest = anchors.all().last().unwrap().clock_ns;
        count[(newest + 1 - ANCHORS as u64) as usize].fetch_add(1, Relaxed);
        writing.join().unwrap();
    });
    let seen = [0, 1, 2].map(|more| seen[more].load(Relaxed));
    println!("{seen:?} times none, one and both of the new anchors were there");
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}

/// Like `perf_mmap__read_self`.
fn as_perf_reads(perf: &PerfTime) -> Option<[u64; 2]> {
    let before = perf.lock.load(Ordering::Relaxed);
    fence(Ordering::Acquire); // R, pairs with R
    let fields = [perf.scale.load(Ordering::Relaxed), perf.zero.load(Ordering::Relaxed)];
    fence(Ordering::Acquire); // R, pairs with R
    (before & 1 == 0 && perf.lock.load(Ordering::Relaxed) == before).then_some(fields)
}

#[test]
fn a_perf_reader_gets_fields_of_one_moment() {
    let seen = std::sync::Arc::new([const { Plain::new(0) }; 3]);
    let count = std::sync::Arc::clone(&seen);
    let scale = |n: u64| Scale { shift: n as u16, mult: n as u32, zero: n };
    model("", 2, move |_| {
        let (heap, mut writer) = timed();
        writer.keep_time(heap.ring(), &reading(1, Some(scale(1))));
        let heap = Arc::new(heap);
        let writing = thread::spawn({
            let heap = Arc::clone(&heap);
            move || {
                for n in 2..=3 {
                    writer.keep_time(heap.ring(), &reading(n, Some(scale(n))));
                }
            }
        });
        let reading = thread::spawn({
            let heap = Arc::clone(&heap);
            move || as_perf_reads(&heap.header().perf_time)
        });
        if let Some([packed, zero]) = reading.join().unwrap() {
            assert_eq!(packed, PerfTime::pack(zero as u16, zero as u32), "of two moments");
            count[zero as usize - 1].fetch_add(1, Relaxed);
        }
        writing.join().unwrap();
    });
    let seen = [0, 1, 2].map(|n| seen[n].load(Relaxed));
    println!("{seen:?} times the fields were the first, second and third");
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}
