//! The functions of a shared ring's window that a ring per CPU needs, without borrows of the window.

use crate::map::handler_mutex::{HandlerGuard, HandlerMutex};
use crate::map::reservation::{SharedSpace, Space};
use crate::map::shared_window::SharedWindow;
use crate::sys::fork;
use crate::sys::rseq::{Held, SequenceRing};
use perfring_ring::Reserved;
use std::ptr::NonNull;

/// The bit of its [`HandlerMutex`].
const WINDOW: u32 = 1;

/// A ring per CPU, for all threads of the process: where it is, and the producer of the shared ring behind it, for one thread
/// at a time.
#[repr(C)] // the place is where the window is: a sequence needs no other register for it
#[derive(Debug)]
pub(super) struct Slow {
    /// Of the mapping of `window`.
    pub(super) place: SequenceRing,
    generation: u32,
    window: HandlerMutex<SharedWindow, WINDOW>,
}

impl Slow {
    pub(super) fn new(window: SharedWindow) -> Self {
        let layout = window.layout();
        let (mask, cpu, map) = (layout.data_size - 1, layout.cpu, &window.pair.map);
        let (header, data) = (NonNull::from(map.ring().header()), map.data_ranges()[0].0);
        let place = SequenceRing { header, data, mask, cpu, held: Held::new() };
        Slow { place, generation: fork::generation(), window: HandlerMutex::new(window) }
    }

    /// Returns whether this process is a forked child of the process that attached.
    #[inline(always)]
    pub(super) fn forked(&self) -> bool {
        fork::generation() != self.generation
    }

    /// See [`HandlerMutex::lock`].
    pub(super) fn lock(&self) -> Locked<'_> {
        self.window.lock()
    }

    /// See [`HandlerMutex::lock_unless_interrupted`]. `None` also in a forked child: a thread of its parent may have had it.
    pub(super) fn lock_unless_interrupted(&self) -> Option<Locked<'_>> {
        if self.forked() { None } else { self.window.lock_unless_interrupted() }
    }

    /// Ends a reservation by `end`, on any CPU. Does nothing in a forked child.
    pub(super) fn end_reservation(&self, end: impl FnOnce(&SharedWindow)) {
        if !self.forked() {
            end(&self.lock());
            self.place.held.let_go();
        }
    }
}

/// A ring per CPU, which all threads of a process write.
#[derive(Debug)]
pub struct CpuSpace<'a> {
    pub(super) slow: &'a Slow,
    pub(super) bytes: NonNull<[u8]>,
}

// SAFETY: the bytes are in a mapping that belongs to no thread, and nobody else has them.
unsafe impl Send for CpuSpace<'_> {}
// SAFETY: `&self` only reads them.
unsafe impl Sync for CpuSpace<'_> {}

// SAFETY: in the mapping of the window, which lives longer. The reservation is this process's, and no other overlaps it: see
// `shared_window`; and while one is open no sequence of this process runs (`SequenceRing::held`). In a forked child it is private memory.
unsafe impl Space for CpuSpace<'_> {
    fn bytes(&self, _: &Reserved) -> NonNull<[u8]> {
        self.bytes
    }

    fn end(&mut self, reserved: Reserved, len: usize) {
        self.slow.end_reservation(|slow| SharedSpace(&slow.pair).end(reserved, len));
    }

    fn discard(&mut self, reserved: Reserved) {
        self.slow.end_reservation(|slow| SharedSpace(&slow.pair).discard(reserved));
    }
}

/// A producer of the shared ring, for one thread.
pub(super) type Locked<'a> = HandlerGuard<'a, SharedWindow, WINDOW>;
