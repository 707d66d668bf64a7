//! What is certain after a poll.

use crate::error::Error;
use perfring_consumer::{Item, ReadError};

/// Returns what was read at a position where a poll had found something. Only a process that breaks
/// the protocol takes it away.
pub(crate) fn found(
    read: Result<Option<Item<'_>>, ReadError>,
    pos: u64,
) -> Result<Item<'_>, Error> {
    read?.ok_or(Error::Read(ReadError::Corrupt { pos }))
}
