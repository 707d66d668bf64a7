//! The producers of a shared heap ring, for tests of one thread.
#![cfg(not(loom))]

use perfring_ring::heap::HeapRing;
use perfring_ring::{Fences, OwnerInfo, SharedWriter, System};
use std::cell::RefCell;
use std::collections::HashSet;

/// System as the test sets it, without waiting, at a constant time.
#[derive(Default)]
pub(crate) struct Reported {
    pub(crate) dead: RefCell<HashSet<u32>>,
}

impl System for Reported {
    fn is_alive(&self, slot: u32) -> bool {
        !self.dead.borrow().contains(&slot)
    }

    fn relax(&self, _round: u32) {}

    fn now_ns(&self) -> u64 {
        1
    }
}

pub(crate) fn attach_at(heap: &HeapRing, liveness: &Reported, slot: u32) -> SharedWriter {
    let (at, who) = (heap.shared(), OwnerInfo::default());
    SharedWriter::attach(at, heap.layout(), Fences::Full, slot, &who, liveness, |_| false).unwrap()
}
