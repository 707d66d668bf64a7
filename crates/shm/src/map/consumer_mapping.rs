//! A ring as mapped by its one consumer, which holds the consumer's seat.

use crate::file::error::AttachError;
use crate::file::liveness::is_dead;
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile, SeatId};
use crate::file::presence::Presence;
use crate::file::trust::Trust;
use crate::map::address_range::DataAccess;
use crate::map::attached::Attached;
use crate::map::mirror::Mirror;
use crate::map::named_seat::{SeatArea, SignedSeat, Taken, take};
use crate::map::plain::Plain;
use crate::map::recover::recover_file;
use crate::map::sleeper::{Armed, Sleeper, Ticket};
use crate::sys::exit::Signed;
use crate::sys::fork::{self, NotForChildren};
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::{Policy, Producers};
use perfring_ring::{Anchors, NamedSeat, Reader, WakeAt, sign_off};
use std::ops::Deref;
use std::time::Duration;

/// The treatment of the cache lines of records that a consumer has read in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Write-touches each consumed line: stores one word back, unchanged, before the space is
    /// released. The consumer's core then owns the line, and the producer takes it over in one step
    /// on the next lap. Between distant cores this gives several times the throughput; between near
    /// cores a fifth to two fifths more from 256 bytes to 4 KiB, and less from 16 KiB on
    /// (`benches/RESULTS.md`). The data area is mapped writable.
    #[default]
    WriteTouch,
    /// Does not touch them: the data area is mapped read-only.
    Leave,
}

/// A ring that this process consumes until the mapping is dropped.
#[derive(Debug)]
pub struct ConsumerMapping {
    // Drop order: first the registration for the end of the process; the lock, as a child that another thread
    // forks meanwhile would keep it; then the registration for forked children.
    signed: Option<Signed>,
    _signed_seat: Option<SignedSeat>,
    _lock: ByteLock,
    attached: Attached,
    /// [`Lines::WriteTouch`] only where the data area is mapped writable.
    pub(crate) lines: Lines,
    guarded: bool,
    /// Other users may read the file.
    exposed: bool,
    presence: Presence,
    /// Until the reader joins.
    taken: Option<(NamedSeat, ByteLock)>,
    /// The epoch in the one consumer's owner info.
    epoch: u64,
}

impl Deref for ConsumerMapping {
    type Target = Attached;

    #[inline]
    fn deref(&self) -> &Attached {
        &self.attached
    }
}

impl ConsumerMapping {
    /// Maps a ring and takes the consumer's seat.
    ///
    /// With [`Lines::WriteTouch`] the data area of a drop ring is mapped writable, except where it is
    /// guarded.
    pub(crate) fn attach(
        location: impl Into<Location>,
        name: &str,
        lines: Lines,
        trust: Trust,
    ) -> Result<Self, AttachError> {
        let location = location.into();
        let opening = fork::hold_off();
        let ring = RingFile::open(location, FileAccess::Write)?;
        let (guarded, exposed) = (trust.guards(&ring)?, ring.is_exposed()?);
        // A consumer that copies needs no write access.
        // One of several consumers needs none either: each would take the line from the cores of the others.
        let in_place = ring.layout.policy == Policy::Drop && !guarded && ring.layout.consumers == 0;
        let lines = if in_place { lines } else { Lines::Leave };
        let hands_back = lines == Lines::WriteTouch;
        let access = if hands_back { DataAccess::Write } else { DataAccess::Read };
        let map = Mirror::map(&ring, access)?;
        // Before the lock is taken: a child forked in between would keep it.
        let children = NotForChildren::new(map.ranges(), &ring.file);
        let area = match ring.layout.consumers {
            0 => None,
            _ => Some(SeatArea::map(&ring)?),
        };
        drop(opening);
        let (lock, taken, signed_seat) = match area {
            None => (ring.take(SeatId::Consumer)?, None, None),
            Some(area) => {
                let Taken { lock, seat, joining, signed } = take(&ring, map.ring(), area, name)?;
                (lock, Some((seat, joining)), Some(signed))
            }
        };
        let presence = Presence::default();
        Ok(ConsumerMapping {
            signed: None,
            _signed_seat: signed_seat,
            attached: Attached { children, map, ring },
            lines,
            guarded,
            exposed,
            presence,
            taken,
            epoch: 0,
            _lock: lock,
        })
    }

    /// Returns whether records are to be copied before they are examined.
    pub(super) fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// Attaches the reader: continues where the last consumer, or the last of this name, released.
    pub(crate) fn reader(&mut self) -> Result<Reader, AttachError> {
        let (at, fences) = (self.attached.map.ring(), futex::fences());
        let reader = match self.taken.take() {
            None => Reader::attach(at, fences),
            Some((seat, _joining)) => Reader::join(at, seat, fences),
        };
        reader.map_err(|source| self.ring.corrupt(self.map.guard.report(source)))
    }

    /// Returns whether several consumers may have the ring.
    pub(crate) fn is_named(&self) -> bool {
        self.ring.layout.consumers != 0
    }

    /// Stores the owner info of the one consumer's seat. A named one's has it already.
    pub(crate) fn sign(&mut self, name: &str) {
        if !self.is_named() {
            let holder = &self.attached.map.ring().header().consumer_holder;
            self.epoch = RingFile::me(name).sign(holder);
            self.signed = Some(Signed::new(holder, self.ring.watched()));
        }
    }

    /// Loads `data_head`.
    #[inline]
    pub fn head(&self) -> u64 {
        self.map.ring().head()
    }

    /// Returns the anchors that convert timestamps to wall-clock times, as of now; none in a ring
    /// without time.
    pub fn anchors(&self) -> Anchors {
        Anchors::read(self.map.ring())
    }

    /// Returns whether [`ConsumerMapping::check_removed`] found the ring's file removed.
    pub fn is_removed(&self) -> bool {
        self.presence.is_removed()
    }

    /// Asks the file system whether the ring's file was removed, or another took its place; and whether it was truncated, of
    /// which the next poll says. Three system calls.
    pub fn check_removed(&self) -> bool {
        self.map.guard.look();
        self.presence.check(&self.ring)
    }

    /// Asks for the cache line at `pos`, without waiting for it.
    #[inline]
    pub fn prefetch(&self, pos: u64) {
        self.map.prefetch(pos);
    }

    /// Requests a wake for when a producer reaches the threshold `at` beyond `cursor`, which
    /// `passed` records precede. Returns `None` if the threshold is already reached. The ticket is valid
    /// for `most`, or less if a wake may be missed.
    pub fn prepare_sleep(
        &self,
        cursor: u64,
        passed: u64,
        at: WakeAt,
        most: Duration,
    ) -> Option<Ticket> {
        let mut fenced = false;
        let ring = self.map.ring();
        let fence = || fenced = futex::heavy();
        let value = match self.is_named() {
            false => ring.prepare_sleep(cursor, passed, at, fence)?,
            true => ring.prepare_named_sleep(cursor, fence)?,
        };
        let longest = if fenced { futex::until_tick(self.exposed) } else { futex::SLICE };
        let (most, sure) = (most.min(longest), fenced && most > futex::SLICE);
        Some(Ticket { value, most, sure, exposed: self.exposed })
    }

    /// Sleeps with a ticket, for at most `limit`. May return early.
    pub fn sleep(&self, ticket: Ticket, limit: Duration) {
        futex::sleep(self.map.ring().wait_word(), ticket.value, limit.min(ticket.most));
    }

    /// Returns the word and the ticket, to sleep on several rings at once.
    pub fn armed(&self, ticket: Ticket) -> Armed<'_> {
        Armed { word: self.map.ring().wait_word(), ticket }
    }

    /// Ends the request for a wake: no thread of this process sleeps any more.
    pub fn end_sleep(&self) {
        // Another named consumer may sleep on the same word.
        if !self.is_named() {
            self.map.ring().end_sleep();
        }
    }

    /// Returns a handle that sleeps for this consumer without borrowing it.
    pub fn sleeper(&self) -> Result<Sleeper, AttachError> {
        Ok(Sleeper { map: Plain::map(&self.ring)? })
    }

    /// Returns whether a reservation of a shared ring is open before ended records.
    pub fn lags(&self) -> bool {
        self.ring.layout.producers != Producers::One && self.map.shared().lags()
    }

    /// Ends the reservation of a dead producer, if it holds up publication.
    pub fn end_dead(&self) {
        if self.map.shared().held_up().is_none_or(is_dead(&self.ring)) {
            // Fails while a live producer is stopped with the lock: a later call does it.
            let _ = recover_file(&self.ring);
        }
    }
}

impl Drop for ConsumerMapping {
    fn drop(&mut self) {
        // A named one has done so as it left.
        if !self.is_named() && !self.forked() {
            sign_off(&self.map.ring().header().consumer_holder, self.epoch);
        }
    }
}
