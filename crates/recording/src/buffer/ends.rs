//! Up to where rings are in a buffer.

use crate::error::ReadError;
use crate::machine::boot;
use crate::read::Reader;
use perfring_events::{Event, What};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// How much of the files is read at the start, to know what they have of rings: the newest.
const KNOWN_BYTES: u64 = 1 << 30;

/// Rings, and the positions before which all of their records are.
pub(super) type Ends = HashMap<Uuid, u64>;

/// What an event says of its ring: up to where that was read, or `None` if it has ended.
pub(super) type RingEnd = (Uuid, Option<u64>);

/// Moves a ring's end on.
pub(super) fn extend(ends: &mut Ends, ring: Uuid, end: u64) {
    let known = ends.entry(ring).or_default();
    *known = end.max(*known);
}

/// Returns up to where a ring was read with an event, or that it has ended.
pub(super) fn end_of(event: &Event<'_>) -> Option<RingEnd> {
    let ring = Uuid::from_bytes(event.origin.uuid);
    match &event.what {
        What::Record(record) => Some((ring, Some(record.pos + 1))),
        What::Lost(loss) if loss.is_damage() => Some((ring, Some(loss.pos))),
        What::Ended => Some((ring, None)),
        What::Began | What::Lost(_) => None,
    }
}

/// Returns up to where files have rings; the newest file comes first, and each comes with its bytes.
pub(super) fn ends_of(files: impl Iterator<Item = (PathBuf, u64)>) -> Ends {
    let (mut ends, mut read) = (Ends::new(), 0);
    for (path, bytes) in files {
        if read >= KNOWN_BYTES {
            break;
        }
        read += bytes;
        let mut found = Ends::new();
        match find_ends(&path, &mut found) {
            Ok(true) | Err(ReadError::Truncated { .. }) => {}
            // What cannot be read was before that in later files: rings may still have it.
            Ok(false) | Err(_) => ends.clear(),
        }
        found.into_iter().for_each(|(ring, end)| extend(&mut ends, ring, end));
    }
    ends
}

/// Finds up to where a file has rings, what is lost of it included. Returns whether that is all.
fn find_ends(path: &Path, ends: &mut Ends) -> Result<bool, ReadError> {
    let mut reader = Reader::open_noted(path)?;
    // In another boot a ring's file may have gone back to an older state.
    if reader.machine().boot != boot() {
        return Ok(true);
    }
    while reader.advance()? {
        let event = reader.next()?;
        let end = event.and_then(|event| end_of(&event));
        if let Some((ring, Some(end))) = end {
            extend(ends, ring, end);
        }
    }
    Ok(reader.take_damage().is_none_or(|(_, is_unknown)| !is_unknown))
}
