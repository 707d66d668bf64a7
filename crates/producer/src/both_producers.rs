//! Methods that both kinds of producers of one ring have: what the ring is.

use crate::errors::ReserveError;
use crate::exclusive_producer::Producer;
use crate::known_types::put_entry;
use crate::shared_producer::SharedProducer;
use perfring_abi::Layout;
use perfring_ring::ReadError;
use perfring_shm::{AttachError, Location, Pages, PagesError, RingOptions};
use perfring_types::{Entry, Schema};

macro_rules! producer {
    ($producer:ident $($mut:tt)?) => {
        impl $producer {
            /// Returns whether reservations are private memory, which a commit copies to the ring: what
            /// [`Trust`](crate::Trust) came to. True by default where other users may write the file.
            #[must_use]
            pub fn is_guarded(&self) -> bool {
                self.window.is_guarded()
            }

            /// Returns why what this producer publishes does not reach the ring's file, if that was found out:
            /// [`ReadError::Truncated`](crate::ReadError::Truncated), or [`ReadError::NoSpace`](crate::ReadError::NoSpace) if the file system had no
            /// page for it. Since then its records go into private memory, and nobody reads them. A drop ring also returns
            /// [`ReserveError::Truncated`] or [`ReserveError::NoSpace`], before a ring's worth is written. An overwrite ring never does, as
            /// it does not read the consumer's position.
            ///
            /// Where only this user may write the file, this is found out in a process that called
            /// [`install_sigbus_handler`](crate::install_sigbus_handler): in any other, truncation ends the process.
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
                put_entry(&self.window, entry)
            }
        }
    };
}

producer!(Producer mut);
producer!(SharedProducer);
