//! Snapshots: the records of a ring at one moment.

use crate::item::{Item, RecordRef};
use crate::table::Types;
use perfring_abi::Layout;
use perfring_ring::{Anchors, Lost, ReadError, RingTotals, Start};
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
        let unmarked = Vec::new().into_iter();
        Items { snapshot: &self.inner, cursor: Some(self.inner.start()), unmarked }
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

/// The items of a [`Snapshot`].
#[derive(Clone, Debug)]
pub struct Items<'a> {
    snapshot: &'a perfring_ring::RingCopy,
    cursor: Option<u64>,
    /// Losses that no marker reports, once the last record was returned.
    unmarked: std::vec::IntoIter<Lost>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(cursor) = self.cursor.take() else {
            return self.unmarked.next().map(|lost| Ok(Item::Lost(lost)));
        };
        let Some(step) = self.snapshot.step(cursor).transpose() else {
            self.unmarked = self.snapshot.unmarked().collect::<Vec<_>>().into_iter();
            return self.next();
        };
        Some(step.map_err(ReadError::from).map(|(next, after)| {
            self.cursor = Some(after);
            next.map(|(frame, words)| RecordRef::new(&frame, bytes_of(words, frame.len)))
        }))
    }
}
