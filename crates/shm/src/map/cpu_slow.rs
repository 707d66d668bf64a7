//! What a ring per CPU needs of the window of a shared ring: the same, without borrows of it.

use crate::map::handler_mutex::{HandlerGuard, HandlerMutex};
use crate::map::reservation::{SharedSpace, Space};
use crate::map::shared_window::SharedWindow;
use crate::sys::fork;
use crate::sys::rseq::{Held, SequenceRing};
use perfring_abi::RecordType;
use perfring_ring::{Refusal, Reserved};
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

    /// Returns whether this process is a forked child of the one that attached.
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

    /// Ends a reservation by `end`, whatever CPU this is. Does nothing in a forked child.
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
        self.slow.end_reservation(|slow| slow.commit_loose(reserved, len));
    }

    fn discard(&mut self, reserved: Reserved) {
        self.slow.end_reservation(|slow| slow.discard_loose(reserved));
    }
}

/// A producer of the shared ring, for one thread.
pub(super) type Locked<'a> = HandlerGuard<'a, SharedWindow, WINDOW>;

impl SharedWindow {
    /// See [`SharedWriter::open_for_sequences`](perfring_ring::SharedWriter::open_for_sequences).
    pub(super) fn open_for_sequences(&self, len: usize) -> Result<(), Refusal> {
        let pair = &self.pair;
        pair.writer.borrow_mut().open_for_sequences(pair.at(), &pair.liveness, len)
    }

    /// See [`SharedWriter::is_full_still`](perfring_ring::SharedWriter::is_full_still).
    pub(super) fn is_full_still(&self, len: usize) -> bool {
        self.pair.writer.borrow().is_full_still(self.pair.at().ring(), len)
    }

    /// Returns whether the last refusal was none, as the ring was found open to sequences.
    pub(super) fn found_open(&self) -> bool {
        self.pair.writer.borrow_mut().found_open()
    }

    /// See [`SharedWriter::set_writer`](perfring_ring::SharedWriter::set_writer).
    pub(super) fn set_writer(&self, writer: u64) {
        self.pair.writer.borrow_mut().set_writer(writer);
    }

    /// Reserves space, and returns it with the address of its bytes. To be ended by
    /// [`SharedWindow::commit_loose`] or [`SharedWindow::discard_loose`]. Does not wait for the lock.
    pub(super) fn reserve_loose(
        &self,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(Reserved, NonNull<[u8]>), Refusal> {
        let reserved = self.claim(kind, len, &|| now)?.of(kind, len);
        // SAFETY: reserved for this producer just now.
        unsafe { self.pair.map.zero_last_word(reserved.site(), len) };
        let bytes = self.pair.map.open_bytes(reserved.site(), len);
        Ok((reserved, bytes))
    }

    /// Commits a reservation of [`SharedWindow::reserve_loose`].
    pub(super) fn commit_loose(&self, reserved: Reserved, len: usize) {
        SharedSpace(&self.pair).end(reserved, len);
    }

    /// Discards a reservation of [`SharedWindow::reserve_loose`].
    pub(super) fn discard_loose(&self, reserved: Reserved) {
        SharedSpace(&self.pair).discard(reserved);
    }

    /// Counts refusals that were not counted when they happened: another thread of this process was in the way.
    pub(super) fn refuse_many(&self, records: u64, bytes: u64, slot: u32) {
        let at = self.pair.at();
        self.pair.writer.borrow_mut().refuse_many(at, Refusal::Contended { slot }, records, bytes);
    }
}
