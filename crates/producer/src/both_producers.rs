//! Methods that both kinds of producers have: plain structs as records, and the ring itself.

use crate::errors::ReserveError;
use crate::exclusive_producer::Producer;
use crate::known_types::put_entry;
use crate::pod_reservation::{PodReservation, check};
use crate::shared_producer::SharedProducer;
use perfring_abi::Layout;
use perfring_ring::ReadError;
use perfring_shm::{AttachError, Location, Pages, PagesError, RingOptions};
use perfring_types::{Entry, PodRecord, Schema};

macro_rules! producer {
    ($producer:ident $($mut:tt)?) => {
        impl $producer {
            /// Puts a type into the ring's type table, if it is not there yet, so that readers of
            /// the file can show its fields by name. [`Self::publish_pod`] does so by itself at the
            /// first record of each type: call this to do it at the start, where a failure can be
            /// handled.
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
            /// producer.publish_as(LINE.id, b"text, as the table says")?;
            ///
            /// let other = Schema::new("demo.Other", Encoding::Json);
            /// let other = Schema { id: LINE.id, ..other };
            /// let taken = ReserveError::Type(TypeError::Taken { id: LINE.id.get() });
            /// assert_eq!(producer.register(&other), Err(taken));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// May wait up to about a tenth of a second for another process that is registering.
            ///
            /// # Errors
            /// [`ReserveError::Type`], with [`TypeError`](crate::TypeError) for the reason;
            /// [`ReserveError::Forked`] in a forked child, unless the type was known before.
            #[inline(always)]
            pub fn register(&$($mut)? self, schema: &Schema<'_>) -> Result<(), ReserveError> {
                self.register_key(schema, schema.key())
            }

            /// Puts the entry of another ring's type table into this ring's, if it is not there
            /// yet: for programs that copy records between rings.
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
            /// As for [`Self::register`].
            pub fn register_entry(&$($mut)? self, entry: &Entry<'_>) -> Result<(), ReserveError> {
                put_entry(&self.window, entry)
            }

            /// Publishes a plain struct. Its bytes are the payload.
            ///
            /// The first record of a type puts the type into the ring's table, which allocates and
            /// takes a lock, see [`Self::register`]; all others cost what [`Self::publish`] costs.
            ///
            /// # Errors
            /// See [`ReserveError`]; a refusal is counted, except [`ReserveError::Type`].
            #[inline(always)]
            pub fn publish_pod<T: PodRecord>(&$($mut)? self, value: &T) -> Result<(), ReserveError> {
                const { check::<T>() };
                self.register_key(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
                self.publish_as(T::SCHEMA.id, bytemuck::bytes_of(value))
            }

            /// Reserves space for a plain struct, to be filled in place in the ring (or in private memory, see
            /// [`Self::is_guarded`]). Its fields hold what was there last: write all of them.
            ///
            /// # Errors
            /// As for [`Self::publish_pod`].
            #[inline(always)]
            pub fn reserve_pod<T: PodRecord>(&$($mut)? self) -> Result<PodReservation<'_, T, $producer>, ReserveError> {
                const { check::<T>() };
                self.register_key(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
                let bytes = self.reserve(T::SCHEMA.id, size_of::<T>())?;
                Ok(PodReservation::of(bytes))
            }

            /// Returns whether reservations are private memory, which a commit copies to the ring: what
            /// [`Trust`](crate::Trust) came to. True by default where other users may write the file.
            #[must_use]
            pub fn is_guarded(&self) -> bool {
                self.window.is_guarded()
            }

            /// Returns why what this producer publishes does not reach the ring's file, if that was found out:
            /// [`ReadError::Truncated`](crate::ReadError::Truncated), or [`ReadError::NoSpace`](crate::ReadError::NoSpace) if
            /// the file system had no page for it. Since then its records go into private memory, and no process reads them. A
            /// drop ring also returns [`ReserveError::Truncated`] or [`ReserveError::NoSpace`], before a ring's worth is
            /// written. An overwrite ring never does, because it does not read the consumer's position.
            ///
            /// If only this user may write the file, only a process that called
            /// [`install_sigbus_handler`](crate::install_sigbus_handler) detects this: truncation ends any other
            /// process.
            #[must_use]
            pub fn cut_off(&self) -> Option<ReadError> {
                self.window.look()
            }

            /// Returns whether the ring's file was removed, or another file has its name: only the readers
            /// that have this file open get what is published. A cleaner of temporary files does so, systemd at a
            /// user's logout (`RemoveIPC`), and a program that makes the ring again. Two system calls: to be asked
            /// once in a while. Attach again, or make the ring again, when it is true.
            ///
            /// ```
            /// # use perfring_producer::{Options, Producer};
            /// # let dir = tempfile::tempdir()?;
            /// # let path = dir.path().join("ring");
            /// let mut producer = Producer::create(&path, &Options::default())?;
            /// std::fs::remove_file(&path)?;
            /// producer.publish(b"nobody can open this file any more")?;
            /// assert!(producer.is_removed());
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[must_use]
            pub fn is_removed(&self) -> bool {
                self.window.file().is_removed()
            }

            /// Returns the options with which a ring like this one would be made, with the mode that its file has: for a program
            /// that makes the ring again after [`Self::is_removed`]. `any_owner` is set if the file belongs to another user than
            /// this process's and root.
            ///
            /// # Errors
            /// [`AttachError::Io`] if the file's metadata cannot be read.
            pub fn options(&self) -> Result<RingOptions, AttachError> {
                let file = self.window.file();
                let (owner, mode) = file.owner()?;
                let like = RingOptions::like(file.layout(), mode);
                Ok(RingOptions { any_owner: RingOptions::is_foreign(owner), ..like })
            }

            /// Returns the longest payload that this ring takes, in bytes.
            #[must_use]
            #[inline]
            pub fn max_len(&self) -> usize {
                self.window.max_len()
            }

            /// Returns the ring's shape and identity.
            #[must_use]
            pub fn layout(&self) -> &Layout {
                self.window.file().layout()
            }

            /// Prefaults, locks or collapses this mapping's pages. `benches/RESULTS.md` has the
            /// gains.
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
            /// [`PagesError`] says what failed; the ring can be used as before.
            pub fn set_pages(&self, pages: Pages) -> Result<(), PagesError> {
                self.window.set_pages(pages)
            }

            /// Returns the ring's location.
            #[must_use]
            pub fn location(&self) -> &Location {
                self.window.file().location()
            }

            /// Registers a type whose [`Schema::key`] is known.
            #[inline(always)]
            pub(crate) fn register_key(
                &self,
                schema: &Schema<'_>,
                key: u64,
            ) -> Result<(), ReserveError> {
                self.known.register(&self.window, schema, key)
            }
        }
    };
}

producer!(Producer mut);
producer!(SharedProducer);
