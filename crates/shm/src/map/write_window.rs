//! The exclusive producer's window: its mapping, and the writer that knows which bytes of it are
//! free.
//!
//! Bytes are handed out only by a [`Reservation`](crate::Reservation). It borrows the window mutably, so two are never open at
//! a time. The window never parts with its
//! mapping or its writer, so the space that the writer reserved is in this mapping.
//!
//! [`Attached`] is the shared part of the windows. They are not one generic window: this window is used by `&mut`, has one
//! reservation at a time, and holds records back. A shared window is used by `&`, has any number of reservations, writes
//! under the ring's lock or after it, and publishes a batch as one span. Each verb would have two bodies behind a trait.

use crate::file::error::AttachError;
use crate::file::liveness::{FileLocks, drop_dead_of};
use crate::file::location::Location;
use crate::file::open::{RingFile, SeatId};
use crate::file::trust::Trust;
use crate::map::attached::Attached;
use crate::sys::clock::MachineClock;
use crate::sys::exit::Signed;
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::{Producers, RecordType};
use perfring_ring::{
    Claim, Count, End, ProducerTotals, Reading, Refusal, Reserved, Wake, Writer, sign_off,
};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// This process is a forked child of the process that attached.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("this process was forked from the one that attached: attach again")]
pub struct Forked;

perfring_abi::debug_by_display!(Forked);

/// The place of a ring's one producer, and its mapping.
#[derive(Debug)]
pub struct WriteWindow {
    // Drop order: first the registrations for the end of the process and for forked children.
    signed: Option<Signed>,
    pub(super) attached: Attached,
    pub(super) writer: Writer,
    /// The position at the last refusal.
    refused_at: Option<u64>,
    /// The epoch in the owner info.
    epoch: u64,
    clock: MachineClock,
    _lock: ByteLock,
}

impl Deref for WriteWindow {
    type Target = Attached;

    #[inline(always)]
    fn deref(&self) -> &Attached {
        &self.attached
    }
}

impl WriteWindow {
    /// Takes the seat. Call [`WriteWindow::begin_time`] and [`WriteWindow::sign`] next.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] while another process is attached.
    pub fn attach(location: impl Into<Location>, trust: Trust) -> Result<Self, AttachError> {
        let attached = Attached::as_producer(location.into(), Producers::One, trust)?;
        let (map, ring) = (&attached.map, &attached.ring);
        let lock = ring.take(SeatId::Producer(0))?;
        let clock = ring.timestamp_clock()?;
        let mut writer = Writer::attach(map.ring(), &ring.layout, futex::fences())
            .map_err(|source| ring.corrupt(map.guard.report(source)))?;
        if ring.layout.consumers != 0 {
            writer = writer.with_consumers(Arc::new(FileLocks(ring.clone())));
        }
        if map.lends() {
            writer.lend_reservations();
        }
        futex::rouse(map.ring());
        Ok(WriteWindow {
            signed: None,
            attached,
            writer,
            refused_at: None,
            epoch: 0,
            clock,
            _lock: lock,
        })
    }

    /// Returns the clock that timestamps are taken from, if the ring has time.
    #[must_use]
    pub fn clock(&self) -> MachineClock {
        self.clock
    }

    /// Stores the clocks' readings in a ring with time. Call it before the first record.
    pub fn begin_time(&mut self, reading: &Reading) {
        self.writer.begin_time(self.attached.map.ring(), reading);
    }

    /// Stores the owner info of the seat in the ring.
    pub fn sign(&mut self, name: &str) {
        let holder = &self.attached.map.slots()[0].holder;
        self.epoch = RingFile::me(name).sign(holder);
        self.signed = Some(Signed::new(holder, self.attached.ring.watched()));
    }

    /// Returns the counts of written, discarded and refused records since the ring was created.
    #[must_use]
    pub fn totals(&self) -> ProducerTotals {
        self.writer.totals()
    }

    /// Returns the count of overwritten records since the ring was created.
    #[must_use]
    pub fn overwritten(&self) -> Count {
        self.writer.overwritten(self.attached.map.ring())
    }

    /// Returns the longest payload that the ring takes.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.writer.max_len()
    }

    /// Stores the clocks' readings in a ring with time, from time to time.
    pub fn keep_time(&mut self, reading: &Reading) {
        self.writer.keep_time(self.attached.map.ring(), reading);
    }

    /// Writes one record. A refusal is not counted. `now` returns the current time, for a record that gets a timestamp.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn put(
        &mut self,
        kind: RecordType,
        payload: &[u8],
        end: End,
        now: impl FnOnce(&mut Self) -> u64,
    ) -> Result<(), Refusal> {
        if self.forked() {
            return Err(Refusal::Forked);
        }
        // Two complete paths, so that the code for a ring without time contains nothing of the
        // other.
        let len = payload.len();
        if len < self.writer.plain_end() {
            let reserved =
                self.writer.reserve_as::<false>(self.attached.map.ring(), kind, len, None)?;
            self.fill(reserved, payload, end);
        } else {
            let now = now(self);
            let reserved =
                self.writer.reserve_as::<false>(self.attached.map.ring(), kind, len, Some(now))?;
            self.fill(reserved, payload, end);
        }
        Ok(())
    }

    /// Reserves space whose last word is still to be zeroed.
    #[inline(always)]
    pub(super) fn claim(
        &mut self,
        kind: RecordType,
        len: usize,
        now: impl FnOnce(&mut Self) -> u64,
    ) -> Result<Claim, Refusal> {
        if self.forked() {
            return Err(Refusal::Forked);
        }
        Ok(if len < self.writer.in_place_end() {
            self.writer.reserve_as::<true>(self.attached.map.ring(), kind, len, None)?.into_claim()
        } else {
            let now = Some(now(self));
            self.writer.reserve_as::<true>(self.attached.map.ring(), kind, len, now)?.into_claim()
        })
    }

    #[inline(always)]
    fn fill(&mut self, reserved: Reserved, payload: &[u8], end: End) {
        // SAFETY: this mapping's writer just made the reservation, of the payload's length, and
        // there is no slice of it: `&mut self`.
        unsafe { self.attached.map.fill_open(reserved.site(), payload) };
        self.end(reserved, payload.len(), end);
    }

    #[inline(always)]
    pub(super) fn end(&mut self, reserved: Reserved, len: usize, end: End) {
        let ring = self.attached.map.ring();
        let owed = self.writer.end(ring, reserved, len, end);
        futex::wake_if(owed, ring.wait_word());
    }

    /// To be called before records are held back: see [`Writer::begin_batch`].
    #[inline]
    pub fn begin_batch(&mut self) {
        self.writer.begin_batch(self.attached.map.ring());
    }

    /// Publishes the records that are held back.
    #[inline(always)]
    pub fn publish(&mut self, wake: Wake) {
        let owed = self.writer.publish(self.attached.map.ring(), wake);
        futex::wake_if(owed, self.attached.map.ring().wait_word());
    }

    /// Counts a refusal, to be reported in the stream before the next record that fits.
    #[inline]
    pub fn refuse(&mut self, refusal: Refusal, len: usize) {
        let owed = self.writer.refuse(self.attached.map.ring(), refusal, len);
        let here = Some(self.writer.pos());
        if self.refused_at != here {
            // The first of several: a consumer that sleeps beside a full ring has missed its wake.
            self.refused_at = here;
            futex::rouse(self.attached.map.ring());
        } else {
            futex::wake_if(owed, self.attached.map.ring().wait_word());
        }
    }

    /// Publishes the records that are held back, and sleeps until the consumer has released enough for a record
    /// of `len` bytes, for at most `limit`. May return early, so the caller checks again.
    pub fn sleep_for_space(&mut self, len: usize, limit: Duration) {
        // A consumer that sleeps for a watermark would not release space.
        self.publish(Wake::Force);
        self.attached.map.guard.look();
        let ring = self.attached.map.ring();
        drop_dead_of(&self.attached.ring, ring);
        futex::sleep_for_space(ring, self.writer.tail_for(ring, len), limit);
    }
}

impl Drop for WriteWindow {
    fn drop(&mut self) {
        if !self.attached.children.forked() {
            futex::wake_if(
                self.writer.detach(self.attached.map.ring()),
                self.attached.map.ring().wait_word(),
            );
            sign_off(&self.attached.map.slots()[0].holder, self.epoch);
        }
    }
}
