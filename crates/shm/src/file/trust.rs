//! Whether the processes that may write a ring's file are trusted, and when a borrow of the ring's bytes
//! is sound.
//!
//! The language does not know other processes that write a mapped file. Every crate that maps
//! files has to document the promise that no process does. `memmap2` makes `map` unsafe and leaves the promise to the
//! caller. Here the protocol gives the promise for a record, from its commit to its release. The remaining case is
//! a process that may write the file and breaks the protocol. The standard library does not hold safe code responsible for
//! changes of a process's memory from outside (`/proc/self/mem`, `ptrace`). This argument covers processes of the same user,
//! who may do that anyway, and of root. It does not cover other users. Therefore records are borrowed, and reservations are
//! written, in place if only this user may write the file. Otherwise records are copied, and reservations are private memory.
//! A caller that has read the other processes' code instead uses a [`Promise`].

use crate::file::error::{AttachError, COPIED_AUX_MAX};
use crate::file::open::RingFile;
use crate::sys::sigbus::install_sigbus_handler;

/// Mode bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// The processes that are trusted not to change records that this process reads in place, nor its reservations, among the
/// processes that may write the ring's file. Positions and lengths are checked in any case, each loaded once, so later changes
/// of them have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// All of them, by the caller's promise. Records of a drop ring are borrowed in place, and reservations are in the ring.
    Peers(Promise),
    /// None. Each record is copied before it is returned, so no process can change it while it is
    /// read; a reservation is private memory, which its commit copies to the ring; and truncation of the file is an error
    /// instead of the end of this process
    /// ([`install_sigbus_handler`] is called). A reader refuses rings with an AUX area of more than
    /// [`Trust::MAX_AUX`]: a single payload could take that much memory.
    Nobody,
    /// The processes of this process's user: [`Trust::Peers`] if the file belongs to that user and
    /// no other user may write it, else [`Trust::Nobody`]. The file's mode at the
    /// attach counts.
    #[default]
    Auto,
}

/// The promise that every process which may write a ring's file keeps to the protocol.
///
/// ```
/// use perfring_shm::{Promise, Trust};
/// // SAFETY: the group that may write our rings has one program, the collector of this repository.
/// let trust = Trust::Peers(unsafe { Promise::all_writers_keep_to_the_protocol() });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise(());

impl Promise {
    /// Makes the promise.
    ///
    /// # Safety
    /// While a consumer or producer that was attached with it lives, no other process changes the bytes of a record
    /// between its reservation and its release: none that may write the file (its mode, and descriptors
    /// that were passed on) breaks the protocol. One that does changes what a `&[u8]`, a `&mut [u8]` or a checked
    /// archive of this process refers to, which is undefined behaviour.
    #[must_use]
    pub const unsafe fn all_writers_keep_to_the_protocol() -> Self {
        Promise(())
    }
}

impl Trust {
    /// The largest AUX area that [`Trust::Nobody`] reads: 256 MiB.
    pub const MAX_AUX: u64 = COPIED_AUX_MAX;

    /// Decides for this file, which is mapped next, whether its records are to be guarded: copied
    /// before they are examined. Prepares for that, and for its truncation.
    pub(crate) fn guards(self, ring: &RingFile) -> Result<bool, AttachError> {
        let guarded = self.guards_mapping(ring)?;
        let size = ring.layout.aux_size;
        if guarded && size > Trust::MAX_AUX {
            return Err(AttachError::TooLargeToCopy { location: ring.location.clone(), size });
        }
        Ok(guarded)
    }

    /// Decides for this file, which is mapped next, whether bytes that this process lends are guarded. If another user may
    /// write the file, its truncation is an error from now on, and does not end this process; this does not depend on the trust.
    pub(crate) fn guards_mapping(self, ring: &RingFile) -> Result<bool, AttachError> {
        let (owner, mode) = ring.owner()?;
        let others = owner != nix::unistd::geteuid().as_raw() || mode & OTHERS_WRITE != 0;
        let guarded = match self {
            Trust::Auto => others,
            Trust::Peers(_) => false,
            Trust::Nobody => true,
        };
        if guarded || others {
            install_sigbus_handler()
                .map_err(|source| ring.io("installing the SIGBUS handler", source))?;
        }
        Ok(guarded)
    }
}
