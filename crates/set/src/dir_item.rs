//! The items that the merge of a directory returns.

use crate::merged::Merged;
use perfring_consumer::{Anchors, Item, Lost, RecordRef};
use perfring_producer::RecordType;
use perfring_types::read::{BadPayload, Type, TypeTable, Value, word};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An item that a [`DirMerge`](crate::DirMerge) has read, with its ring.
///
/// Its `Display` is one line: the ring's name, then the record's type and fields (for a record of bytes, the
/// bytes), the loss, or the event of the ring.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DirItem<'a> {
    /// The ring's name in the directory.
    pub ring: &'a str,
    /// The path of the ring's file.
    pub path: &'a Path,
    /// A record, a loss, or news of the ring.
    pub event: DirEvent<'a>,
    /// Its position in time, ns of `CLOCK_BOOTTIME`: see [`Merged::time`]. 0 for news of a ring.
    pub time: u64,
    /// By how many ns it comes too late: something later was returned before it. 0 if it does not.
    pub late: u64,
    /// The rest, where it comes from a source of the merge.
    merged: Option<Merged<'a>>,
}

/// The kinds of items of a [`DirMerge`](crate::DirMerge).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirEvent<'a> {
    /// A record. A drop ring's is borrowed from the ring.
    Record(RecordRef<'a>),
    /// Records of this ring are missing here.
    Lost(Lost),
    /// The ring was read to its end, its producers are dead or detached, and its file is removed.
    Gone {
        /// The ring's id.
        uuid: [u8; 16],
    },
    /// Something in the directory is not read: a damaged ring, a file that is no ring, a ring that
    /// another consumer has, or one without permission. The other rings continue to be read.
    Failed {
        /// The reason, as a sentence.
        why: &'a str,
        /// Whether it is tried again, once a second.
        retried: bool,
    },
}

impl<'a> DirItem<'a> {
    pub(crate) fn of_source(ring: &'a str, path: &'a Path, merged: Merged<'a>) -> Self {
        let event = match merged.item {
            Item::Record(record) => DirEvent::Record(record),
            Item::Lost(lost) => DirEvent::Lost(lost),
        };
        let (time, late) = (merged.time, merged.late);
        DirItem { ring, path, event, time, late, merged: Some(merged) }
    }

    pub(crate) fn news(ring: &'a str, path: &'a Path, event: DirEvent<'a>) -> Self {
        DirItem { ring, path, event, time: 0, late: 0, merged: None }
    }

    /// Returns the wall-clock time of a record or a loss, in ns since 1970. `None` if the ring has no
    /// timestamps or no anchor for this one any more, and for news of a ring.
    #[must_use]
    pub fn wall(&self) -> Option<u64> {
        self.merged.as_ref()?.wall()
    }

    /// Returns the ring's type table: at least every type that was registered before this item was
    /// published. `None` for news of a ring.
    #[must_use]
    pub fn types(&self) -> Option<&'a Arc<TypeTable>> {
        self.merged.as_ref()?.types()
    }

    /// Returns the ring's clock anchors, which convert timestamps. `None` for news of a ring.
    #[must_use]
    pub fn anchors(&self) -> Option<&'a Anchors> {
        self.merged.as_ref()?.anchors()
    }

    /// Returns the record's type, if the ring's type table has it.
    #[must_use]
    pub fn record_type(&self) -> Option<&'a Type> {
        let DirEvent::Record(record) = self.event else { return None };
        self.types()?.get(RecordType::new(record.kind)?)
    }

    /// Decodes the record's fields by the ring's type table. `None` if this is no record or the table
    /// does not have its type.
    ///
    /// # Errors
    /// [`BadPayload`] if the payload does not fit the type.
    #[must_use]
    pub fn decode(&self) -> Option<Result<Value, BadPayload>> {
        let DirEvent::Record(record) = self.event else { return None };
        Some(self.record_type()?.decode(record.bytes))
    }
}

impl fmt::Display for DirItem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", word(self.ring))?;
        match self.event {
            DirEvent::Record(record) => match (self.record_type(), self.decode()) {
                (Some(kind), Some(Ok(value))) => {
                    write!(f, "{} {}", word(&kind.name), kind.text(&value))
                }
                (_, Some(Err(bad))) => write!(f, "{bad}"),
                _ if record.kind == RecordType::BYTES.get() => record.bytes.escape_ascii().fmt(f),
                _ => write!(f, "type {}, {} bytes", record.kind, record.bytes.len()),
            },
            DirEvent::Lost(lost) => lost.fmt(f),
            DirEvent::Gone { .. } => f.write_str("read to its end, and its file is removed"),
            DirEvent::Failed { why, .. } => f.write_str(why),
        }
    }
}
