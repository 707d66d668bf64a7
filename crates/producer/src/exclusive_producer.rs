//! The exclusive producer.

use crate::known_types::KnownTypes;
use crate::options::ProducerOptions;
use crate::reserve_error::ReserveError;
use crate::space::{now, put_after, refuse, reserve};
use crate::timestamp::Clock;
use perfring_abi::RecordType;
use perfring_ring::{Count, End, ProducerTotals, Refusal, Wake};
use perfring_shm::{
    AttachError, ExclusiveSpace, Location, MachineClock, Reservation, Reserves, WriteWindow,
};
use std::time::Duration;

/// The one producer of a ring.
///
/// Dropping it publishes what a forgotten batch held back, reports losses that are not reported yet if there
/// is room, and frees the seat for the next producer. The ring stays.
#[derive(Debug)]
pub struct Producer {
    pub(crate) window: WriteWindow,
    pub(crate) clock: Clock<MachineClock>,
    pub(crate) known: KnownTypes,
    /// The space that the next archive is tried in.
    #[cfg(feature = "rkyv")]
    pub(crate) archive_space: usize,
}

impl Reserves for Producer {
    type Space<'a> = ExclusiveSpace<'a>;
}

impl Producer {
    /// Attaches to a ring, with these options.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer, ProducerOptions, RecordType, Trust};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// // Any user of this machine may write the file.
    /// drop(Producer::create(&path, &Options { mode: 0o666, ..Options::default() })?);
    /// let mut producer = Producer::attach(&path)?;
    /// assert!(producer.is_guarded());
    /// let mut line = producer.reserve(RecordType::BYTES, 5)?; // private memory
    /// line.copy_from_slice(b"hello");
    /// assert_eq!(std::str::from_utf8(&line), Ok("hello")); // which nobody can change
    /// line.commit(); // copies it to the ring
    /// drop(producer);
    ///
    /// let nobody = ProducerOptions { trust: Trust::Nobody, ..ProducerOptions::named("a name") };
    /// assert!(Producer::attach_with(&path, &nobody)?.is_guarded());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_with(
        location: impl Into<Location>,
        options: &ProducerOptions,
    ) -> Result<Self, AttachError> {
        let mut window = WriteWindow::attach(location, options.trust)?;
        let mut clock = Clock::new(window.clock());
        if window.file().layout().time {
            window.begin_time(&clock.read());
        }
        window.sign(&options.name());
        Ok(Producer {
            window,
            clock,
            known: KnownTypes::new(),
            #[cfg(feature = "rkyv")]
            archive_space: 0,
        })
    }

    /// Publishes one record, and waits if there is a `timeout`.
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        kind: RecordType,
        payload: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(), ReserveError> {
        let (window, clock, end) = (&mut self.window, &mut self.clock, End::Publish(Wake::Auto));
        match (window.put(kind, payload, end, |window| now(window, clock)), timeout) {
            (Ok(()), _) => Ok(()),
            (Err(refusal), None) => Err(refuse(window, refusal, payload.len())),
            (Err(refusal), Some(timeout)) => {
                put_after(refusal, window, clock, (kind, payload, end), timeout)
            }
        }
    }

    /// Reserves space for one record, and waits if there is a `timeout`.
    #[inline(always)]
    pub(crate) fn space<T: ?Sized>(
        &mut self,
        kind: RecordType,
        len: usize,
        timeout: Option<Duration>,
    ) -> Result<Reservation<'_, Producer, T>, ReserveError> {
        reserve(
            &mut self.window,
            &mut self.clock,
            kind,
            len,
            End::Publish(Wake::Auto),
            timeout,
            refuse,
        )
    }

    /// Reserves space as [`Producer::space`] does. A ring that is full all the time is no refusal, and is not counted.
    #[inline]
    pub(crate) fn space_or_none(
        &mut self,
        kind: RecordType,
        len: usize,
        timeout: Duration,
    ) -> Result<Option<Reservation<'_, Producer>>, ReserveError> {
        let refused = |window: &mut WriteWindow, refusal, len| match refusal {
            Refusal::Full => ReserveError::Full,
            refusal => refuse(window, refusal, len),
        };
        let (window, clock, timeout) = (&mut self.window, &mut self.clock, Some(timeout));
        match reserve(window, clock, kind, len, End::Publish(Wake::Auto), timeout, refused) {
            Ok(reserved) => Ok(Some(reserved)),
            Err(ReserveError::Full) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins a batch: its records are held back, and published by one store when it ends.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let mut producer = Producer::create(dir.path().join("ring"), &Options::default())?;
    /// let mut batch = producer.batch();
    /// for n in 0..64u64 {
    ///     batch.push(&n.to_le_bytes())?;
    /// }
    /// drop(batch); // published
    /// assert_eq!(producer.totals().written.records, 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        self.window.begin_batch();
        Batch { window: &mut self.window, clock: &mut self.clock }
    }

    /// Returns what was written, discarded and refused since the ring was made, by this producer and those
    /// before it.
    #[must_use]
    pub fn totals(&self) -> ProducerTotals {
        self.window.totals()
    }

    /// Returns what an overwrite ring has overwritten since it was made.
    #[must_use]
    pub fn overwritten(&self) -> Count {
        self.window.overwritten()
    }
}

/// Records that are held back until the batch ends, and then published by one store of
/// `data_head`.
///
/// A batch of up to an eighth of the ring, or 32 KiB, is published in one piece. A longer one may
/// be published in parts, as may one in a ring that overwrites by halves.
#[derive(Debug)]
#[must_use = "a batch is published when it is dropped"]
pub struct Batch<'a> {
    pub(crate) window: &'a mut WriteWindow,
    pub(crate) clock: &'a mut Clock<MachineClock>,
}

impl Batch<'_> {
    /// Adds one record of type [`RecordType::BYTES`].
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn push(&mut self, payload: &[u8]) -> Result<(), ReserveError> {
        self.push_as(RecordType::BYTES, payload)
    }

    /// Adds one record of this type.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn push_as(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
        let (window, clock) = (&mut *self.window, &mut *self.clock);
        window
            .put(kind, payload, End::Hold, |window| now(window, clock))
            .map_err(|refusal| refuse(window, refusal, payload.len()))
    }

    /// Adds one record of this type. Returns `false`, and counts nothing, if the ring is full. For a caller that has an
    /// alternative. That does not publish the batch's held records: end the batch, and a consumer can make room.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline]
    pub fn offer(&mut self, kind: RecordType, payload: &[u8]) -> Result<bool, ReserveError> {
        match self.window.put(kind, payload, End::Hold, |window| now(window, self.clock)) {
            Ok(()) => Ok(true),
            Err(Refusal::Full) => Ok(false),
            Err(refusal) => Err(refuse(self.window, refusal, payload.len())),
        }
    }

    /// Reserves space for one record of the batch, in place.
    ///
    /// # Errors
    /// See [`ReserveError`]; the refusal is counted.
    #[inline(always)]
    pub fn reserve(
        &mut self,
        kind: RecordType,
        len: usize,
    ) -> Result<Reservation<'_, Producer>, ReserveError> {
        reserve(self.window, self.clock, kind, len, End::Hold, None, refuse)
    }
}

impl Drop for Batch<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.window.publish(Wake::Auto);
    }
}
