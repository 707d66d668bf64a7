//! Snapshots: the records of a ring at one moment.

use crate::item::{Item, RecordRef};
use crate::table::Types;
use perfring_abi::Layout;
use perfring_ring::{Anchors, Front, Lost, ReadError, RingTotals, Start};
use perfring_shm::{AttachError, CopyWindow, Location, ObserverMapping, bytes_of};

/// A copy of everything intact in a ring: of a live ring while its producer runs at full speed, or
/// of the file that dead processes left.
///
/// ```
/// use perfring_consumer::{Item, Snapshot};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// # producer.publish(b"last words")?;
/// # std::mem::forget(producer); // as if it had been killed
/// let snapshot = Snapshot::take(&path)?;
/// for item in &snapshot {
///     if let Item::Record(record) = item? {
///         assert_eq!(record.bytes, b"last words");
///     }
/// }
/// assert_eq!(snapshot.totals().producer.written.records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    inner: perfring_ring::RingCopy,
    types: Types,
    layout: Layout,
}

impl Snapshot {
    /// Opens a ring and copies everything intact.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::Corrupt`] if not even the positions are valid.
    pub fn take(location: impl Into<Location>) -> Result<Self, AttachError> {
        let window = CopyWindow::watch(ObserverMapping::open(location)?, Start::Oldest)?;
        Self::of(window.mapping()).map_err(|source| window.mapping().file().corrupt(source))
    }

    pub(crate) fn of(mapping: &ObserverMapping) -> Result<Self, ReadError> {
        // The types after the records: a record's type was registered before it.
        let inner = mapping.snapshot()?;
        Ok(Snapshot { inner, types: Types::of(mapping.types()), layout: *mapping.file().layout() })
    }

    /// Returns the items, oldest first, and at the end the losses that no marker reports. Damage ends them with an
    /// error.
    #[must_use]
    pub fn iter(&self) -> Items<'_> {
        Items { snapshot: &self.inner, cursor: ItemCursor::new(&self.inner) }
    }

    /// Returns the ring's totals, read just before the copy was made.
    #[must_use]
    pub fn totals(&self) -> &RingTotals {
        self.inner.totals()
    }

    /// Returns the anchors that convert its timestamps to wall-clock times, if it has any.
    ///
    /// ```
    /// # use perfring_consumer::{Item, Snapshot};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let options = Options { time: true, ..Options::default() };
    /// let mut producer = Producer::create(&path, &options)?;
    /// producer.publish(b"at some time")?;
    ///
    /// let snapshot = Snapshot::take(&path)?;
    /// let Some(Ok(Item::Record(record))) = snapshot.iter().next() else { panic!() };
    /// let since_1970 = record.wall(snapshot.anchors()).expect("a ring with time");
    /// assert!(since_1970 > 1_700_000_000_000_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn anchors(&self) -> &Anchors {
        self.inner.anchors()
    }

    /// Returns the ring's type table, with every type of these records.
    #[must_use]
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Returns the ring's shape and identity.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the positions that it spans.
    #[must_use]
    pub fn span(&self) -> std::ops::Range<u64> {
        self.inner.start()..self.inner.end()
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = Result<Item<'a>, ReadError>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// Where the next item of a snapshot is.
#[derive(Clone, Debug)]
struct ItemCursor {
    pos: Option<u64>,
    /// Losses that no marker reports, once the last record was returned.
    unmarked: std::vec::IntoIter<Lost>,
}

impl ItemCursor {
    fn new(of: &perfring_ring::RingCopy) -> Self {
        ItemCursor { pos: Some(of.start()), unmarked: Vec::new().into_iter() }
    }

    fn next<'a>(&mut self, of: &'a perfring_ring::RingCopy) -> Option<Result<Item<'a>, ReadError>> {
        let Some(pos) = self.pos.take() else {
            return self.unmarked.next().map(|lost| Ok(Item::Lost(lost)));
        };
        let Some(step) = of.step(pos).transpose() else {
            self.unmarked = of.unmarked().collect::<Vec<_>>().into_iter();
            return self.next(of);
        };
        Some(step.map_err(ReadError::from).map(|(next, after)| {
            self.pos = Some(after);
            next.map(|(frame, words)| RecordRef::new(&frame, bytes_of(words, frame.len)))
        }))
    }
}

/// The items of a [`Snapshot`].
#[derive(Clone, Debug)]
pub struct Items<'a> {
    snapshot: &'a perfring_ring::RingCopy,
    cursor: ItemCursor,
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next(self.snapshot)
    }
}

/// Reads a [`Snapshot`] from its first item to its last, as live rings are read: for a merge.
///
/// ```
/// use perfring_consumer::{Snapshot, advanced::{Front, SnapshotReader}};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # Producer::create(&path, &Options::default())?.publish(b"one")?;
/// let mut reader = SnapshotReader::new(Snapshot::take(&path)?);
/// assert_ne!(reader.peek()?, Front::Empty);
/// let (_item, next) = reader.take()?.expect("a record");
/// assert_eq!(next, Front::Empty);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SnapshotReader {
    snapshot: Snapshot,
    cursor: ItemCursor,
    /// The timestamp of the last record.
    time: u64,
}

/// A timestamp that no clock has: later ones are damaged.
const LATEST: u64 = u64::MAX / 2;

impl SnapshotReader {
    /// Begins with the oldest item.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let cursor = ItemCursor::new(&snapshot.inner);
        SnapshotReader { snapshot, cursor, time: 0 }
    }

    /// Returns the snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the kind of the next item. A record without a timestamp has the time of the record before it.
    ///
    /// # Errors
    /// [`ReadError`]: everything before it was taken.
    pub fn peek(&self) -> Result<Front, ReadError> {
        front(self.cursor.clone().next(&self.snapshot.inner), self.time)
    }

    /// Takes the next item. Returns it and the kind of the item after it: [`Front::More`] if that is an error.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, ReadError> {
        let Some(item) = self.cursor.next(&self.snapshot.inner).transpose()? else {
            return Ok(None);
        };
        if let Item::Record(record) = &item {
            self.time = record.time.unwrap_or(self.time);
        }
        let front = front(self.cursor.clone().next(&self.snapshot.inner), self.time);
        Ok(Some((item, front.unwrap_or(Front::More))))
    }
}

fn front(next: Option<Result<Item<'_>, ReadError>>, time: u64) -> Result<Front, ReadError> {
    Ok(match next.transpose()? {
        None => Front::Empty,
        Some(Item::Lost(_)) => Front::Lost,
        Some(Item::Record(record)) => Front::Timestamped(record.time.unwrap_or(time).min(LATEST)),
    })
}
