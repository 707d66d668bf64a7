//! Plain structs as records.

use crate::errors::ReserveError;
use crate::exclusive_producer::Producer;
use crate::shared_producer::SharedProducer;
use perfring_ring::Wake;
use perfring_shm::{Reservation, SharedReservation};
use perfring_types::{Entry, PodRecord, Schema};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Records stand at multiples of eight bytes.
const fn check<T: PodRecord>() {
    assert!(
        align_of::<T>() <= 8,
        "this record's alignment is above 8, and records stand at multiples of 8"
    );
}

impl Producer {
    /// Puts a type into the ring's type table, if it is not there yet, so that whoever reads the
    /// file can show its fields by name. [`Producer::publish_pod`] does so by itself, at the first
    /// record of each type: this is for doing it, and knowing that it can be done, at the start.
    ///
    /// ```
    /// # use perfring_producer::{Options, Producer, ReserveError, TypeError};
    /// # use perfring_producer::types::{Encoding, Schema};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// const LINE: Schema<'static> = Schema::new("demo.Line", Encoding::Utf8).with_hashed_id();
    ///
    /// let mut producer = Producer::create(&path, &Options::default())?;
    /// producer.register(&LINE)?;
    /// producer.publish(LINE.id, b"text, as the table says")?;
    ///
    /// let other = Schema::new("demo.Other", Encoding::Json);
    /// let other = Schema { id: LINE.id, ..other };
    /// let taken = ReserveError::Type(TypeError::Taken { id: LINE.id.get() });
    /// assert_eq!(producer.register(&other), Err(taken));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// May wait, for up to some tenth of a second, for another process that is registering.
    ///
    /// # Errors
    /// [`ReserveError::Type`], with [`TypeError`](crate::TypeError) for the reason;
    /// [`ReserveError::Forked`] in a forked child, unless the type was known before.
    #[inline(always)]
    pub fn register(&mut self, schema: &Schema<'_>) -> Result<(), ReserveError> {
        self.register_key(schema, schema.key())
    }

    /// Puts the entry of another ring's type table into this ring's, if it is not there yet: for who
    /// hands records on.
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
    /// As for [`Producer::register`].
    pub fn register_entry(&mut self, entry: &Entry<'_>) -> Result<(), ReserveError> {
        self.put_entry(entry)
    }

    /// Publishes a plain struct: its bytes are the payload.
    ///
    /// The first record of a type puts the type into the ring's table, which allocates and takes a
    /// lock, see [`Producer::register`]; all others cost what [`Producer::publish`] costs.
    ///
    /// # Errors
    /// See [`ReserveError`]; what is refused is counted, but for [`ReserveError::Type`].
    #[inline(always)]
    pub fn publish_pod<T: PodRecord>(&mut self, value: &T) -> Result<(), ReserveError> {
        const { check::<T>() };
        self.register_key(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        self.publish(T::SCHEMA.id, bytemuck::bytes_of(value))
    }

    /// Space for a plain struct, in the ring itself, to be filled in place. Its fields hold what
    /// the ring last held there: write all of them.
    ///
    /// # Errors
    /// As for [`Producer::publish_pod`].
    #[inline(always)]
    pub fn reserve_pod<T: PodRecord>(&mut self) -> Result<PodReservation<'_, T>, ReserveError> {
        const { check::<T>() };
        self.register_key(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        let bytes = self.reserve(T::SCHEMA.id, size_of::<T>())?;
        Ok(PodReservation { bytes, of: PhantomData })
    }
}

impl SharedProducer {
    /// As [`Producer::register`]. Any number of producers may do so at once.
    ///
    /// # Errors
    /// As for [`Producer::register`].
    #[inline(always)]
    pub fn register(&self, schema: &Schema<'_>) -> Result<(), ReserveError> {
        self.register_key(schema, schema.key())
    }

    /// As [`Producer::register_entry`].
    ///
    /// # Errors
    /// As for [`Producer::register`].
    pub fn register_entry(&self, entry: &Entry<'_>) -> Result<(), ReserveError> {
        self.put_entry(entry)
    }

    /// As [`Producer::publish_pod`].
    ///
    /// # Errors
    /// See [`ReserveError`]; what is refused is counted, but for [`ReserveError::Type`].
    #[inline(always)]
    pub fn publish_pod<T: PodRecord>(&self, value: &T) -> Result<(), ReserveError> {
        const { check::<T>() };
        self.register_key(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        self.publish(T::SCHEMA.id, bytemuck::bytes_of(value))
    }

    /// As [`Producer::reserve_pod`].
    ///
    /// # Errors
    /// As for [`SharedProducer::publish_pod`].
    #[inline(always)]
    pub fn reserve_pod<T: PodRecord>(&self) -> Result<SharedPodReservation<'_, T>, ReserveError> {
        const { check::<T>() };
        self.register_key(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        let bytes = self.reserve(T::SCHEMA.id, size_of::<T>())?;
        Ok(SharedPodReservation { bytes, of: PhantomData })
    }
}

macro_rules! reservation {
    ($(#[$doc:meta])* $name:ident, $bytes:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "a reservation that is dropped is discarded"]
        pub struct $name<'a, T> {
            bytes: $bytes<'a>,
            of: PhantomData<T>,
        }

        impl<T: PodRecord> $name<'_, T> {
            /// Publishes it.
            #[inline(always)]
            pub fn commit(self) {
                self.bytes.commit();
            }

            /// Publishes it, choosing whether to wake a sleeping consumer.
            #[inline(always)]
            pub fn commit_with(self, wake: Wake) {
                self.bytes.commit_with(wake);
            }

            /// Gives it back.
            pub fn discard(self) {
                self.bytes.discard();
            }
        }

        impl<T: PodRecord> Deref for $name<'_, T> {
            type Target = T;

            #[inline(always)]
            fn deref(&self) -> &T {
                bytemuck::from_bytes(&self.bytes) // reserved for one, and aligned to eight
            }
        }

        impl<T: PodRecord> DerefMut for $name<'_, T> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut T {
                bytemuck::from_bytes_mut(&mut self.bytes)
            }
        }
    };
}

reservation! {
    /// A struct in the ring, still to be committed: see [`Producer::reserve_pod`]. Dropped, it is
    /// discarded.
    PodReservation, Reservation
}
reservation! {
    /// As [`PodReservation`], of a [`SharedProducer`].
    SharedPodReservation, SharedReservation
}
