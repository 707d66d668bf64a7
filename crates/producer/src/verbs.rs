//! The verbs that all three kinds of producers have, each once. A handle says how it puts one record into its ring (`put`), how
//! it reserves space for one (`space`), and how it registers a type (`know`), all three with a limit that the caller may give.

use crate::cpu_producer::CpuProducer;
use crate::exclusive_producer::Producer;
use crate::reserve_error::ReserveError;
use crate::shared_producer::SharedProducer;
use perfring_abi::RecordType;
use perfring_shm::Reservation;
use perfring_types::{Entry, PodRecord, Schema};
use std::time::Duration;

/// Records are placed at multiples of eight bytes.
const fn check<T: PodRecord>() {
    assert!(
        align_of::<T>() <= 8,
        "this record's alignment is above 8, and records stand at multiples of 8"
    );
}

macro_rules! verbs {
    ($producer:ident $($mut:tt)?) => {
        impl $producer {
            /// Publishes one record of type [`RecordType::BYTES`]. Readers see it when this returns. Where many producers write
            /// one ring and an older reservation is open, readers see the record as soon as that reservation has ended.
            ///
            /// # Errors
            /// See [`ReserveError`]; the loss is counted.
            #[inline(always)]
            pub fn publish(&$($mut)? self, payload: &[u8]) -> Result<(), ReserveError> {
                self.put(RecordType::BYTES, payload, None)
            }

            /// Publishes one record of this type, as [`Self::publish`] does.
            ///
            /// # Errors
            /// See [`ReserveError`]; the loss is counted.
            #[inline(always)]
            pub fn publish_as(
                &$($mut)? self,
                kind: RecordType,
                payload: &[u8],
            ) -> Result<(), ReserveError> {
                self.put(kind, payload, None)
            }

            /// Publishes one record of this type, and waits for at most `timeout` for space, and where many producers write one
            /// ring, for an older reservation to end and for the ring's lock. Where there is space this is [`Self::publish_as`].
            /// A `timeout` of zero waits for nothing, and one of [`Duration::MAX`] has no end. A [`SharedProducer`] may yield
            /// its core to a preempted holder of the lock, even with a `timeout` of zero.
            ///
            /// # Errors
            /// See [`ReserveError`]; only the refusal at the end is counted.
            #[inline(always)]
            pub fn publish_timeout(
                &$($mut)? self,
                kind: RecordType,
                payload: &[u8],
                timeout: Duration,
            ) -> Result<(), ReserveError> {
                self.put(kind, payload, Some(timeout))
            }

            /// Reserves space for a record of `len` bytes in the ring itself; or in private memory, where other users may write
            /// the ring's file ([`Trust`](crate::Trust)). Write it, then [commit](Reservation::commit) or
            /// [discard](Reservation::discard) it. Dropping it discards it.
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
            /// A [`Producer`] has one reservation at a time. The others have any number: while one is open, readers see nothing
            /// that the ring got after it. A reservation of a [`CpuProducer`] is in the ring of the CPU that the thread runs on, and
            /// may be ended on any CPU, by any thread.
            ///
            /// # Errors
            /// See [`ReserveError`]; the loss is counted.
            #[inline(always)]
            pub fn reserve(
                &$($mut)? self,
                kind: RecordType,
                len: usize,
            ) -> Result<Reservation<'_, $producer>, ReserveError> {
                self.space(kind, len, None)
            }

            /// Reserves space as [`Self::reserve`] does, and waits as [`Self::publish_timeout`] does.
            ///
            /// ```
            /// # use perfring_producer::{Options, Producer, RecordType, ReserveError};
            /// # use std::time::Duration;
            /// # let dir = tempfile::tempdir()?;
            /// # let mut producer = Producer::create(dir.path().join("ring"), &Options { size: 4096, ..Options::default() })?;
            /// producer.publish(&[0; 4000])?;
            /// let full = producer.reserve_timeout(RecordType::BYTES, 4000, Duration::from_millis(1));
            /// assert_eq!(full.unwrap_err(), ReserveError::Full); // no consumer reads
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// See [`ReserveError`]; only the refusal at the end is counted.
            #[inline(always)]
            pub fn reserve_timeout(
                &$($mut)? self,
                kind: RecordType,
                len: usize,
                timeout: Duration,
            ) -> Result<Reservation<'_, $producer>, ReserveError> {
                self.space(kind, len, Some(timeout))
            }

            /// Publishes a plain struct. Its bytes are the payload.
            ///
            /// The first record of a type puts the type into the ring's table, which allocates and takes a lock, see
            /// [`Self::register`]; all others cost what [`Self::publish`] costs.
            ///
            /// # Errors
            /// See [`ReserveError`]; a refusal is counted, except [`ReserveError::Type`].
            #[inline(always)]
            pub fn publish_pod<T: PodRecord>(&$($mut)? self, value: &T) -> Result<(), ReserveError> {
                const { check::<T>() };
                self.know(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
                self.put(T::SCHEMA.id, bytemuck::bytes_of(value), None)
            }

            /// Reserves space for a plain struct, to be filled in place: see [`Self::reserve`]. Its fields hold what was there
            /// last: write all of them.
            ///
            /// # Errors
            /// As for [`Self::publish_pod`].
            #[inline(always)]
            pub fn reserve_pod<T: PodRecord>(
                &$($mut)? self,
            ) -> Result<Reservation<'_, $producer, T>, ReserveError> {
                const { check::<T>() };
                self.know(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
                self.space(T::SCHEMA.id, size_of::<T>(), None)
            }

            /// Puts a type into the ring's type table, if it is not there yet, so that readers of the file can show its fields
            /// by name. [`Self::publish_pod`] does so by itself at the first record of each type: call this to do it at the
            /// start, where a failure can be handled. Of rings per CPU, each that this process is attached to gets the type
            /// now, and any other before its first record.
            ///
            /// ```
            /// # use perfring_producer::{Options, Producer, ReserveError, error::TypeError};
            /// # use perfring_producer::types::{Encoding, Schema};
            /// # let dir = tempfile::tempdir()?;
            /// # let path = dir.path().join("ring");
            /// const LINE: Schema<'static> = Schema::new("demo.Line", Encoding::Utf8).with_hashed_id();
            ///
            /// let mut producer = Producer::create(&path, &Options::default())?;
            /// producer.register(&LINE)?;
            /// producer.publish_as(LINE.id, b"text, as the table says")?;
            ///
            /// let other = Schema::new("demo.Other", Encoding::Json);
            /// let other = Schema { id: LINE.id, ..other };
            /// let taken = ReserveError::Type(TypeError::Taken { id: LINE.id.get() });
            /// assert_eq!(producer.register(&other), Err(taken));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// May wait up to about a tenth of a second for another process that is registering. A [`CpuProducer`] may wait that
            /// long for each ring that it is attached to.
            ///
            /// # Errors
            /// [`ReserveError::Type`], with [`TypeError`](crate::error::TypeError) for the reason;
            /// [`ReserveError::Forked`] in a forked child, unless the type was known before.
            #[inline(always)]
            pub fn register(&$($mut)? self, schema: &Schema<'_>) -> Result<(), ReserveError> {
                self.know(schema, schema.key())
            }

            /// Puts the entry of another ring's type table into this ring's, if it is not there yet, as [`Self::register`]
            /// does: for programs that copy records between rings.
            ///
            /// ```
            /// # use perfring_producer::{Options, Producer, types::{Encoding, Entries, Schema}};
            /// # let dir = tempfile::tempdir()?;
            /// # let mut producer = Producer::create(dir.path().join("ring"), &Options::default())?;
            /// # let others = Schema::new("demo.Line", Encoding::Utf8).with_hashed_id().to_entry();
            /// for entry in Entries::new(&others) {
            ///     producer.register_entry(&entry?)?;
            /// }
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// [`ReserveError::Type`], with [`TypeError`](crate::error::TypeError) for the reason; [`ReserveError::Forked`] in a forked
            /// child, also for a type that was known before.
            pub fn register_entry(&$($mut)? self, entry: &Entry<'_>) -> Result<(), ReserveError> {
                self.know_entry(entry)
            }
        }
    };
}

verbs!(Producer mut);
verbs!(SharedProducer);
verbs!(CpuProducer);
