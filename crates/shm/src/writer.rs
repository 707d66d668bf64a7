//! The exclusive producer on a mapping.

use crate::clock::Clock;
use crate::file::error::{AttachError, Role};
use crate::file::home::Home;
use crate::file::open::{Access, Place, RingFile};
use crate::map::address_range::DataAccess;
use crate::map::mirror::Mirror;
use crate::map::pages::{Pages, PagesError};
use crate::reserve_error::ReserveError;
use crate::sys::clock::MachineClock;
use crate::sys::fork::NotForChildren;
use crate::sys::futex;
use crate::sys::ofd_lock::ByteLock;
use crate::types::{Known, put_entry};
use perfring_abi::{Layout, Producers, RecordType};
use perfring_ring::{Count, ProducerBook, Refusal, Reserved, Wake, Writer};
use perfring_types::{Entry, Schema};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// Looks at a full ring before a waiting producer sleeps, and `PAUSE` instructions between them:
/// some 50 µs in all.
pub(crate) const SPINS: u32 = 64;
pub(crate) const SPIN_PAUSES: u32 = 32;

/// The one producer of a ring, for as long as it lives.
#[derive(Debug)]
pub struct MappedWriter {
    // In the order in which they are to go: first what a forked child is cut off from.
    pub(crate) children: NotForChildren,
    pub(crate) map: Mirror,
    pub(crate) writer: Writer,
    clock: Clock<MachineClock>,
    ring: RingFile,
    known: Known,
    _lock: ByteLock,
}

impl MappedWriter {
    /// Attaches as the exclusive producer and signs with `name`.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] while another process is attached.
    pub fn attach(home: impl Into<Home>, name: &str) -> Result<Self, AttachError> {
        let ring = RingFile::open(home.into(), Access::Write)?;
        ring.expect(Producers::One)?;
        let map = Mirror::map(&ring, DataAccess::Write)?;
        // Before the lock is taken: a child forked in between would keep it.
        let children = NotForChildren::new(map.ranges(), &ring.file);
        let lock = ring.take(Place::Producer(0), Role::Producer)?;
        let mut clock = Clock::of(&ring)?;
        let mut writer = Writer::attach(map.ring(), &ring.layout, futex::fences())
            .map_err(|source| ring.corrupt(source))?;
        if ring.layout.time {
            writer.begin_time(map.ring(), &clock.read());
        }
        RingFile::me(name).sign(&map.slots()[0].holder);
        let known = Known::new();
        Ok(MappedWriter { children, map, writer, clock, ring, known, _lock: lock })
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
        &mut self,
        kind: RecordType,
        payload: &[u8],
        wake: Wake,
    ) -> Result<(), ReserveError> {
        // Each way whole: what a ring without time does is not to know of the other.
        if payload.len() < self.writer.plain_end() {
            let reserved = self.fill::<false>(kind, payload)?;
            self.commit_and_publish(reserved, payload.len(), wake);
        } else {
            // With time, or large.
            let reserved = self.fill::<true>(kind, payload)?;
            self.commit_and_publish(reserved, payload.len(), wake);
        }
        Ok(())
    }

    /// Space for one record, in place.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline(always)]
    pub fn reserve(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<Reservation<'_>, ReserveError> {
        let reserved = self.try_reserve_any(kind, len)?;
        Ok(Reservation { owner: self, reserved, head: Head::Publish })
    }

    /// As [`MappedWriter::reserve`]; a refusal is not counted, as the caller has another way.
    #[inline]
    pub fn offer(&mut self, kind: RecordType, len: usize) -> Option<Reservation<'_>> {
        if self.children.forked() {
            return None;
        }
        let reserved = self.try_any(kind, len).ok()?;
        // SAFETY: the writer is this mirror's and just made the reservation.
        unsafe { self.map.zero_last_word(&reserved) };
        Some(Reservation { owner: self, reserved, head: Head::Publish })
    }

    /// As [`MappedWriter::reserve`], waiting for space for at most `timeout`. Only a refusal at the
    /// end of it is counted.
    ///
    /// # Errors
    /// See [`ReserveError`]; [`ReserveError::Full`] when the time is over.
    #[inline(always)]
    pub fn reserve_timeout(
        &mut self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<Reservation<'_>, ReserveError> {
        let reserved = self.reserve_within(kind, len, timeout)?;
        Ok(Reservation { owner: self, reserved, head: Head::Publish })
    }

    #[inline(always)]
    pub(crate) fn reserve_within(
        &mut self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<Reserved, ReserveError> {
        if self.children.forked() {
            return Err(ReserveError::Forked);
        }
        let reserved = loop {
            // Here and not where it waits: what is reserved is then known where it is used.
            match self.try_any(kind, len) {
                Ok(reserved) => break reserved,
                Err(refusal) => {
                    let waited = self.wait_to_reserve(refusal, kind, len, timeout);
                    waited.map_err(|refusal| self.refused(refusal, len))?;
                }
            }
        };
        // SAFETY: the writer is this mirror's and just made the reservation.
        unsafe { self.map.zero_last_word(&reserved) };
        Ok(reserved)
    }

    /// Waits until a record of `len` bytes fits, for at most `timeout`. Returns whether it does;
    /// if not, nothing is counted.
    ///
    /// # Errors
    /// What no waiting mends: see [`ReserveError`]; it is counted.
    pub fn wait_for_room(&mut self, len: usize, timeout: Duration) -> Result<bool, ReserveError> {
        if self.children.forked() {
            return Err(ReserveError::Forked);
        }
        match self.wait_to_reserve(Refusal::Full, RecordType::BYTES, len, timeout) {
            Ok(()) => Ok(true),
            Err(Refusal::Full) => Ok(false),
            Err(refusal) => Err(self.refused(refusal, len)),
        }
    }

    /// The ring is full: spins for the time that a keen consumer takes, then sleeps. When it
    /// returns, the next try succeeds.
    #[cold]
    #[inline(never)]
    fn wait_to_reserve(
        &mut self,
        mut refusal: Refusal,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<(), Refusal> {
        let since = Instant::now();
        let mut spun = 0;
        while refusal == Refusal::Full {
            if spun < SPINS {
                spun += 1;
                // Looking at the tail takes its line from the consumer: not too often.
                for _ in 0..SPIN_PAUSES {
                    std::hint::spin_loop();
                }
            } else {
                let left = timeout.saturating_sub(since.elapsed());
                if left.is_zero() {
                    break;
                }
                self.wait_for_space(len, left);
            }
            match self.writer.try_reserve(self.map.ring(), kind, len, |_| 0) {
                Ok(_) => return Ok(()), // a token that is dropped leaves nothing behind
                Err(again) => refusal = again,
            }
        }
        Err(refusal)
    }

    fn wait_for_space(&mut self, len: usize, limit: Duration) {
        // A consumer that sleeps for a watermark would not make room.
        let wake = self.writer.publish(self.map.ring(), Wake::Force);
        if wake {
            futex::wake(self.map.ring().wait_word());
        }
        let ring = self.map.ring();
        let target = self.writer.tail_for(ring, len);
        if let Some(value) = ring.prepare_space_sleep(target, || {
            futex::heavy();
        }) {
            futex::sleep(ring.space_word(), value, limit.min(futex::SLICE));
        }
    }

    /// Several records, published at once.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        self.writer.begin_batch(self.map.ring());
        Batch { owner: self, wake: Wake::Auto }
    }

    /// Space for a record whose last word is still to be zeroed; what is refused is not counted.
    #[inline(always)]
    fn try_any(&mut self, kind: RecordType, len: usize) -> Result<Reserved, Refusal> {
        let Self { map, clock, ring, .. } = self;
        self.writer.try_reserve(map.ring(), kind, len, |writer| now(map, clock, ring, writer))
    }

    #[inline(always)]
    pub(crate) fn try_reserve_any(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<Reserved, ReserveError> {
        if self.children.forked() {
            return Err(ReserveError::Forked);
        }
        match self.try_any(kind, len) {
            Ok(reserved) => {
                // SAFETY: the writer is this mirror's and just made the reservation.
                unsafe { self.map.zero_last_word(&reserved) };
                Ok(reserved)
            }
            Err(refusal) => Err(self.refused(refusal, len)),
        }
    }

    /// Space for a record: in a ring that may have time, or surely has none.
    #[inline(always)]
    fn try_reserve<const TIMED: bool>(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<Reserved, ReserveError> {
        if self.children.forked() {
            return Err(ReserveError::Forked);
        }
        let tried = if TIMED {
            self.try_any(kind, len)
        } else {
            self.writer.try_reserve_plain(self.map.ring(), kind, len)
        };
        match tried {
            Ok(reserved) => {
                // SAFETY: the writer is this mirror's and just made the reservation.
                unsafe { self.map.zero_last_word(&reserved) };
                Ok(reserved)
            }
            Err(refusal) => Err(self.refused(refusal, len)),
        }
    }

    #[inline(always)]
    fn fill<const TIMED: bool>(
        &mut self,
        kind: RecordType,
        payload: &[u8],
    ) -> Result<Reserved, ReserveError> {
        let reserved = self.try_reserve::<TIMED>(kind, payload.len())?;
        // SAFETY: the writer is this mirror's and just made the reservation, of this length; it is
        // committed by the callers, when the payload is in.
        unsafe { self.map.fill(&reserved, payload) };
        Ok(reserved)
    }

    #[inline(always)]
    pub(crate) fn commit_and_publish(&mut self, reserved: Reserved, len: usize, wake: Wake) {
        let ring = self.map.ring();
        if self.writer.commit_and_publish(ring, reserved, len, wake) {
            futex::wake(ring.wait_word());
        }
    }

    #[inline(always)]
    pub(crate) fn publish_head(&mut self, wake: Wake) {
        if self.writer.publish(self.map.ring(), wake) {
            futex::wake(self.map.ring().wait_word());
        }
    }

    #[cold]
    fn refused(&mut self, refusal: Refusal, len: usize) -> ReserveError {
        if self.writer.refuse(self.map.ring(), refusal, len) {
            futex::wake(self.map.ring().wait_word());
        }
        refusal.into()
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

    /// What was written, given back and refused since the ring was made.
    #[must_use]
    pub fn book(&self) -> ProducerBook {
        self.writer.book()
    }

    /// What was overwritten since the ring was made.
    #[must_use]
    pub fn overwritten(&self) -> Count {
        self.writer.overwritten(self.map.ring())
    }

    /// The longest payload that the ring takes.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.writer.max_len()
    }
}

impl Drop for MappedWriter {
    fn drop(&mut self) {
        if self.children.forked() {
            return;
        }
        if self.writer.detach(self.map.ring()) {
            futex::wake(self.map.ring().wait_word());
        }
    }
}

/// The stamps' clock.
#[inline(always)]
fn now(map: &Mirror, clock: &mut Clock<MachineClock>, ring: &RingFile, writer: &mut Writer) -> u64 {
    match clock.by_line() {
        Some(now) => now,
        None => look_at_clock(map, clock, ring, writer),
    }
}

#[cold]
#[inline(never)]
fn look_at_clock(
    map: &Mirror,
    clock: &mut Clock<MachineClock>,
    ring: &RingFile,
    writer: &mut Writer,
) -> u64 {
    if !ring.layout.time {
        return 0;
    }
    let now = clock.by_clock();
    if clock.is_due(now) {
        writer.keep_time(map.ring(), &clock.read());
    }
    now
}

/// What ending a reservation does with `data_head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Publish,
    Hold,
}

/// The bytes of one record, in the ring: write them, then commit. Dropped, it is discarded.
///
/// The bytes are what the ring last held there, not zeros.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is discarded"]
pub struct Reservation<'a> {
    owner: &'a mut MappedWriter,
    reserved: Reserved,
    head: Head,
}

impl Reservation<'_> {
    /// Commits and publishes the record.
    #[inline(always)]
    pub fn commit(self) {
        self.commit_with(Wake::Auto);
    }

    /// As [`Reservation::commit`], choosing whether to wake a sleeping consumer. In a batch the
    /// wake is the batch's.
    #[inline(always)]
    pub fn commit_with(self, wake: Wake) {
        let len = self.reserved.len();
        self.end(len, wake);
    }

    /// Commits and publishes the first `len` bytes; the rest of the space is given back. A `len`
    /// beyond the reservation commits all of it.
    #[inline(always)]
    pub fn commit_len(self, len: usize) {
        self.end(len, Wake::Auto);
    }

    /// Gives the space back as a hole that readers skip.
    #[inline]
    pub fn discard(self) {}

    #[inline(always)]
    fn end(self, len: usize, wake: Wake) {
        // Not `drop`, which would discard.
        let mut this = ManuallyDrop::new(self);
        // SAFETY: read once, from what is never dropped or used again but for its owner.
        let reserved = unsafe { std::ptr::read(&this.reserved) };
        let len = len.min(reserved.len());
        if len < reserved.len() {
            // SAFETY: the reservation is this writer's open one, and no slice of it is left: `self`
            // would be borrowed.
            unsafe { this.owner.map.zero_padding(&reserved, len) };
        }
        let head = this.head;
        let owner = &mut *this.owner;
        match head {
            Head::Publish => owner.commit_and_publish(reserved, len, wake),
            Head::Hold => owner.writer.commit(owner.map.ring(), reserved, len),
        }
    }
}

impl Deref for Reservation<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: as in `deref_mut`, for reading: `&self` keeps every `&mut` away.
        unsafe { self.owner.map.peek_reserved(&self.reserved) }
    }
}

impl DerefMut for Reservation<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: only the owner's writer made it, it has not ended, and the owner is borrowed for
        // as long as it lives, so it is the only open one of this mirror.
        unsafe { self.owner.map.reserved(&self.reserved) }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        // SAFETY: read once, from what is being dropped; a token has no drop of its own.
        let reserved = unsafe { std::ptr::read(&self.reserved) };
        self.owner.writer.discard(self.owner.map.ring(), reserved);
        if self.head == Head::Publish {
            self.owner.publish_head(Wake::Auto);
        }
    }
}

/// Records that are held back until the batch ends, and then published by one store of
/// `data_head`.
///
/// A batch of up to an eighth of the ring, or 32 KiB, is published in one piece; a longer one may be
/// published in parts on the way, as may one in a ring that overwrites by halves.
#[derive(Debug)]
#[must_use = "a batch is published when it is dropped"]
pub struct Batch<'a> {
    owner: &'a mut MappedWriter,
    wake: Wake,
}

impl Batch<'_> {
    /// Adds one record.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn push(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
        if payload.len() < self.owner.writer.plain_end() {
            let reserved = self.owner.fill::<false>(kind, payload)?;
            self.owner.writer.commit(self.owner.map.ring(), reserved, payload.len());
        } else {
            let reserved = self.owner.fill::<true>(kind, payload)?;
            self.owner.writer.commit(self.owner.map.ring(), reserved, payload.len());
        }
        Ok(())
    }

    /// As [`Batch::push`], but a full ring is an outcome: `false`, and nothing is counted, as the
    /// caller has another way.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn offer(&mut self, kind: RecordType, payload: &[u8]) -> Result<bool, ReserveError> {
        if self.owner.children.forked() {
            return Err(ReserveError::Forked);
        }
        match self.owner.try_any(kind, payload.len()) {
            Ok(reserved) => {
                // SAFETY: the writer is this mirror's and just made the reservation.
                unsafe { self.owner.map.zero_last_word(&reserved) };
                // SAFETY: as above, of this length; it is committed with the payload in.
                unsafe { self.owner.map.fill(&reserved, payload) };
                self.owner.writer.commit(self.owner.map.ring(), reserved, payload.len());
                Ok(true)
            }
            Err(Refusal::Full) => Ok(false),
            Err(refusal) => Err(self.owner.refused(refusal, payload.len())),
        }
    }

    /// Space for one record of the batch, in place.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline(always)]
    pub fn reserve(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<Reservation<'_>, ReserveError> {
        let reserved = self.owner.try_reserve_any(kind, len)?;
        Ok(Reservation { owner: self.owner, reserved, head: Head::Hold })
    }

    /// Publishes the batch.
    pub fn publish(self) {}

    /// Publishes the batch, choosing whether to wake a sleeping consumer.
    pub fn publish_with(mut self, wake: Wake) {
        self.wake = wake;
    }
}

impl Drop for Batch<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.owner.publish_head(self.wake);
    }
}
