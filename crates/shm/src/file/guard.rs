//! Whether those who may write a ring's file are trusted.

use crate::file::error::{AttachError, COPIED_AUX_MAX};
use crate::file::open::RingFile;
use crate::sys::sigbus::install_sigbus_handler;

/// Mode bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// Whether the consumer of a drop ring keeps those who may write the ring's file from its records.
/// Positions and lengths are checked in any case, and are looked at once: what they become afterwards
/// does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Records are borrowed where they stand. They stay as they are while all keep to the protocol.
    #[default]
    Never,
    /// As [`Guard::Never`] if the file is this process's user's, and nobody else may write it; else as
    /// [`Guard::Always`].
    Auto,
    /// Each record is copied before anybody sees it, so nobody rewrites it while it is read; and
    /// [`install_sigbus_handler`] is called. Not of rings with an AUX area of more than
    /// [`Guard::MAX_AUX`], of which a single payload could take that much memory.
    Always,
}

impl Guard {
    /// The largest AUX area that [`Guard::Always`] reads: 256 MiB.
    pub const MAX_AUX: u64 = COPIED_AUX_MAX;

    /// What it comes to for this file, which is mapped next: one of the other two.
    pub(crate) fn prepare(self, ring: &RingFile) -> Result<Self, AttachError> {
        let guard = match self {
            Guard::Auto => {
                let (owner, mode) = ring.owner()?;
                let own = owner == nix::unistd::geteuid().as_raw() && mode & OTHERS_WRITE == 0;
                if own { Guard::Never } else { Guard::Always }
            }
            Guard::Never | Guard::Always => self,
        };
        if guard == Guard::Always {
            let size = ring.layout.aux_size;
            if size > Guard::MAX_AUX {
                return Err(AttachError::Unguarded { location: ring.location.clone(), size });
            }
            install_sigbus_handler().map_err(|source| ring.io("taking SIGBUS for it", source))?;
        }
        Ok(guard)
    }
}
