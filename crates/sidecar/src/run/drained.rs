//! Removes rings that are read to their end.

use perfring_consumer::{AttachError, Location, files::Idle, stat::Refused};

/// Removes a ring that is read to its end, with these losses, and has no producer. Returns whether it did.
pub(super) fn remove(
    location: &Location,
    uuid: &[u8; 16],
    refused: &Refused,
) -> Result<bool, AttachError> {
    let idle = match Idle::hold(location.clone()) {
        Err(AttachError::Busy { .. } | AttachError::NotFound { .. }) => return Ok(false),
        held => held?,
    };
    if idle.file().identity()?.uuid != *uuid {
        return Ok(false);
    }
    let is_read = idle.file().totals()?.is_some_and(|totals| {
        totals.tail == totals.head
            && totals.stranded.records == 0
            && totals.producer.refused == *refused
    });
    if is_read {
        idle.remove()?;
    }
    Ok(is_read)
}
