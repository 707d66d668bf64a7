//! Items that outlive their ring.

use crate::error::Error;
use bytes::Bytes;
use perfring_consumer::{Anchors, Item, Lost, ReadError, Record, Writer};

/// A record whose payload was copied once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The position of its header in the stream.
    pub pos: u64,
    /// Its type.
    pub kind: u32,
    /// Its payload.
    pub bytes: Bytes,
    /// The time at which it was reserved: see [`Record::time`].
    pub time: Option<u64>,
    /// The thread that wrote it: see [`Record::writer`].
    pub writer: Option<Writer>,
}

impl OwnedRecord {
    /// Borrows it as a [`Record`], with all its methods.
    ///
    /// ```
    /// # use perfring_tokio::OwnedRecord;
    /// let owned = OwnedRecord { pos: 0, kind: 64, bytes: vec![0; 8].into(), time: None, writer: None };
    /// assert_eq!(owned.as_record().bytes, owned.bytes);
    /// ```
    #[must_use]
    pub fn as_record(&self) -> Record<'_> {
        let OwnedRecord { pos, kind, ref bytes, time, writer } = *self;
        Record { pos, kind, bytes, time, writer }
    }

    /// Returns its wall-clock time: see [`Record::wall`].
    #[must_use]
    pub fn wall(&self, anchors: &Anchors) -> Option<u64> {
        self.as_record().wall(anchors)
    }
}

impl From<Record<'_>> for OwnedRecord {
    fn from(record: Record<'_>) -> Self {
        let Record { pos, kind, bytes, time, writer } = record;
        OwnedRecord { pos, kind, bytes: Bytes::copy_from_slice(bytes), time, writer }
    }
}

/// What a stream yields: a record, or a loss at its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedItem {
    /// A record.
    Record(OwnedRecord),
    /// Records that are missing here.
    Lost(Lost),
}

impl From<Item<'_>> for OwnedItem {
    fn from(item: Item<'_>) -> Self {
        match item {
            Item::Record(record) => OwnedItem::Record(record.into()),
            Item::Lost(lost) => OwnedItem::Lost(lost),
        }
    }
}

/// Returns what was read at a position where a poll had found something. Only a process that breaks
/// the protocol takes it away.
pub(crate) fn found(
    read: Result<Option<Item<'_>>, ReadError>,
    pos: u64,
) -> Result<Item<'_>, Error> {
    read?.ok_or(Error::Read(ReadError::Corrupt { pos }))
}
