//! POSIX segments, by the crate `shared_memory`: only with the feature `segments`, because most programs name a file.

use std::io;

/// Whether this build makes segments. It attaches to existing segments in any case: they are files.
pub(crate) const CAN_BE_MADE: bool = cfg!(feature = "segments");

/// Makes a segment of this name, of one page at first: its space is allocated later, where a full tmpfs is reported.
#[cfg(feature = "segments")]
pub(crate) fn make(name: &str, page_size: usize) -> io::Result<()> {
    use shared_memory::{ShmemConf, ShmemError};
    let made = ShmemConf::new().os_id(name).size(page_size).create();
    let mut segment = made.map_err(|error| match error {
        ShmemError::MapCreateFailed(errno) | ShmemError::UnknownOsError(errno) => {
            io::Error::from_raw_os_error(errno as i32)
        }
        other => io::Error::other(other),
    })?;
    // The crate would unlink by name when dropped; the draft does that itself.
    segment.set_owner(false);
    Ok(())
}

#[cfg(not(feature = "segments"))]
pub(crate) fn make(_: &str, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
