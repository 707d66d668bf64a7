//! The window of one producer of a shared ring: its mapping, and the writer that knows which bytes
//! of it are this producer's.
//!
//! Any number of reservations can be open at a time. Each position is given out once, under the
//! ring's lock, and the unpublished reservations are less than a ring, so no two of them
//! overlap. The window never parts with its mapping or its writer.

use crate::file::error::AttachError;
use crate::file::liveness::FileLocks;
use crate::file::location::Location;
use crate::file::open::RingFile;
use crate::file::trust::Trust;
use crate::map::attached::Attached;
use crate::map::free_slot::take_slot;
use crate::map::reservation::{SharedSpace, Space};
use crate::map::shared_pair::SharedPair;
use crate::sys::clock::MachineClock;
use crate::sys::exit::Signed;
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::{Producers, RecordType};
use perfring_ring::{ProducerTotals, Reading, Refusal, SharedWriter, Unattached, Wake};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::time::{Duration, Instant};

/// For how long an attach waits while a live producer holds the ring's lock, and the sleep between two
/// attempts. By the clock: an attempt yields many times, which takes long where others use the core.
const ATTACH_WAIT: Duration = Duration::from_secs(1);
const ATTACH_NAP: Duration = Duration::from_millis(1);

/// A slot of a shared ring, and the mapping of its producer.
///
/// A forked child gets [`Refusal::Forked`].
#[derive(Debug)]
pub struct SharedWindow {
    // In drop order. The lock is before the mapping: a child that another thread forks meanwhile would keep it.
    _signed: Signed,
    _lock: ByteLock,
    pub(super) pair: SharedPair,
    attach_wait: Duration,
    /// The limit of the writer.
    plain_end: usize,
    /// The number of records written at the last refusal.
    refused_at: Cell<Option<u64>>,
    clock: MachineClock,
}

impl Deref for SharedWindow {
    type Target = Attached;

    #[inline(always)]
    fn deref(&self) -> &Attached {
        &self.pair.attached
    }
}

impl SharedWindow {
    /// Longest payload that is written and published under the lock, which takes one locked
    /// instruction instead of three.
    pub const UNDER_LOCK_MAX: usize = 512;

    /// Takes a free slot with `name`. Call [`SharedWindow::begin_time`] next.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Slots`] when every slot has a producer.
    pub fn attach(
        location: impl Into<Location>,
        name: &str,
        trust: Trust,
    ) -> Result<Self, AttachError> {
        Self::attach_kind(location.into(), name, trust, Producers::Many, ATTACH_WAIT)
    }

    pub(super) fn attach_kind(
        location: Location,
        name: &str,
        trust: Trust,
        kind: Producers,
        attach_wait: Duration,
    ) -> Result<Self, AttachError> {
        let attached = Attached::as_producer(location, kind, trust)?;
        let (map, ring) = (&attached.map, &attached.ring);
        let liveness = FileLocks(ring.clone());
        let (index, lock) = take_slot(ring, map, &liveness, attach_wait)?;
        let clock = ring.timestamp_clock()?;
        let me = RingFile::me(name);
        let since = Instant::now();
        let again = |_| {
            let waits = since.elapsed() <= attach_wait;
            if waits {
                std::thread::sleep(ATTACH_NAP);
            }
            waits
        };
        let (at, fences) = (map.shared(), futex::fences());
        let mut writer =
            SharedWriter::attach(at, &ring.layout, fences, index, &me, &liveness, again).map_err(
                |unattached| match unattached {
                    Unattached::Corrupt(source) => ring.corrupt(map.guard.report(source)),
                    Unattached::Contended { slot } => ring.held_up(slot),
                },
            )?;
        let signed = Signed::new(&map.slots()[index as usize].holder, ring.watched());
        if map.lends() {
            writer.lend_reservations();
        }
        let plain_end = writer.plain_end();
        let writer = RefCell::new(writer);
        let pair = SharedPair { attached, writer, liveness };
        futex::rouse(pair.at().ring());
        Ok(SharedWindow {
            _signed: signed,
            pair,
            attach_wait,
            plain_end,
            refused_at: Cell::new(None),
            clock,
            _lock: lock,
        })
    }

    /// Returns the clock that timestamps are taken from, if the ring has time.
    #[must_use]
    pub fn clock(&self) -> MachineClock {
        self.clock
    }

    /// Stores the clocks' readings in a ring with time. Call it before the first record, because the
    /// anchors of another boot must be replaced. `read` reads the clocks, under the ring's lock.
    ///
    /// # Errors
    /// [`AttachError::HeldUp`] if the lock cannot be taken.
    pub fn begin_time(&self, mut read: impl FnMut() -> Reading) -> Result<(), AttachError> {
        let since = Instant::now();
        // Once at least, also if this thread is off its core for all that time.
        while !self.pair.writer.borrow().begin_time(self.pair.at(), &self.pair.liveness, &mut read)
        {
            if since.elapsed() > self.attach_wait {
                return Err(self.pair.ring.held_up(self.pair.at().locked_by().unwrap_or_default()));
            }
            std::thread::sleep(ATTACH_NAP);
        }
        Ok(())
    }

    /// Stores the clocks' readings in the ring. Returns false if the ring's lock could not be taken.
    /// A forked child stores nothing.
    #[must_use]
    pub fn keep_time(&self, read: impl FnOnce() -> Reading) -> bool {
        self.forked()
            || self.pair.writer.borrow().keep_time(self.pair.at(), &self.pair.liveness, read)
    }

    /// Returns the counts of this slot's producers since the ring was made. The ring counts markers for all
    /// slots together: `lost_markers` is 0.
    #[must_use]
    pub fn totals(&self) -> ProducerTotals {
        self.pair.writer.borrow().totals(self.pair.at())
    }

    /// Returns the slot's number.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.pair.writer.borrow().index()
    }

    /// Returns the longest payload that the ring takes.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.pair.writer.borrow().max_len()
    }

    /// Publishes one record: all of it under the ring's lock, if it is short. `now` returns the current time, for a record that
    /// gets a timestamp. Counts no refusal, and does not wait for the lock.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn put(
        &self,
        kind: RecordType,
        payload: &[u8],
        now: impl FnOnce() -> u64,
    ) -> Result<(), Refusal> {
        let (pair, len) = (&self.pair, payload.len());
        if pair.children.forked() {
            return Err(Refusal::Forked);
        }
        // The caller's compiler knows the length, and needs it for the next lines.
        if len > Self::UNDER_LOCK_MAX || len >= self.plain_end {
            return self.put_other(kind, payload, now());
        }
        let at = pair.at();
        let mut writer = pair.writer.borrow_mut();
        let owed = writer.publish(at, &pair.liveness, kind, len, None, Wake::Auto, |reserved| {
            // SAFETY: the algorithm has just reserved the space for this producer, under the ring's
            // lock; it is as long as the payload.
            unsafe { pair.map.fill_open(reserved.site(), payload) };
        })?;
        drop(writer);
        futex::wake_if(owed, at.ring().wait_word());
        Ok(())
    }

    /// Publishes a record that has a timestamp, or whose payload is copied without the ring's lock.
    #[inline(never)]
    fn put_other(&self, kind: RecordType, payload: &[u8], now: u64) -> Result<(), Refusal> {
        let (pair, len) = (&self.pair, payload.len());
        let mut writer = pair.writer.borrow_mut();
        if len > Self::UNDER_LOCK_MAX {
            let reserved = writer.reserve(pair.at(), &pair.liveness, kind, len, now)?;
            drop(writer);
            // It is copied at once: never lent.
            let reserved = reserved.settled();
            // SAFETY: reserved for this producer just now, of the payload's length, and there is no slice of it.
            unsafe { pair.map.fill_open(reserved.site(), payload) };
            SharedSpace(pair).end(reserved, len);
            return Ok(());
        }
        let owed = writer.publish(
            pair.at(),
            &pair.liveness,
            kind,
            len,
            Some(now),
            Wake::Auto,
            |reserved| {
                // SAFETY: as in `put`.
                unsafe { pair.map.fill_open(reserved.site(), payload) };
            },
        )?;
        drop(writer);
        pair.owed(owed);
        Ok(())
    }

    /// Counts a refusal, to be reported in the stream before the next record of this producer that
    /// fits. Does nothing in a forked child.
    #[inline]
    pub fn refuse(&self, refusal: Refusal, len: usize) {
        if !self.forked() {
            let at = self.pair.at();
            let (wake, written) = {
                let mut writer = self.pair.writer.borrow_mut();
                (writer.refuse(at, refusal, len), Some(writer.written().records))
            };
            if self.refused_at.replace(written) != written {
                // The first of several: a consumer that sleeps beside a full ring has missed its wake.
                futex::rouse(at.ring());
            } else {
                self.pair.owed(wake);
            }
        }
    }
}

impl Drop for SharedWindow {
    fn drop(&mut self) {
        if !self.pair.children.forked() {
            let reported =
                self.pair.writer.borrow_mut().detach(self.pair.at(), &self.pair.liveness);
            self.pair.owed(reported);
        }
    }
}
