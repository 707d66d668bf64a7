//! One producer of a shared ring.

use crate::{AttachError, Home, Layout, OpenError, Options, RecordType, ReserveError, create};
use perfring_abi::Producers;
use perfring_ring::{Count, Refused, Wake};
use perfring_shm::{MappedShared, SharedBatch, SharedReservation};
use std::time::Duration;

/// One of the producers of a shared ring: there may be as many as the ring has slots, in any
/// threads and processes.
///
/// All records stand in one order, that of their reservations. Several can be open at a time, by
/// one producer and by many, and end in any order; `data_head` stands before the oldest that is
/// open. A producer that dies anywhere costs its own open reservations and nothing else: they are
/// ended by the next producer that needs the lock or the room, or that has published 64 records
/// behind them; by a consumer in `wait`; or by `perfring recover`. (Observers write nothing: in a
/// ring that only they read, it is the producers who notice.)
///
/// Each thread attaches a handle of its own. A publish takes a lock for a few nanoseconds; so many
/// producers that publish all the time do so in turns, and batches are the way to more.
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
/// other.publish(RecordType::BYTES, b"quick")?; // not seen yet: an older one is open
/// slow.copy_from_slice(b"slow");
/// slow.commit(); // now both are
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedProducer {
    pub(crate) inner: MappedShared,
    #[cfg(feature = "rkyv")]
    pub(crate) archives: crate::archive::Buffer,
}

impl SharedProducer {
    /// Makes a shared ring, whatever `options.producers` says, and attaches to it under the name of
    /// this program.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn create(home: impl Into<Home>, options: &Options) -> Result<Self, OpenError> {
        let home = home.into();
        let options = Options { producers: Producers::Many, ..*options };
        create(&home, &options).map_err(OpenError::Create)?;
        Self::attach(home).map_err(OpenError::Attach)
    }

    /// Attaches as one more producer, under the name of this program. What the last holder of the
    /// slot left open is ended first.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Slots`] if there are as many producers as slots.
    pub fn attach(home: impl Into<Home>) -> Result<Self, AttachError> {
        Self::attach_as(home, &crate::program_name())
    }

    /// As [`SharedProducer::attach`], under a name of up to 64 bytes that `perfring stat` shows.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_as(home: impl Into<Home>, name: &str) -> Result<Self, AttachError> {
        Ok(SharedProducer {
            inner: MappedShared::attach(home, name)?,
            #[cfg(feature = "rkyv")]
            archives: crate::archive::Buffer::default(),
        })
    }

    /// Publishes one record. When this returns, readers see it, unless an older reservation is
    /// open: then as soon as that has ended.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline(always)]
    pub fn publish(&self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
        self.inner.publish(kind, payload, Wake::Auto)
    }

    /// As [`SharedProducer::publish`], choosing whether to wake a sleeping consumer.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline(always)]
    pub fn publish_with(
        &self,
        kind: RecordType,
        payload: &[u8],
        wake: Wake,
    ) -> Result<(), ReserveError> {
        self.inner.publish(kind, payload, wake)
    }

    /// Space for a record of `len` bytes, in the ring itself. Any number can be open at a time.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline(always)]
    pub fn reserve(
        &self,
        kind: RecordType,
        len: usize,
    ) -> Result<SharedReservation<'_>, ReserveError> {
        self.inner.reserve(kind, len)
    }

    /// As [`SharedProducer::reserve`], waiting for at most `timeout` for space, or for an older
    /// reservation that is in the way to end.
    ///
    /// # Errors
    /// See [`ReserveError`]; only the refusal at the end is counted.
    pub fn reserve_timeout(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<SharedReservation<'_>, ReserveError> {
        self.inner.reserve_timeout(kind, len, timeout)
    }

    /// As [`SharedProducer::reserve_timeout`], but that there is no space in time is an outcome:
    /// `None`, and nothing is counted. For who waits in slices, or has another way.
    ///
    /// ```
    /// # use perfring_producer::{Options, RecordType, SharedProducer};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options { size: 4096, ..Options::many() };
    /// # let producer = SharedProducer::create(dir.path().join("ring"), &options)?;
    /// producer.publish(RecordType::BYTES, &[0; 4000])?;
    /// let offered = producer.offer_timeout(RecordType::BYTES, 4000, Duration::from_millis(1))?;
    /// assert!(offered.is_none()); // nobody reads
    /// assert_eq!(producer.refused().total().records, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What no waiting mends: see [`ReserveError`]; it is counted.
    pub fn offer_timeout(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<Option<SharedReservation<'_>>, ReserveError> {
        self.inner.offer_timeout(kind, len, timeout)
    }

    /// Publishes one record, waiting as [`SharedProducer::reserve_timeout`] does.
    ///
    /// # Errors
    /// See [`ReserveError`]; only the refusal at the end is counted.
    pub fn publish_timeout(
        &self,
        kind: RecordType,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<(), ReserveError> {
        self.inner.publish_timeout(kind, payload, timeout)
    }

    /// A batch: one reservation of `bytes` that holds many records, published at once. Ask for the
    /// sum of what is to come, each as [`Layout::record_size`] says; what is not used becomes a hole.
    ///
    /// ```
    /// # use perfring_producer::{Options, RecordType, SharedProducer};
    /// # let dir = tempfile::tempdir()?;
    /// # let producer = SharedProducer::create(dir.path().join("ring"), &Options::many())?;
    /// let mut batch = producer.batch(64 * producer.layout().record_size(8) as usize)?;
    /// for n in 0..64u64 {
    ///     assert!(batch.push(RecordType::BYTES, &n.to_le_bytes()));
    /// }
    /// assert!(!batch.push(RecordType::BYTES, b"no room"));
    /// batch.publish();
    /// assert_eq!(producer.written().records, 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted, as one record.
    #[inline]
    pub fn batch(&self, bytes: usize) -> Result<SharedBatch<'_>, ReserveError> {
        self.inner.batch(bytes)
    }

    /// As [`SharedProducer::batch`], but that there is no room now is an outcome: `None`, and nothing
    /// is counted. For who then publishes the records one by one.
    ///
    /// # Errors
    /// What no waiting mends: see [`ReserveError`]; it is counted.
    pub fn offer_batch(&self, bytes: usize) -> Result<Option<SharedBatch<'_>>, ReserveError> {
        self.inner.offer_batch(bytes)
    }

    /// What producers in this slot have committed since the ring was made.
    #[must_use]
    pub fn written(&self) -> Count {
        self.inner.written()
    }

    /// What producers in this slot were refused since the ring was made, by cause.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.inner.refused_counts()
    }

    /// The number of this producer's slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.inner.slot()
    }

    /// Whether the ring's file was cut short under this producer, as far as was found out: its records
    /// go into memory of its own since then, and nobody reads them. Always false without
    /// [`install_guard`](crate::install_guard), as that is the end of the process then. A drop ring is
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

    /// Where the ring lives.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.inner.file().home()
    }
}
