//! Items that a reader returns, and records as Rust types.

use perfring_abi::WriterId;
use perfring_ring::{Anchors, Frame, Next};
use perfring_shm::FrameBytes;
use perfring_types::PodRecord;
#[cfg(feature = "rkyv")]
use perfring_types::{RkyvRecord, access};
use thiserror::Error;

/// The item that a reader returns: `Record`, or a loss at its position, `Lost`. `item.map(RecordRef::into_owned)` makes an item
/// to keep, an [`OwnedItem`](crate::OwnedItem). Both are [`Next`](crate::advanced::Next).
pub type Item<'a> = Next<RecordRef<'a>>;

#[inline]
pub(crate) fn item(next: Next<FrameBytes<'_>>) -> Item<'_> {
    next.map(|(frame, bytes)| RecordRef::new(&frame, bytes))
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The position of its header in the stream.
    pub pos: u64,
    /// The number of its type. Compares with a [`RecordType`](crate::RecordType); see [`RecordRef::is`].
    pub kind: u32,
    /// Its payload, of the exact length that was committed.
    pub bytes: &'a [u8],
    /// The time at which it was reserved, in a ring with time: ns of `CLOCK_BOOTTIME` in the
    /// initial time namespace, the same clock for all processes of the machine. In the order of the
    /// ring it never decreases within one boot. [`Anchors`] convert it to wall-clock time.
    pub time: Option<u64>,
    /// The thread that wrote it, in a ring per CPU that was made with `Options::sample_id`; the CPU is
    /// [`Layout::cpu`](crate::Layout). Like any content of a ring, the writer decides it.
    pub writer: Option<WriterId>,
}

impl<'a> RecordRef<'a> {
    #[inline]
    pub(crate) fn new(frame: &Frame, bytes: &'a [u8]) -> Self {
        RecordRef {
            pos: frame.pos,
            kind: frame.kind,
            bytes,
            time: frame.time,
            writer: frame.writer,
        }
    }

    /// Returns the wall-clock time of the timestamp, ns since 1970: the wall clock's value at that moment.
    /// `None` without a timestamp, or if its anchor is gone.
    #[must_use]
    #[inline]
    pub fn wall(&self, anchors: &Anchors) -> Option<u64> {
        anchors.wall(self.pos, self.time?)
    }

    /// Returns whether it is of this type, by its number: the first check in a ring with records of several types.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// use perfring_consumer::types::{Encoding, Record, Schema};
    /// # use perfring_producer::{Options, Producer};
    /// struct Line; // by hand: else `#[derive(Record)]`
    /// impl Record for Line {
    ///     const SCHEMA: Schema<'static> = Schema::new("Line", Encoding::Utf8).with_hashed_id();
    /// }
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish_as(Line::SCHEMA.id, b"a line")?;
    /// # let mut consumer = Consumer::attach(&path)?;
    /// # let Some(Item::Record(record)) = consumer.read()? else { panic!() };
    /// assert!(record.is::<Line>());
    /// assert!(record.kind == Line::SCHEMA.id && Line::SCHEMA.id == record.kind);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn is<T: perfring_types::Record>(&self) -> bool {
        self.kind == T::SCHEMA.id
    }

    /// Returns the record as a plain struct, in place: in the ring for a consumer of a drop ring,
    /// in the reader's private copy for others.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// use perfring_consumer::types::{Encoding, PodRecord, Record, Schema};
    /// # use perfring_producer::{Options, Producer};
    /// #[repr(transparent)]
    /// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    /// struct Tick(u64); // by hand: else `#[derive(Record)]`
    /// impl Record for Tick {
    ///     const SCHEMA: Schema<'static> = Schema::new("Tick", Encoding::Pod).with_hashed_id();
    /// }
    /// impl PodRecord for Tick {}
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// # producer.publish_as(Tick::SCHEMA.id, &7u64.to_ne_bytes())?;
    /// # let mut consumer = Consumer::attach(&path)?;
    /// # let Some(Item::Record(record)) = consumer.read()? else { panic!() };
    /// assert_eq!(record.as_pod::<Tick>(), Ok(&Tick(7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TypeMismatch`] if it is of another type.
    #[inline(always)]
    pub fn as_pod<T: PodRecord>(&self) -> Result<&'a T, TypeMismatch> {
        self.expect(T::SCHEMA.id.get())?;
        // Payloads begin at multiples of eight, so the length is all that can be wrong.
        let (len, needed) = (self.bytes.len(), size_of::<T>());
        bytemuck::try_from_bytes(self.bytes).map_err(|_| TypeMismatch::Length { len, needed })
    }

    /// Returns the record as an rkyv archive, checked in full where the record is: in the ring if only
    /// this process's user may write it, or by a [`Promise`](crate::Promise), else in the consumer's
    /// copy of it (see [`Trust`](crate::Trust)). No untrusted process can therefore change it after the
    /// check.
    ///
    /// # Errors
    /// [`TypeMismatch`] if it is of another type, or damaged.
    #[cfg(feature = "rkyv")]
    #[inline]
    pub fn archived<T: RkyvRecord>(&self) -> Result<&'a T::Archived, TypeMismatch> {
        self.expect(T::SCHEMA.id.get())?;
        access::<T>(self.bytes).map_err(TypeMismatch::Archive)
    }

    /// Returns the record as an rkyv archive, checked in a copy in `buffer`, which no other process
    /// can change.
    ///
    /// # Errors
    /// [`TypeMismatch`] if it is of another type, or damaged.
    #[cfg(feature = "rkyv")]
    pub fn archived_copy<'b, T: RkyvRecord>(
        &self,
        buffer: &'b mut Vec<u64>,
    ) -> Result<&'b T::Archived, TypeMismatch> {
        self.expect(T::SCHEMA.id.get())?;
        buffer.clear();
        buffer.resize(self.bytes.len().div_ceil(8), 0);
        let copy = &mut bytemuck::cast_slice_mut(buffer)[..self.bytes.len()];
        copy.copy_from_slice(self.bytes);
        access::<T>(copy).map_err(TypeMismatch::Archive)
    }

    #[inline(always)]
    fn expect(&self, wanted: u32) -> Result<(), TypeMismatch> {
        if self.kind == wanted {
            Ok(())
        } else {
            Err(TypeMismatch::Kind { kind: self.kind, wanted })
        }
    }
}

/// Why a record cannot be read as a type.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TypeMismatch {
    /// The record's type has another number.
    #[error("the record is of type {kind} and not {wanted}")]
    Kind {
        /// The record's type.
        kind: u32,
        /// The type asked for.
        wanted: u32,
    },
    /// It has the number, but not the length: another program uses the number for something else.
    #[error("the record has {len} bytes, and its type takes {needed}")]
    Length {
        /// The record's length.
        len: usize,
        /// The length of the type.
        needed: usize,
    },
    /// It has the number, but is not a valid archive of the type: it is damaged, or another program
    /// uses the number for something else.
    #[cfg(feature = "rkyv")]
    #[error(transparent)]
    Archive(perfring_types::ArchiveError),
}

/// Shows the sentence, because `main() -> Result` prints this.
impl std::fmt::Debug for TypeMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
