//! What a ring per CPU needs of the window of a shared ring: the same, without borrows of it.

use crate::map::shared_reservation::SharedReservation;
use crate::map::shared_window::SharedWindow;
use crate::sys::fork;
use perfring_abi::{Header, RecordType};
use perfring_ring::{Refusal, Reserved, Wake};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The producer of the shared ring behind a ring per CPU, for one thread of the process at a time.
#[derive(Debug)]
pub(super) struct Slow {
    generation: u32,
    /// Why this process does without sequences for now: its open reservations, and a bit of the window's.
    pub(super) held: AtomicU32,
    window: Mutex<SharedWindow>,
}

impl Slow {
    pub(super) fn new(window: SharedWindow, held: u32) -> Self {
        let (generation, held) = (fork::generation(), AtomicU32::new(held));
        Slow { generation, held, window: Mutex::new(window) }
    }

    /// Returns whether this process is a forked child of the one that attached.
    #[inline(always)]
    pub(super) fn forked(&self) -> bool {
        fork::generation() != self.generation
    }

    /// Waits asleep for the thread that has it: it may be off this very core.
    pub(super) fn lock(&self) -> Locked<'_> {
        let here = AtSlow::note();
        Locked { window: self.window.lock().unwrap_or_else(PoisonError::into_inner), _here: here }
    }

    /// Takes it, unless this is a signal handler that has interrupted its thread while that had one, or was
    /// about to: it would wait for itself.
    pub(super) fn lock_unless_interrupted(&self) -> Option<Locked<'_>> {
        (!AT_SLOW.get()).then(|| self.lock())
    }

    /// Ends a reservation by `end`, whatever CPU this is. Does nothing in a forked child.
    pub(super) fn end_reservation(&self, end: impl FnOnce(&SharedWindow)) {
        if !self.forked() {
            end(&self.lock());
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

thread_local! {
    /// This thread has a [`Slow`], or waits for one.
    static AT_SLOW: Cell<bool> = const { Cell::new(false) };
}

/// Notes [`AT_SLOW`] while it lives.
#[derive(Debug)]
struct AtSlow;

impl AtSlow {
    fn note() -> Self {
        AT_SLOW.set(true);
        // A handler of this thread sees it before the mutex is taken.
        compiler_fence(Ordering::SeqCst);
        AtSlow
    }
}

impl Drop for AtSlow {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        AT_SLOW.set(false);
    }
}

/// A producer of the shared ring, for one thread.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    window: MutexGuard<'a, SharedWindow>,
    /// Dropped last.
    _here: AtSlow,
}

impl Deref for Locked<'_> {
    type Target = SharedWindow;

    fn deref(&self) -> &SharedWindow {
        &self.window
    }
}

impl SharedWindow {
    /// Returns where the header page and the data area are mapped, for as long as this lives.
    pub(super) fn place(&self) -> (NonNull<Header>, NonNull<u8>) {
        let map = &self.pair.map;
        (NonNull::from(map.ring().header()), map.data_ranges()[0].0)
    }

    /// See [`SharedWriter::open_for_sequences`](perfring_ring::SharedWriter::open_for_sequences).
    pub(super) fn open_for_sequences(&self, len: usize) -> Result<(), Refusal> {
        let pair = &self.pair;
        pair.writer.borrow_mut().open_for_sequences(pair.at(), &pair.patient, len)
    }

    /// Returns whether the last refusal was none, as the ring was found open to sequences.
    pub(super) fn found_open(&self) -> bool {
        self.pair.writer.borrow_mut().found_open()
    }

    /// Publishes a record of any length, as in a shared ring.
    pub(super) fn publish_any(
        &self,
        kind: RecordType,
        payload: &[u8],
        wake: Wake,
        now: u64,
    ) -> Result<(), Refusal> {
        if payload.len() <= Self::UNDER_LOCK_MAX {
            return self.publish_at(kind, payload, wake, now);
        }
        let mut record = self.reserve(kind, payload.len(), || now)?;
        record.copy_from_slice(payload);
        record.commit_with(wake);
        Ok(())
    }

    /// Reserves space, and returns it with the address of its bytes. To be ended by
    /// [`SharedWindow::commit_loose`] or [`SharedWindow::discard_loose`].
    pub(super) fn reserve_loose(
        &self,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(Reserved, NonNull<[u8]>), Refusal> {
        let record = ManuallyDrop::new(self.reserve(kind, len, || now)?);
        Ok((record.reserved, self.pair.map.open_bytes(&record.reserved)))
    }

    /// Commits a reservation of [`SharedWindow::reserve_loose`].
    pub(super) fn commit_loose(&self, reserved: Reserved, len: usize, wake: Wake) {
        SharedReservation { pair: &self.pair, reserved }.end(len, wake);
    }

    /// Discards a reservation of [`SharedWindow::reserve_loose`].
    pub(super) fn discard_loose(&self, reserved: Reserved) {
        drop(SharedReservation { pair: &self.pair, reserved });
    }

    /// Counts refusals that were not counted when they happened: another thread of this process was in the way.
    pub(super) fn refuse_many(&self, records: u64, bytes: u64, slot: u32) {
        let at = self.pair.at();
        self.pair.writer.borrow_mut().refuse_many(at, Refusal::Contended { slot }, records, bytes);
    }
}
