//! Items that outlive the next read.

use crate::item::RecordRef;
use perfring_abi::WriterId;
use perfring_ring::Next;

/// A copy of a record, for as long as it is wanted: see [`RecordRef::into_owned`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// [`RecordRef::pos`].
    pub pos: u64,
    /// [`RecordRef::kind`].
    pub kind: u32,
    /// [`RecordRef::time`].
    pub time: Option<u64>,
    /// [`RecordRef::writer`].
    pub writer: Option<WriterId>,
    /// Aligned as in the ring, so that it can be read as a plain struct.
    words: Vec<u64>,
    len: usize,
}

impl OwnedRecord {
    /// Borrows it as a [`RecordRef`], with all methods of that.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish(b"kept")?;
    /// # let mut consumer = Consumer::attach(&path)?;
    /// let mut kept = Vec::new();
    /// while let Some(item) = consumer.read()? {
    ///     let Item::Record(record) = item else { continue }; // a loss otherwise
    ///     kept.push(record.into_owned()); // `record` is the ring's until the next read
    /// }
    /// assert_eq!(kept[0].as_record().bytes, b"kept");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn as_record(&self) -> RecordRef<'_> {
        let OwnedRecord { pos, kind, time, writer, .. } = *self;
        RecordRef { pos, kind, bytes: self.bytes(), time, writer }
    }

    /// Returns its payload.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl RecordRef<'_> {
    /// Copies it, to keep it beyond the next read.
    #[must_use]
    pub fn into_owned(self) -> OwnedRecord {
        let RecordRef { pos, kind, bytes, time, writer } = self;
        let mut words = vec![0; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        OwnedRecord { pos, kind, time, writer, words, len: bytes.len() }
    }
}

/// A copy of an item, which `item.map(RecordRef::into_owned)` makes: `OwnedItem::Record`, or `OwnedItem::Lost`.
pub type OwnedItem = Next<OwnedRecord>;
