//! Items that outlive their ring.

use crate::error::Error;
use bytes::Bytes;
use perfring_consumer::{Anchors, Item, Lost, ReadError, Record};

/// A record and its payload, copied once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Where its header stands in the stream.
    pub pos: u64,
    /// Its type.
    pub kind: u32,
    /// Its payload.
    pub bytes: Bytes,
    /// As [`Record::time`].
    pub time: Option<u64>,
}

impl OwnedRecord {
    /// It, borrowed: with all that can be asked of a record.
    ///
    /// ```
    /// # use perfring_tokio::OwnedRecord;
    /// let owned = OwnedRecord { pos: 0, kind: 64, bytes: vec![0; 8].into(), time: None };
    /// assert_eq!(owned.as_record().bytes, owned.bytes);
    /// ```
    #[must_use]
    pub fn as_record(&self) -> Record<'_> {
        let OwnedRecord { pos, kind, ref bytes, time } = *self;
        Record { pos, kind, bytes, time }
    }

    /// As [`Record::wall`].
    #[must_use]
    pub fn wall(&self, anchors: &Anchors) -> Option<u64> {
        self.as_record().wall(anchors)
    }
}

impl From<Record<'_>> for OwnedRecord {
    fn from(record: Record<'_>) -> Self {
        let Record { pos, kind, bytes, time } = record;
        OwnedRecord { pos, kind, bytes: Bytes::copy_from_slice(bytes), time }
    }
}

/// What a stream gives: a record, or the place where some are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedItem {
    /// A record.
    Record(OwnedRecord),
    /// Records that are not there.
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

/// What was read at this position, where a look had found something: only who breaks the protocol
/// takes it away.
pub(crate) fn found(
    read: Result<Option<Item<'_>>, ReadError>,
    pos: u64,
) -> Result<Item<'_>, Error> {
    read?.ok_or(Error::Read(ReadError::Corrupt { pos }))
}
