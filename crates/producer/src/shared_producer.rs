//! One producer of a shared ring.

use crate::known_types::KnownTypes;
use crate::options::ProducerOptions;
use crate::process_clock::ProcessClock;
use crate::reserve_error::ReserveError;
use crate::reserved_batch::ReservedBatch;
use crate::timestamp::Clock;
use crate::waiting::LOCK_WAIT;
use perfring_abi::{HEADER_LEN, RecordType};
use perfring_ring::{ProducerTotals, Refusal};
use perfring_shm::{
    AttachError, Location, MachineClock, Reservation, Reserves, SharedSpace, SharedWindow,
};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// One of the producers of a shared ring: each thread attaches its own. A ring has up to as many as its slots, in any
/// threads and processes.
///
/// All records are in one order, that of their reservations. Several reservations can be open at a
/// time, by one producer and by many, and end in any order; `data_head` stays before the oldest
/// open one. A producer that dies at any point costs its own open reservations and nothing else.
/// They are ended by the next producer that needs the lock or the room, or that has published 64
/// records behind them; by a consumer in `wait`; or by `perfring recover`. (Observers write
/// nothing: in a ring that only they read, the producers end them.)
///
/// A publish takes a lock for a few nanoseconds.
/// Each thread attaches its own `SharedProducer`, and ends the reservations that it made.
///
/// Producers that publish all the time take turns; batches give more throughput. A producer that is
/// preempted while it holds the lock keeps the others waiting: for a few milliseconds, unless they
/// say otherwise by [`SharedProducer::set_lock_wait`], or call [`SharedProducer::publish_timeout`]. Then
/// the record is lost, as [`ReserveError::Contended`].
///
/// ```
/// use perfring_producer::{Options, RecordType, SharedProducer};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// let one = SharedProducer::create(&path, &Options::many())?;
/// let other = SharedProducer::attach_as(&path, "other")?;
///
/// let mut slow = one.reserve(RecordType::BYTES, 4)?;
/// other.publish(b"quick")?; // not seen yet: an older one is open
/// slow.copy_from_slice(b"slow");
/// slow.commit(); // now both are
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedProducer {
    pub(crate) window: SharedWindow,
    /// For how long calls without a timeout wait for the lock.
    pub(crate) lock_wait: Cell<Duration>,
    clock: RefCell<Clock<MachineClock>>,
    pub(crate) known: KnownTypes,
    /// The buffer that archives are written into.
    #[cfg(feature = "rkyv")]
    pub(crate) archive_buffer: RefCell<Vec<u64>>,
}

impl Reserves for SharedProducer {
    type Space<'a> = SharedSpace<'a>;
}

impl SharedProducer {
    /// Attaches as another producer, with these options.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_with(
        location: impl Into<Location>,
        options: &ProducerOptions,
    ) -> Result<Self, AttachError> {
        let window = SharedWindow::attach(location, &options.name(), options.trust)?;
        let mut clock = Clock::new(window.clock());
        if window.layout().time {
            window.begin_time(|| clock.read())?;
        }
        Ok(SharedProducer {
            window,
            clock: RefCell::new(clock),
            lock_wait: Cell::new(LOCK_WAIT),
            known: KnownTypes::new(),
            #[cfg(feature = "rkyv")]
            archive_buffer: RefCell::default(),
        })
    }

    /// Publishes one record of this type with a timestamp that the caller has from this clock. The record gets that time, or
    /// that of the lock's last holder if it is later; one that waits for the lock gets the time of the attempt that succeeds. In
    /// a ring without time, `now` means nothing.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline]
    pub fn publish_at(
        &self,
        kind: RecordType,
        payload: &[u8],
        now: u64,
        clock: &ProcessClock,
    ) -> Result<(), ReserveError> {
        if self.clock.borrow().is_due(now) {
            self.keep_time(clock);
        }
        match self.window.put(kind, payload, || now) {
            Ok(()) => Ok(()),
            Err(refusal) => self.put_after(refusal, kind, payload, None),
        }
    }

    #[cold]
    fn keep_time(&self, clock: &ProcessClock) {
        let reading = clock.read();
        self.clock.borrow_mut().schedule(&reading);
        if self.layout().time && !self.window.keep_time(|| reading) {
            self.clock.borrow_mut().schedule_soon();
        }
    }

    /// Publishes one record, and waits for at most `timeout`; without one, for the lock alone.
    #[inline(always)]
    pub(crate) fn put(
        &self,
        kind: RecordType,
        payload: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(), ReserveError> {
        match self.window.put(kind, payload, || self.now()) {
            Ok(()) => Ok(()),
            Err(refusal) => self.put_after(refusal, kind, payload, timeout),
        }
    }

    /// Continues after a refusal of the first attempt, which is where the caller is.
    #[cold]
    #[inline(never)]
    fn put_after(
        &self,
        mut refusal: Refusal,
        kind: RecordType,
        payload: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(), ReserveError> {
        let mut wait = self.waiter(timeout, payload.len());
        loop {
            wait(refusal).map_err(|refusal| self.refuse(refusal, payload.len()))?;
            match self.window.put(kind, payload, || self.now()) {
                Ok(()) => return Ok(()),
                Err(again) => refusal = again,
            }
        }
    }

    #[inline(always)]
    fn get<T: ?Sized>(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Option<Duration>,
    ) -> Result<Reservation<'_, SharedProducer, T>, Refusal> {
        self.window.reserve(kind, len, || self.now(), || self.waiter(timeout, len))
    }

    /// Reserves space for one record, and waits as [`SharedProducer::put`] does.
    #[inline(always)]
    pub(crate) fn space<T: ?Sized>(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Option<Duration>,
    ) -> Result<Reservation<'_, SharedProducer, T>, ReserveError> {
        self.get(kind, len, timeout).map_err(|refusal| self.refuse(refusal, len))
    }

    /// Reserves space as [`SharedProducer::space`] does. What waiting would resolve is no refusal, and is not counted.
    #[inline(always)]
    pub(crate) fn space_or_none(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<Option<Reservation<'_, SharedProducer>>, ReserveError> {
        match self.get(kind, len, Some(timeout)) {
            Ok(reserved) => Ok(Some(reserved)),
            Err(refusal) => self.not_offered(refusal, len),
        }
    }

    /// Publishes one record of this type, and waits for nothing. Returns `false`, and counts
    /// nothing, if there is no room now. For a caller that has an alternative.
    ///
    /// ```
    /// # use perfring_producer::{Options, RecordType, SharedProducer};
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options { size: 4096, ..Options::many() };
    /// # let producer = SharedProducer::create(dir.path().join("ring"), &options)?;
    /// assert!(producer.offer(RecordType::BYTES, &[0; 4000])?);
    /// assert!(!producer.offer(RecordType::BYTES, &[0; 4000])?); // nobody reads
    /// assert_eq!(producer.totals().refused.total().records, 0);
    /// assert!(producer.offer(RecordType::BYTES, &[0; 4096]).is_err()); // it never fits
    /// assert_eq!(producer.totals().refused.total().records, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReserveError`], for a refusal that waiting does not resolve; it is counted.
    #[inline]
    pub fn offer(&self, kind: RecordType, payload: &[u8]) -> Result<bool, ReserveError> {
        match self.window.put(kind, payload, || self.now()) {
            Ok(()) => Ok(true),
            Err(refusal) => self.not_offered(refusal, payload.len()).map(|_: Option<()>| false),
        }
    }

    /// Reserves `bytes` for a batch: many records in one reservation, published at once. Pass the
    /// sum of [`Layout::record_size`](crate::Layout::record_size) over the records to come; what is
    /// not used becomes a hole.
    ///
    /// ```
    /// # use perfring_producer::{Options, ReserveError, SharedProducer};
    /// # let dir = tempfile::tempdir()?;
    /// # let producer = SharedProducer::create(dir.path().join("ring"), &Options::many())?;
    /// let mut batch = producer.reserve_batch(64 * producer.layout().record_size(8) as usize)?;
    /// for n in 0..64u64 {
    ///     batch.push(&n.to_le_bytes())?;
    /// }
    /// assert_eq!(batch.push(b"no room"), Err(ReserveError::BatchFull));
    /// drop(batch); // published
    /// assert_eq!(producer.totals().written.records, 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted, as one record.
    #[inline]
    pub fn reserve_batch(&self, bytes: usize) -> Result<ReservedBatch<'_>, ReserveError> {
        let len = self.payload_of_batch(bytes);
        let mut wait = self.waiter(None, len);
        loop {
            match self.window.batch(bytes, self.now()) {
                Ok(batch) => return Ok(ReservedBatch(batch)),
                Err(refusal) => wait(refusal).map_err(|refusal| self.refuse(refusal, len))?,
            }
        }
    }

    /// Reserves a batch as [`SharedProducer::reserve_batch`] does, but returns `None`, and counts
    /// nothing, if there is no room now. For a caller that then publishes the records one by one.
    ///
    /// # Errors
    /// [`ReserveError`], for a refusal that waiting does not resolve; it is counted.
    #[inline]
    pub fn offer_batch(&self, bytes: usize) -> Result<Option<ReservedBatch<'_>>, ReserveError> {
        match self.window.batch(bytes, self.now()) {
            Ok(batch) => Ok(Some(ReservedBatch(batch))),
            Err(refusal) => self.not_offered(refusal, self.payload_of_batch(bytes)),
        }
    }

    /// Returns what was written, discarded and refused since the ring was made, by this producer
    /// and those that held its slot before it. `lost_markers` is 0: the ring counts them for all
    /// slots together.
    #[must_use]
    pub fn totals(&self) -> ProducerTotals {
        self.window.totals()
    }

    /// Returns the number of this producer's slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.window.slot()
    }

    #[cold]
    fn not_offered<T>(&self, refusal: Refusal, len: usize) -> Result<Option<T>, ReserveError> {
        match refusal {
            Refusal::Full | Refusal::Contended { .. } | Refusal::Pending { .. } => Ok(None),
            refusal => Err(self.refuse(refusal, len)),
        }
    }

    /// Returns the payload length of one record that takes `bytes`, with its header and timestamp.
    fn payload_of_batch(&self, bytes: usize) -> usize {
        bytes.saturating_sub(HEADER_LEN as usize + self.layout().lead().len())
    }

    /// Reads the timestamps' clock before the lock is taken. The record gets that time, or that of the lock's last holder if it
    /// is later.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        if !self.window.layout().time {
            return 0;
        }
        let line = self.clock.borrow().by_line();
        match line {
            Some(now) => now,
            None => self.read_clock(),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_clock(&self) -> u64 {
        let mut clock = self.clock.borrow_mut();
        let now = clock.by_clock();
        if clock.is_due(now) && !self.window.keep_time(|| clock.read()) {
            clock.schedule_soon();
        }
        now
    }

    /// Counts a refusal, unless the ring is a parent's: a fork in the middle of a record is noticed here.
    #[cold]
    pub(crate) fn refuse(&self, refusal: Refusal, len: usize) -> ReserveError {
        if self.window.forked() {
            return ReserveError::Forked;
        }
        self.window.refuse(refusal, len);
        ReserveError::of(refusal, len, || self.window.look())
    }
}
