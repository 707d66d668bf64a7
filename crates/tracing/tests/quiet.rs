//! Once warm, events and spans allocate nothing.

use crate::common::{Shape, in_a_child};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use perfring_tracing::options;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use tracing::{debug, info, info_span, warn};
use tracing_subscriber::prelude::*;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts each thread's allocations, also those of the other tests.
struct Counting;

// SAFETY: passes everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Logs something while it is being logged.
struct Talks;

impl std::fmt::Debug for Talks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        debug!(inner = true, "talking");
        f.write_str("Talks")
    }
}

#[test]
fn events_and_spans_allocate_nothing_once_warm() {
    in_a_child("quiet::events_and_spans_allocate_nothing_once_warm", |ring| {
        count(Shape::Ring, ring);
    });
}

#[test]
fn with_rings_per_cpu_they_allocate_nothing_either() {
    in_a_child("quiet::with_rings_per_cpu_they_allocate_nothing_either", |dir| {
        count(Shape::Cpus, dir);
    });
}

fn count(shape: Shape, place: &Path) {
    let layer = shape.layer(place, &options());
    // The first record on another CPU attaches to its ring.
    let mut here = CpuSet::new();
    here.set(sched_getcpu().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &here).unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    let round = |n: u64| {
        info!("plain");
        warn!(n, text = "some text", real = 0.5, debug = ?[n; 3], "with {n}");
        let span = info_span!("outer", n, late = tracing::field::Empty);
        span.in_scope(|| {
            info_span!("inner", text = "x").in_scope(|| info!(talks = ?Talks, "in it"));
        });
        span.record("late", n);
        span.follows_from(tracing::Span::current());
    };
    // Global: under a scoped one tracing drops what is logged within.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    (0..1000).for_each(round);
    let before = ALLOCATIONS.get();
    (0..100_000).for_each(round); // some hundred MiB: the resource is published again, too
    let after = ALLOCATIONS.get();
    println!("100000 rounds, {} allocations", after - before);
    assert!(before > 0);
    assert_eq!(after - before, 0);
}
