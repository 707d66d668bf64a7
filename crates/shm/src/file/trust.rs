//! Whether the processes that may write a ring's file are trusted.

use crate::file::error::{AttachError, COPIED_AUX_MAX};
use crate::file::open::RingFile;
use crate::sys::sigbus::install_sigbus_handler;

/// Mode bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// Whom a reader trusts not to change records while it reads them, among those who may write the
/// ring's file. Positions and lengths are checked in any case, each loaded once, so later changes
/// of them have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Everybody who may write the file. Records of a drop ring are borrowed in place, and do not
    /// change while every process keeps to the protocol.
    #[default]
    Peers,
    /// Nobody. Each record is copied before it is returned, so no process can change it while it is
    /// read, and truncation of the file is an error instead of the end of this process
    /// ([`install_sigbus_handler`] is called). Rings with an AUX area of more than
    /// [`Trust::MAX_AUX`] are refused: a single payload could take that much memory.
    Nobody,
    /// [`Trust::Peers`] if the file belongs to this process's user and nobody else may write it, else
    /// [`Trust::Nobody`].
    Auto,
}

impl Trust {
    /// The largest AUX area that [`Trust::Nobody`] reads: 256 MiB.
    pub const MAX_AUX: u64 = COPIED_AUX_MAX;

    /// Decides [`Trust::Auto`] for this file, which is mapped next, and prepares for
    /// [`Trust::Nobody`].
    pub(crate) fn prepare(self, ring: &RingFile) -> Result<Self, AttachError> {
        let trust = match self {
            Trust::Auto => {
                let (owner, mode) = ring.owner()?;
                let own = owner == nix::unistd::geteuid().as_raw() && mode & OTHERS_WRITE == 0;
                if own { Trust::Peers } else { Trust::Nobody }
            }
            Trust::Peers | Trust::Nobody => self,
        };
        if trust == Trust::Nobody {
            let size = ring.layout.aux_size;
            if size > Trust::MAX_AUX {
                return Err(AttachError::TooLargeToCopy { location: ring.location.clone(), size });
            }
            install_sigbus_handler()
                .map_err(|source| ring.io("installing the SIGBUS handler", source))?;
        }
        Ok(trust)
    }
}
