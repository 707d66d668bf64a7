//! The producer's door to perfring: publish records into a file-backed ring, at a few nanoseconds
//! each, without ever blocking unless asked to.
//!
//! ```
//! use perfring_producer::{Options, Producer, RecordType};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ticks");
//! const TICK: RecordType = RecordType::new(5000).unwrap();
//!
//! let mut producer = Producer::create(&path, &Options::default())?;
//! producer.publish(TICK, b"copied in")?;
//!
//! let mut record = producer.reserve(TICK, 8)?; // in the ring, in place
//! record.copy_from_slice(&42u64.to_le_bytes());
//! record.commit();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What happens to a record
//!
//! [`Producer::reserve`] takes space, [`Reservation::commit`] publishes it, a dropped reservation
//! is discarded. [`Producer::publish`] does both for bytes that exist already;
//! [`Producer::batch`] publishes many records by one store. There is no system call, allocation or
//! lock on that way, and no locked instruction.
//!
//! A **drop** ring refuses records while it is full, with [`ReserveError::Full`]; the loss is
//! counted by cause and told to the reader before the next record that fits.
//! [`Producer::reserve_timeout`] waits instead. An **overwrite** ring never refuses for want of
//! space: the oldest records go.
//!
//! A process that is killed at any instruction leaves every committed record readable and costs
//! the one that it was writing. The next [`Producer::attach`] goes on where it stopped.
//!
//! # Many producers
//!
//! A ring has one producer at a time, which is the fast way: give each thread and each process a
//! ring of its own. Where all records must stand in one order, or one file is wanted, make the ring
//! with [`Options::many`] and attach any number of [`SharedProducer`]s, one for each thread.
//!
//! # Records with a shape
//!
//! A plain struct with [`#[derive(Record)]`](types::Record) is published as it stands in memory; the
//! ring's type table then says what its fields are, to whoever has the file:
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use bytemuck::{Pod, Zeroable};
//! use perfring_producer::{Options, Producer, types::Record};
//!
//! /// What one request cost.
//! #[repr(C)]
//! #[derive(Clone, Copy, Record, Pod, Zeroable)]
//! #[record(crate = perfring_producer::types)] // not needed by who depends on perfring-types
//! struct Request {
//!     #[record(unit = "ns")]
//!     took: u64,
//!     status: u64,
//! }
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! let mut producer = Producer::create(&path, &Options::default())?;
//! producer.publish_pod(&Request { took: 81_000, status: 200 })?;
//! let mut request = producer.reserve_pod::<Request>()?; // in the ring, in place
//! request.took = 92_000;
//! request.status = 404;
//! request.commit();
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `rkyv`, values with strings and lists are archived in the reservation:
//! `publish_rkyv`. Bytes of another shape are told of with [`Producer::register`].
//!
//! # Time
//!
//! A ring that was made with [`Options::time`] stamps each record when it is reserved, in ns of
//! `CLOCK_BOOTTIME`, for some 4 ns: that clock is one for all processes of the machine. In the order
//! of the ring stamps never decrease; `proto/ABI.md`, "Time", says what else is sure. Readers find
//! them in `Record::time`, and the date by `Record::wall`. The longest payload is 8 bytes shorter.
//!
//! # Forks
//!
//! A forked child is not its parent. What it inherits refuses with [`ReserveError::Forked`] and
//! touches neither the parent's ring nor its place in it; the child attaches anew.
#![forbid(unsafe_code)]

use std::time::Duration;

#[cfg(feature = "rkyv")]
mod archive;
mod pod;
mod shared;

#[cfg(feature = "rkyv")]
pub use archive::PublishError;
pub use perfring_abi::{
    Evict, Layout, Policy, Producers, RecordType, SLOTS_DEFAULT, Tell, record_size,
};
pub use perfring_ring::{Count, ProducerBook, Refused, Wake};
use perfring_shm::MappedWriter;
pub use perfring_shm::{
    AttachError, Batch, ClockError, CreateError, Each, Home, Pages, PagesError, Removal,
    Reservation, ReserveError, RingOptions as Options, SharedBatch, SharedReservation, TypeError,
    create, install_guard, remove,
};
pub use perfring_types as types;
pub use pod::{PodReservation, SharedPodReservation};
pub use shared::SharedProducer;

/// The one producer of a ring.
///
/// Dropping it publishes what a forgotten batch held back, tells a loss that is still to be told if
/// there is room, and frees the place for the next producer. The ring stays.
#[derive(Debug)]
pub struct Producer {
    inner: MappedWriter,
    #[cfg(feature = "rkyv")]
    archives: archive::Space,
}

/// Why [`Producer::create`] failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The ring could not be made.
    Create(CreateError),
    /// It was made, but could not be attached to.
    Attach(AttachError),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Create(error) => error.fmt(f),
            OpenError::Attach(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Create(error) => error.source(),
            OpenError::Attach(error) => error.source(),
        }
    }
}

impl Producer {
    /// Makes a ring and attaches to it, under the name of this program.
    ///
    /// # Errors
    /// [`OpenError::Create`] with [`CreateError::Exists`] if there is one already: then
    /// [`Producer::attach`].
    pub fn create(home: impl Into<Home>, options: &Options) -> Result<Self, OpenError> {
        let home = home.into();
        create(&home, options).map_err(OpenError::Create)?;
        Self::attach(home).map_err(OpenError::Attach)
    }

    /// Attaches to a ring, under the name of this program. Goes on where the last producer stopped,
    /// however it ended.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Busy`] names the producer that has the ring.
    pub fn attach(home: impl Into<Home>) -> Result<Self, AttachError> {
        Self::attach_as(home, &program_name())
    }

    /// As [`Producer::attach`], under a name of up to 64 bytes that `perfring stat` shows.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_as(home: impl Into<Home>, name: &str) -> Result<Self, AttachError> {
        Ok(Producer {
            inner: MappedWriter::attach(home, name)?,
            #[cfg(feature = "rkyv")]
            archives: archive::Space::default(),
        })
    }

    /// Publishes one record: when this returns, readers see it.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline(always)]
    pub fn publish(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
        self.inner.publish(kind, payload, Wake::Auto)
    }

    /// As [`Producer::publish`], choosing whether to wake a sleeping consumer.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline(always)]
    pub fn publish_with(
        &mut self,
        kind: RecordType,
        payload: &[u8],
        wake: Wake,
    ) -> Result<(), ReserveError> {
        self.inner.publish(kind, payload, wake)
    }

    /// Space for a record of `len` bytes, in the ring itself. Write it, then
    /// [commit](Reservation::commit) or [discard](Reservation::discard) it; dropped, it is
    /// discarded.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer, RecordType, ReserveError};
    /// # let dir = tempfile::tempdir()?;
    /// # let mut producer = Producer::create(dir.path().join("ring"), &Options::default())?;
    /// let mut line = producer.reserve(RecordType::BYTES, 80)?;
    /// line[..5].copy_from_slice(b"hello");
    /// line.commit_len(5); // shorter than reserved: the rest is given back
    ///
    /// let max = producer.max_len();
    /// let refused = producer.reserve(RecordType::BYTES, max + 1).unwrap_err();
    /// assert_eq!(refused, ReserveError::TooLarge { len: max + 1, max });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline(always)]
    pub fn reserve(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<Reservation<'_>, ReserveError> {
        self.inner.reserve(kind, len)
    }

    /// As [`Producer::reserve`], waiting for space for at most `timeout`: the one call that blocks.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer, RecordType, ReserveError};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let mut producer = Producer::create(dir.path().join("ring"), &Options { size: 4096, ..Options::default() })?;
    /// producer.publish(RecordType::BYTES, &[0; 4000])?;
    /// let full = producer.reserve_timeout(RecordType::BYTES, 4000, Duration::from_millis(1));
    /// assert_eq!(full.unwrap_err(), ReserveError::Full); // nobody reads
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReserveError`]; only the refusal at the end is counted.
    #[inline(always)]
    pub fn reserve_timeout(
        &mut self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<Reservation<'_>, ReserveError> {
        self.inner.reserve_timeout(kind, len, timeout)
    }

    /// Publishes one record, waiting for space for at most `timeout`.
    ///
    /// # Errors
    /// See [`ReserveError`]; only the refusal at the end is counted.
    pub fn publish_timeout(
        &mut self,
        kind: RecordType,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<(), ReserveError> {
        let mut record = self.reserve_timeout(kind, payload.len(), timeout)?;
        record.copy_from_slice(payload);
        record.commit();
        Ok(())
    }

    /// Waits until a record of `len` bytes fits, for at most `timeout`. Returns whether it does: if
    /// not, nothing was refused, and nothing is counted. For who waits in slices, to look at
    /// something else in between.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer, RecordType};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let mut producer = Producer::create(dir.path().join("ring"), &Options { size: 4096, ..Options::default() })?;
    /// assert!(producer.wait_for_room(4000, Duration::ZERO)?);
    /// producer.publish(RecordType::BYTES, &[0; 4000])?;
    /// assert!(!producer.wait_for_room(4000, Duration::from_millis(1))?); // nobody reads
    /// assert_eq!(producer.book().refused.total().records, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What no waiting mends: see [`ReserveError`]; it is counted.
    pub fn wait_for_room(&mut self, len: usize, timeout: Duration) -> Result<bool, ReserveError> {
        self.inner.wait_for_room(len, timeout)
    }

    /// A batch: its records are held back, and published by one store when it ends.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer, RecordType};
    /// # let dir = tempfile::tempdir()?;
    /// # let mut producer = Producer::create(dir.path().join("ring"), &Options::default())?;
    /// let mut batch = producer.batch();
    /// for n in 0..64u64 {
    ///     batch.push(RecordType::BYTES, &n.to_le_bytes())?;
    /// }
    /// batch.publish();
    /// assert_eq!(producer.book().written.records, 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        self.inner.batch()
    }

    /// Publishes a record for each item, which `fill` writes in its place in the ring: a loop of
    /// [`Producer::reserve`] in an eighth to a quarter less time for small records, since its place is in
    /// registers and not in memory, where each record waits for the one before it. With
    /// [`Each::batch`] they are published so many at a time.
    ///
    /// Returns how many were published. The others were refused, after [`Each::timeout`], and are
    /// counted and told as any refusal.
    ///
    /// ```
    /// # use perfring_producer::{Each, Options, Producer, RecordType};
    /// # let dir = tempfile::tempdir()?;
    /// # let mut producer = Producer::create(dir.path().join("ring"), &Options::default())?;
    /// let samples = [3.5f64, 2.25, 8.0];
    /// let each = Each::new(RecordType::BYTES, 8);
    /// let published = producer.publish_each(each, samples, |sample, bytes| {
    ///     bytes.copy_from_slice(&sample.to_le_bytes());
    /// });
    /// assert_eq!(published, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If `fill` or the iterator panics, what was published stands, and what a batch held back is gone, or
    /// is published by the next call.
    /// A ring with time gains nothing.
    #[inline(always)]
    pub fn publish_each<I: IntoIterator>(
        &mut self,
        each: Each,
        items: I,
        fill: impl FnMut(I::Item, &mut [u8]),
    ) -> u64 {
        self.inner.publish_each(each, items, fill)
    }

    /// What was written, given back and refused since the ring was made, by this producer and those
    /// before it.
    #[must_use]
    pub fn book(&self) -> ProducerBook {
        self.inner.book()
    }

    /// What an overwrite ring has overwritten since it was made.
    #[must_use]
    pub fn overwritten(&self) -> Count {
        self.inner.overwritten()
    }

    /// Whether the ring's file was cut short under this producer, as far as was found out: its records
    /// go into memory of its own since then, and nobody reads them. Always false without
    /// [`install_guard`], as that is the end of the process then. A drop ring is
    /// [`ReserveError::Corrupt`] by itself, before a ring's worth is written; an overwrite ring asks
    /// nobody for space, and never is.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.inner.is_cut()
    }

    /// The longest payload that this ring takes, in bytes.
    #[must_use]
    #[inline]
    pub fn max_len(&self) -> usize {
        self.inner.max_len()
    }

    /// The ring's shape and identity.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.inner.layout()
    }

    /// Does something with the pages of the ring, for this process, before it begins: faults them in,
    /// locks them in memory, makes them huge. See [`Pages`] and `benches/RESULTS.md` for what it gains.
    ///
    /// ```
    /// # use perfring_producer::{Options, Pages, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let options = Options { size: 64 << 20, ..Options::default() };
    /// # let options = Options { size: 1 << 20, ..options };
    /// let producer = Producer::create(&path, &options)?;
    /// producer.set_pages(Pages::FaultIn)?; // no page fault in the first lap
    /// if let Err(error) = producer.set_pages(Pages::Huge) {
    ///     eprintln!("{error}"); // slower, and no worse
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PagesError`] says what could not be done; the ring can be used as before.
    pub fn set_pages(&self, pages: Pages) -> Result<(), PagesError> {
        self.inner.set_pages(pages)
    }

    /// Where the ring lives.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.inner.file().home()
    }
}

/// The name of this program, as the kernel knows it.
fn program_name() -> String {
    std::env::args_os()
        .next()
        .and_then(|arg| {
            Some(std::path::Path::new(&arg).file_name()?.to_string_lossy().into_owned())
        })
        .unwrap_or_default()
}
