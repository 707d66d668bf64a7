//! The methods that both kinds of producers of one ring have: making it, attaching to it, and describing it.

use crate::exclusive_producer::Producer;
use crate::known_types::add_entry;
use crate::options::ProducerOptions;
use crate::reserve_error::ReserveError;
use crate::shared_producer::SharedProducer;
use perfring_abi::{Layout, Producers, RecordType};
use perfring_ring::ReadError;
use perfring_shm::{
    AttachError, Location, OpenError, Pages, PagesError, Reservation, RingOptions, create,
    open_or_create,
};
use perfring_types::{Entry, Schema};
use std::time::Duration;

macro_rules! producer {
    ($producer:ident, $producers:ident $(, $mut:tt)?) => {
        impl $producer {
            /// Makes a ring for producers of this kind, whatever `options.producers` says, and attaches to it under the name of
            /// this program.
            ///
            /// # Errors
            /// [`OpenError::Create`] with [`CreateError::Exists`](crate::error::CreateError::Exists) if there is one
            /// already: see [`Self::open_or_create`] and [`Self::attach`].
            pub fn create(
                location: impl Into<Location>,
                options: &RingOptions,
            ) -> Result<Self, OpenError> {
                let location = location.into();
                create(&location, &RingOptions { producers: Producers::$producers, ..*options })?;
                Ok(Self::attach_with(location, &ProducerOptions::trusting(options.trust))?)
            }

            /// Attaches to a ring, and makes it first if there is none. Processes that call this at
            /// once get one ring. One of them becomes its [`Producer`], or each a [`SharedProducer`] of it.
            ///
            /// ```
            /// # use perfring_producer::{OpenError, Options, Producer};
            /// # let dir = tempfile::tempdir()?;
            /// # let path = dir.path().join("ring");
            /// let mut producer = Producer::open_or_create(&path, &Options::default())?; // makes it
            /// producer.publish(b"hello")?;
            /// drop(producer);
            /// let producer = Producer::open_or_create(&path, &Options::default())?; // continues where it stopped
            /// assert_eq!(producer.totals().written.records, 1);
            /// # drop(producer);
            ///
            /// let larger = Options { size: 1 << 24, ..Options::default() };
            /// let differs = Producer::open_or_create(&path, &larger).unwrap_err();
            /// assert!(matches!(differs, OpenError::Differs { option: "size", .. }));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// [`OpenError::Differs`] if the ring exists and was made with other options: it names the
            /// option, and `options.producers` is ignored. [`OpenError::Owner`] and [`OpenError::Mode`] if it is another user's,
            /// or lets more users in: see [`RingOptions::any_owner`]. [`OpenError::Attach`] with what [`Self::attach`] returns.
            pub fn open_or_create(
                location: impl Into<Location>,
                options: &RingOptions,
            ) -> Result<Self, OpenError> {
                let options = RingOptions { producers: Producers::$producers, ..*options };
                let as_trusting = ProducerOptions::trusting(options.trust);
                let attach = |location: &Location| Self::attach_with(location, &as_trusting);
                open_or_create(location, &options, attach, |producer| producer.window.file().clone())
            }

            /// Attaches to a ring, under the name of this program. A [`Producer`] continues where the last one stopped, however
            /// that ended. A [`SharedProducer`] ends first what the last holder of its slot has left open.
            ///
            /// # Errors
            /// See [`AttachError`]; [`AttachError::Busy`] names the producer that has the ring, [`AttachError::Slots`] says that
            /// there are as many producers as slots, and [`AttachError::Kind`] that the ring is for producers of another kind.
            pub fn attach(location: impl Into<Location>) -> Result<Self, AttachError> {
                Self::attach_with(location, &ProducerOptions::default())
            }

            /// Attaches to a ring as [`Self::attach`] does, under a name of up to 64 bytes, which
            /// `perfring stat` shows.
            ///
            /// # Errors
            /// See [`Self::attach`].
            pub fn attach_as(location: impl Into<Location>, name: &str) -> Result<Self, AttachError> {
                Self::attach_with(location, &ProducerOptions::named(name))
            }

            /// Reserves space as [`Self::reserve_timeout`] does, but returns `None`, and counts
            /// nothing, if there is none in time. For a caller that waits in slices or has an alternative.
            ///
            /// ```
            /// # use perfring_producer::{Options, Producer, RecordType};
            /// # use std::time::Duration;
            /// # let dir = tempfile::tempdir()?;
            /// # let options = Options { size: 4096, ..Options::default() };
            /// # let mut producer = Producer::create(dir.path().join("ring"), &options)?;
            /// producer.publish(&[0; 4000])?;
            /// let limit = Duration::from_millis(1);
            /// assert!(producer.offer_timeout(RecordType::BYTES, 4000, limit)?.is_none()); // no consumer reads
            /// assert_eq!(producer.totals().refused.total().records, 0);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// [`ReserveError`], for a refusal that waiting does not resolve; it is counted.
            #[inline(always)]
            pub fn offer_timeout(
                &$($mut)? self,
                kind: RecordType,
                len: usize,
                timeout: Duration,
            ) -> Result<Option<Reservation<'_, $producer>>, ReserveError> {
                self.space_or_none(kind, len, timeout)
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

            /// Ensures that a type, of which the [`Schema::key`] is known, is in the ring's table.
            #[inline(always)]
            pub(crate) fn know(&self, schema: &Schema<'_>, key: u64) -> Result<(), ReserveError> {
                self.known.register(&self.window, schema, key)
            }

            pub(crate) fn know_entry(&self, entry: &Entry<'_>) -> Result<(), ReserveError> {
                add_entry(&self.window, entry)
            }
        }
    };
}

producer!(Producer, One, mut);
producer!(SharedProducer, Many);
