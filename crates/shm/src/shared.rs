//! A producer of a shared ring on a mapping.

use crate::clock::Clock;
use crate::file::error::AttachError;
use crate::file::home::Home;
use crate::file::open::{Access, Place, RingFile};
use crate::file::peers::Kernel;
use crate::map::address_range::DataAccess;
use crate::map::mirror::Mirror;
use crate::map::pages::{Pages, PagesError};
use crate::reserve_error::ReserveError;
use crate::sys::clock::MachineClock;
use crate::sys::fork::NotForChildren;
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use crate::types::{Known, put_entry};
use crate::writer::{SPIN_PAUSES, SPINS};
use perfring_abi::{HEADER_LEN, Layout, Producers, RecordType};
use perfring_ring::{
    Count, Group, Refusal, Refused, Reserved, SharedWriter, Unattached, Wake, Who,
};
use perfring_types::{Entry, Schema};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// Payloads up to this size are written and published under the lock: one locked instruction
/// instead of three.
const UNDER_LOCK_MAX: usize = 512;
/// Tries to attach while somebody holds the ring's lock.
const ATTACH_TRIES: u32 = 200;
/// The first sleep of who waits for an open reservation to end, whom nobody wakes; it doubles.
const NAP: Duration = Duration::from_micros(20);

/// One producer of a shared ring, for as long as it lives.
///
/// Any number of reservations can be open at a time, and end in any order.
#[derive(Debug)]
pub struct MappedShared {
    // In the order in which they are to go: first what a forked child is cut off from.
    children: NotForChildren,
    pub(crate) map: Mirror,
    writer: RefCell<SharedWriter>,
    clock: RefCell<Clock<MachineClock>>,
    timed: bool,
    peers: Kernel,
    ring: RingFile,
    known: Known,
    _lock: ByteLock,
}

impl MappedShared {
    /// Attaches as one of the producers, in a slot that nobody holds, and signs with `name`.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Slots`] when there are as many producers as slots.
    pub fn attach(home: impl Into<Home>, name: &str) -> Result<Self, AttachError> {
        let ring = RingFile::open(home.into(), Access::Write)?;
        ring.expect(Producers::Many)?;
        let map = Mirror::map(&ring, DataAccess::Write)?;
        // Before the lock is taken: a child forked in between would keep it.
        let children = NotForChildren::new(map.ranges(), &ring.file);
        let (index, lock) = take_slot(&ring, &map)?;
        let peers = Kernel::new(&ring.file, &ring.layout);
        let mut clock = Clock::of(&ring)?;
        let me = RingFile::me(name);
        let mut tries = 0;
        let writer = loop {
            let (at, fences) = (map.shared(), futex::fences());
            match SharedWriter::attach(at, &ring.layout, fences, index, &me, &peers) {
                Ok(writer) => {
                    break writer;
                }
                Err(Unattached::Corrupt(source)) => return Err(ring.corrupt(source)),
                Err(Unattached::Contended { slot }) => {
                    tries += 1;
                    if tries == ATTACH_TRIES {
                        return Err(held_up(&ring, Some(slot))?);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        };
        // Before the first record: stamps of another boot must be gone.
        while ring.layout.time && !writer.begin_time(map.shared(), &peers, || clock.read()) {
            tries += 1;
            if tries >= ATTACH_TRIES {
                return Err(held_up(&ring, map.shared().locked_by())?);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (writer, clock) = (RefCell::new(writer), RefCell::new(clock));
        let (timed, known) = (ring.layout.time, Known::new());
        Ok(MappedShared { children, map, writer, clock, timed, peers, ring, known, _lock: lock })
    }

    /// Whether the ring's file was cut short under this producer, as far as was found out: its records
    /// go into memory of its own since then, and nobody reads them. Always false without
    /// [`install_guard`](crate::install_guard), as that is the end of the process then. A drop ring is
    /// [`ReserveError::Corrupt`] by itself, before a ring's worth is written; an overwrite ring asks
    /// nobody for space, and never is.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.map.is_cut()
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &RingFile {
        &self.ring
    }

    /// The ring's shape.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.ring.layout
    }

    /// Does something with the pages of the records, once.
    ///
    /// # Errors
    /// See [`PagesError`].
    pub fn set_pages(&self, pages: Pages) -> Result<(), PagesError> {
        pages.set(&self.map, &self.ring)
    }

    /// Makes sure that the ring's type table has this type, whose [`Schema::key`] is `key`. After
    /// the first time, a load and a comparison.
    ///
    /// # Errors
    /// [`ReserveError::Type`]; [`ReserveError::Forked`], unless the type was known before.
    #[inline(always)]
    pub fn register(&self, schema: &Schema<'_>, key: u64) -> Result<(), ReserveError> {
        if self.known.has(key) {
            return Ok(()); // a forked child is refused where it reserves
        }
        if self.children.forked() {
            return Err(ReserveError::Forked);
        }
        self.known
            .look_up(&self.ring, self.map.types_to_write(), schema)
            .map_err(ReserveError::Type)
    }

    /// Makes sure that the ring's type table has this entry, which another ring's table had.
    ///
    /// # Errors
    /// [`ReserveError::Type`]; [`ReserveError::Forked`].
    pub fn register_entry(&self, entry: &Entry<'_>) -> Result<(), ReserveError> {
        if self.children.forked() {
            return Err(ReserveError::Forked);
        }
        put_entry(&self.ring, self.map.types_to_write(), entry).map_err(ReserveError::Type)
    }

    /// Publishes one record.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline(always)]
    pub fn publish(
        &self,
        kind: RecordType,
        payload: &[u8],
        wake: Wake,
    ) -> Result<(), ReserveError> {
        if self.children.forked() {
            return Err(ReserveError::Forked);
        }
        // The one known to the compiler, which needs it for what follows.
        if payload.len() > UNDER_LOCK_MAX || self.timed {
            return self.publish_other(kind, payload, wake);
        }
        let at = self.map.shared();
        let published = self.writer.borrow_mut().publish(
            at,
            &self.peers,
            kind,
            payload.len(),
            wake,
            |reserved| {
                // SAFETY: the algorithm has just reserved the space for this producer, under the
                // ring's lock; it is as long as the payload.
                unsafe { self.map.fill_open(reserved, payload) };
            },
        );
        match published {
            Ok(false) => Ok(()),
            Ok(true) => {
                futex::wake(at.ring().wait_word());
                Ok(())
            }
            Err(refusal) => Err(self.refused(refusal, payload.len())),
        }
    }

    /// What is stamped, or large.
    #[inline(never)]
    fn publish_other(
        &self,
        kind: RecordType,
        payload: &[u8],
        wake: Wake,
    ) -> Result<(), ReserveError> {
        if payload.len() <= UNDER_LOCK_MAX {
            return self.published(self.try_publish(kind, payload, wake), payload.len());
        }
        let record = self.reserve(kind, payload.len())?;
        // SAFETY: reserved for this producer just now, of this length, and not ended.
        unsafe { self.map.fill_open(&record.reserved, payload) };
        record.commit_with(wake);
        Ok(())
    }

    /// A small record, under the lock. Returns whether a wake is owed; a refusal is not counted.
    fn try_publish(&self, kind: RecordType, payload: &[u8], wake: Wake) -> Result<bool, Refusal> {
        if self.children.forked() {
            return Err(Refusal::Full); // told apart in `refused`
        }
        let (at, now) = (self.map.shared(), self.now());
        let mut writer = self.writer.borrow_mut();
        writer.publish_at(at, &self.peers, kind, payload.len(), now, wake, |reserved| {
            // SAFETY: as in `publish`.
            unsafe { self.map.fill_open(reserved, payload) };
        })
    }

    /// Publishes one record, waiting as [`MappedShared::reserve_timeout`] does.
    ///
    /// # Errors
    /// See [`ReserveError`]; only the refusal at the end is counted.
    pub fn publish_timeout(
        &self,
        kind: RecordType,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<(), ReserveError> {
        let len = payload.len();
        if len > UNDER_LOCK_MAX {
            let record = self.reserve_timeout(kind, len, timeout)?;
            // SAFETY: reserved for this producer just now, of this length, and not ended.
            unsafe { self.map.fill_open(&record.reserved, payload) };
            record.commit();
            return Ok(());
        }
        let published = self.wait_for(timeout, len, || self.try_publish(kind, payload, Wake::Auto));
        self.published(published, len)
    }

    /// Wakes who is to be woken, or counts the refusal.
    fn published(&self, tried: Result<bool, Refusal>, len: usize) -> Result<(), ReserveError> {
        match tried {
            Ok(wake) => {
                self.owed(wake);
                Ok(())
            }
            Err(refusal) => Err(self.refused(refusal, len)),
        }
    }

    /// Space for one record, in place.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn reserve(
        &self,
        kind: RecordType,
        len: usize,
    ) -> Result<SharedReservation<'_>, ReserveError> {
        match self.try_reserve(kind, len) {
            Ok(reserved) => Ok(SharedReservation { owner: self, reserved }),
            Err(refusal) => Err(self.refused(refusal, len)),
        }
    }

    #[inline]
    fn try_reserve(&self, kind: RecordType, len: usize) -> Result<Reserved, Refusal> {
        if self.children.forked() {
            return Err(Refusal::Full); // told apart in `refused`
        }
        let (at, now) = (self.map.shared(), self.now());
        let reserved = self.writer.borrow_mut().try_reserve(at, &self.peers, kind, len, now)?;
        // SAFETY: reserved for this producer just now.
        unsafe { self.map.zero_last_word(&reserved) };
        Ok(reserved)
    }

    /// As [`MappedShared::reserve`], waiting for at most `timeout`: for space, for an older
    /// reservation that is in the way to end, for the lock. Only a refusal at the end is counted.
    ///
    /// # Errors
    /// See [`ReserveError`].
    pub fn reserve_timeout(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<SharedReservation<'_>, ReserveError> {
        let reserved = self.wait_for(timeout, len, || self.try_reserve(kind, len));
        let reserved = reserved.map_err(|refusal| self.refused(refusal, len))?;
        Ok(SharedReservation { owner: self, reserved })
    }

    /// As [`MappedShared::reserve_timeout`], but that there is no space in time is an outcome:
    /// `None`, and nothing is counted, as the caller has another way.
    ///
    /// # Errors
    /// What no waiting mends: see [`ReserveError`]; it is counted.
    pub fn offer_timeout(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<Option<SharedReservation<'_>>, ReserveError> {
        let reserved = self.wait_for(timeout, len, || self.try_reserve(kind, len));
        let reserved = self.offered(reserved, len)?;
        Ok(reserved.map(|reserved| SharedReservation { owner: self, reserved }))
    }

    fn offered<T>(&self, got: Result<T, Refusal>, len: usize) -> Result<Option<T>, ReserveError> {
        match got {
            Ok(got) => Ok(Some(got)),
            Err(refusal @ (Refusal::TooLarge { .. } | Refusal::Corrupt { .. })) => {
                Err(self.refused(refusal, len))
            }
            Err(_) if self.children.forked() => Err(ReserveError::Forked),
            Err(_) => Ok(None),
        }
    }

    /// Attempts once, without a look at the clock, and then for so long.
    #[inline]
    fn wait_for<T>(
        &self,
        timeout: Duration,
        len: usize,
        mut attempt: impl FnMut() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        match attempt() {
            Ok(got) => Ok(got),
            Err(refusal) => self.wait_on(refusal, timeout, len, attempt),
        }
    }

    /// A full ring: spins for the time that a keen consumer takes, then sleeps.
    #[cold]
    fn wait_on<T>(
        &self,
        mut refusal: Refusal,
        timeout: Duration,
        len: usize,
        mut attempt: impl FnMut() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let since = Instant::now();
        let (mut nap, mut spun) = (NAP, 0);
        loop {
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() || self.children.forked() {
                return Err(refusal);
            }
            match refusal {
                Refusal::Full if spun < SPINS => {
                    spun += 1;
                    // Each attempt takes the lock's line: not too often.
                    for _ in 0..SPIN_PAUSES {
                        std::hint::spin_loop();
                    }
                }
                Refusal::Full => self.wait_for_space(len, left),
                Refusal::Contended { .. } | Refusal::Pending { .. } => {
                    std::thread::sleep(nap.min(left));
                    nap = (nap * 2).min(futex::SLICE / 10);
                }
                Refusal::TooLarge { .. } | Refusal::Corrupt { .. } => return Err(refusal),
            }
            refusal = match attempt() {
                Ok(got) => return Ok(got),
                Err(refusal) => refusal,
            };
        }
    }

    fn wait_for_space(&self, len: usize, limit: Duration) {
        let at = self.map.shared();
        let ring = at.ring();
        // A consumer that sleeps for a watermark would not make room.
        if ring.force_wake() {
            futex::wake(ring.wait_word());
        }
        let target = self.writer.borrow().tail_for(at, len);
        if let Some(value) = ring.prepare_space_sleep(target, || {
            futex::heavy();
        }) {
            futex::sleep(ring.space_word(), value, limit.min(futex::SLICE));
        }
    }

    /// Room for records of `bytes` in all, headers, stamps and padding included
    /// ([`Layout::record_size`] of each), in one reservation: they are published
    /// at once. What they do not take becomes a hole.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted, as one record.
    #[inline]
    pub fn batch(&self, bytes: usize) -> Result<SharedBatch<'_>, ReserveError> {
        match self.try_reserve_group(bytes) {
            Ok(group) => Ok(SharedBatch { owner: self, group, wake: Wake::Auto }),
            Err(refusal) => Err(self.refused(refusal, self.len_of_group(bytes))),
        }
    }

    /// As [`MappedShared::batch`], but that there is no room now is an outcome: `None`, and nothing
    /// is counted, as the caller has another way.
    ///
    /// # Errors
    /// What no waiting mends: see [`ReserveError`]; it is counted.
    pub fn offer_batch(&self, bytes: usize) -> Result<Option<SharedBatch<'_>>, ReserveError> {
        let group = self.offered(self.try_reserve_group(bytes), self.len_of_group(bytes))?;
        Ok(group.map(|group| SharedBatch { owner: self, group, wake: Wake::Auto }))
    }

    /// The payload of one record that takes so much, stamp and all.
    fn len_of_group(&self, bytes: usize) -> usize {
        bytes.saturating_sub(HEADER_LEN as usize + self.layout().stamp_len())
    }

    #[inline]
    fn try_reserve_group(&self, bytes: usize) -> Result<Group, Refusal> {
        if self.children.forked() {
            return Err(Refusal::Full); // told apart in `refused`
        }
        let (at, now) = (self.map.shared(), self.now());
        self.writer.borrow_mut().try_reserve_group(at, &self.peers, bytes as u64, now)
    }

    /// The stamps' clock, before the lock is taken: who waits for it is stamped as of the time
    /// before, or as the one that had the lock, if that is later.
    #[inline(always)]
    fn now(&self) -> u64 {
        if !self.timed {
            return 0;
        }
        let line = self.clock.borrow().by_line();
        match line {
            Some(now) => now,
            None => self.look_at_clock(),
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_clock(&self) -> u64 {
        let mut clock = self.clock.borrow_mut();
        let now = clock.by_clock();
        if clock.is_due(now) {
            let at = self.map.shared();
            if !self.writer.borrow().keep_time(at, &self.peers, || clock.read()) {
                clock.put_off();
            }
        }
        now
    }

    #[cold]
    fn refused(&self, refusal: Refusal, len: usize) -> ReserveError {
        if self.children.forked() {
            return ReserveError::Forked;
        }
        let at = self.map.shared();
        if self.writer.borrow_mut().refuse(at, refusal, len) {
            futex::wake(at.ring().wait_word());
        }
        ReserveError::from(refusal)
    }

    /// What producers of this slot have committed since the ring was made.
    #[must_use]
    pub fn written(&self) -> Count {
        self.writer.borrow().written()
    }

    /// What producers of this slot were refused since the ring was made.
    #[must_use]
    pub fn refused_counts(&self) -> Refused {
        self.writer.borrow().refused()
    }

    /// The slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.writer.borrow().index()
    }

    /// The longest payload that the ring takes.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.writer.borrow().max_len()
    }

    #[inline]
    fn owed(&self, wake: bool) {
        if wake {
            futex::wake(self.map.ring().wait_word());
        }
    }
}

impl Drop for MappedShared {
    fn drop(&mut self) {
        if !self.children.forked() {
            let told = self.writer.borrow_mut().detach(self.map.shared(), &self.peers);
            self.owed(told);
        }
    }
}

/// A producer that lives and does not go on, or did not for a while.
fn held_up(ring: &RingFile, slot: Option<u32>) -> Result<AttachError, AttachError> {
    let slot = slot.unwrap_or_default();
    let holder = ring.holder(Place::Producer(slot))?;
    Ok(AttachError::HeldUp { home: ring.home.clone(), slot, holder })
}

/// A slot that nobody holds: rather one that nobody ever held, so that what is known of the dead
/// stays to be seen for as long as it can.
fn take_slot(ring: &RingFile, map: &Mirror) -> Result<(u32, ByteLock), AttachError> {
    let fresh = |slot: &u32| Who::read(&map.slots()[*slot as usize].holder).epoch == 0;
    let all = 0..ring.layout.slots;
    let mut taken = 0;
    let lock = ring.take_with(|| {
        for slot in all.clone().filter(fresh).chain(all.clone()) {
            let lock = ByteLock::take(&ring.file, ring.layout.slot_lock_byte(slot));
            if let Some(lock) = lock.map_err(|source| ring.io("locking a slot", source))? {
                taken = slot;
                return Ok(Some(lock));
            }
        }
        Ok(None)
    })?;
    match lock {
        Some(lock) => Ok((taken, lock)),
        None => Err(AttachError::Slots { home: ring.home.clone(), slots: ring.layout.slots }),
    }
}

/// The bytes of one record of a shared ring: write them, then commit. Dropped, it is discarded.
///
/// The bytes are what the ring last held there, not zeros. While it is open, nothing younger is
/// published: keep it short.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is discarded"]
pub struct SharedReservation<'a> {
    owner: &'a MappedShared,
    reserved: Reserved,
}

impl SharedReservation<'_> {
    /// Commits the record. It is published as soon as nothing older is open.
    #[inline(always)]
    pub fn commit(self) {
        self.commit_with(Wake::Auto);
    }

    /// As [`SharedReservation::commit`], choosing whether to wake a sleeping consumer.
    #[inline(always)]
    pub fn commit_with(self, wake: Wake) {
        let len = self.reserved.len();
        self.end(len, wake);
    }

    /// Commits the first `len` bytes; the rest becomes a hole. A `len` beyond the reservation
    /// commits all of it.
    #[inline]
    pub fn commit_len(self, len: usize) {
        self.end(len, Wake::Auto);
    }

    /// Gives the space back as a hole that readers skip.
    #[inline]
    pub fn discard(self) {}

    /// The position of the record in the stream.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.reserved.pos()
    }

    #[inline]
    fn end(self, len: usize, wake: Wake) {
        // Not `drop`, which would discard.
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, from what is never dropped or used again but for its owner.
        let reserved = unsafe { std::ptr::read(&this.reserved) };
        let owner = this.owner;
        if owner.children.forked() {
            return;
        }
        let len = len.min(reserved.len());
        if len < reserved.len() {
            // SAFETY: the reservation is open and this producer's; no slice of it is left.
            unsafe { owner.map.zero_padding(&reserved, len) };
        }
        let (at, mut writer) = (owner.map.shared(), owner.writer.borrow_mut());
        let wake = writer.commit(at, &owner.peers, reserved, len, wake);
        drop(writer);
        owner.owed(wake);
    }
}

impl Deref for SharedReservation<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        let bytes = self.owner.map.open_bytes(&self.reserved);
        // SAFETY: as in `deref_mut`, for reading: `&self` keeps every `&mut` away.
        unsafe { bytes.as_ref() }
    }
}

impl DerefMut for SharedReservation<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        let mut bytes = self.owner.map.open_bytes(&self.reserved);
        // SAFETY: the reservation is open and this producer's, and no other overlaps it: positions
        // are given out once, and the space between `data_tail` and `producer_pos` is less than a
        // ring. `&mut self` makes this the only slice of it. In a forked child it is private memory.
        unsafe { bytes.as_mut() }
    }
}

impl Drop for SharedReservation<'_> {
    fn drop(&mut self) {
        let owner = self.owner;
        if owner.children.forked() {
            return;
        }
        // SAFETY: read once, from what is being dropped; a token has no drop of its own.
        let reserved = unsafe { std::ptr::read(&self.reserved) };
        let at = owner.map.shared();
        let wake = owner.writer.borrow_mut().discard(at, &owner.peers, reserved);
        owner.owed(wake);
    }
}

/// Several records in one reservation, published at once when it is dropped.
#[derive(Debug)]
#[must_use = "a batch is published when it is dropped"]
pub struct SharedBatch<'a> {
    owner: &'a MappedShared,
    group: Group,
    wake: Wake,
}

impl SharedBatch<'_> {
    /// Adds one record. Returns whether there was room for it; if not, nothing has happened, and
    /// nothing is counted: publish this batch, and begin another.
    #[inline]
    #[must_use = "a record that did not fit is not in the batch"]
    pub fn push(&mut self, kind: RecordType, payload: &[u8]) -> bool {
        match self.fill(kind, payload.len()) {
            Some(reserved) => {
                // SAFETY: a part of this producer's open reservation, of this length.
                unsafe { self.owner.map.fill_open(&reserved, payload) };
                true
            }
            None => false,
        }
    }

    /// Adds one record of `len` bytes, to be written in place; `None` if there is no room for it.
    /// It is part of the batch as soon as this returns; its bytes are what the ring last held
    /// there.
    #[inline]
    pub fn next(&mut self, kind: RecordType, len: usize) -> Option<&mut [u8]> {
        let reserved = self.fill(kind, len)?;
        let mut bytes = self.owner.map.open_bytes(&reserved);
        // SAFETY: a part of this producer's open reservation that no other record has; `&mut self`
        // lasts as long as the slice.
        Some(unsafe { bytes.as_mut() })
    }

    #[inline]
    fn fill(&mut self, kind: RecordType, len: usize) -> Option<Reserved> {
        let at = self.owner.map.shared();
        let reserved = self.owner.writer.borrow().next_in_group(at, &mut self.group, kind, len)?;
        // SAFETY: a part of this producer's open reservation.
        unsafe { self.owner.map.zero_last_word(&reserved) };
        Some(reserved)
    }

    /// Records in the batch.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.group.records()
    }

    /// Bytes that are left, headers and padding included.
    #[must_use]
    pub fn left(&self) -> usize {
        self.group.left() as usize
    }

    /// Publishes the batch.
    pub fn publish(self) {}

    /// Publishes the batch, choosing whether to wake a sleeping consumer.
    pub fn publish_with(mut self, wake: Wake) {
        self.wake = wake;
    }
}

impl Drop for SharedBatch<'_> {
    fn drop(&mut self) {
        let owner = self.owner;
        if owner.children.forked() {
            return;
        }
        let group = std::mem::take(&mut self.group);
        let (at, mut writer) = (owner.map.shared(), owner.writer.borrow_mut());
        let wake = writer.commit_group(at, &owner.peers, group, self.wake);
        drop(writer);
        owner.owed(wake);
    }
}
