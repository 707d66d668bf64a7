//! The types and clock anchors of a ring, for its readers.

use crate::event::{Origin, Rec};
use perfring_consumer::{
    AttachError, Item, Layout, Location, Observer, Producers, ReadError, RecordRef, RecordType,
    Snapshot, Start, Types,
    advanced::Saved,
    stat::{OwnerInfo, RingTotals},
};
use perfring_types::Entries;
use std::collections::HashMap;

/// Records of one unknown type that are passed over before a table that has grown, and did not have
/// the type, is read again. Doubles every time, up to the limit: a hostile table costs little.
const PATIENCE_MAX: u32 = 4096;
/// Losses that may precede a record whose timestamp is wanted: one of each cause, twice.
const LOSSES_MAX: usize = 16;
/// The limit of types that are known to be missing in the table. Further types share one counter.
const MISSED_MAX: usize = 256;

/// When to read the table again for a type that it did not have.
#[derive(Clone, Copy, Debug, Default)]
struct Missed {
    patience: u32,
    wait: u32,
}

impl Missed {
    fn is_due(&mut self) -> bool {
        let due = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        due
    }

    fn again(&mut self) {
        self.patience = (2 * self.patience.max(1)).min(PATIENCE_MAX);
        self.wait = self.patience - 1;
    }
}

/// The [`Origin`] of a ring. For a live ring it is updated while records are read.
///
/// ```
/// use perfring_consumer::{Item, Observer, Start};
/// use perfring_events::Shapes;
/// # use perfring_producer::{Options, Producer, RecordType, types::{Encoding, Schema}};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// let mut shapes = Shapes::open(&path, 0)?;
/// let mut observer = Observer::attach(&path, Start::Oldest)?;
/// assert!(shapes.is_of(observer.layout())); // not another ring that took the name
/// # let id = RecordType::new(5000).unwrap();
/// # producer.register(&Schema { id, ..Schema::new("demo.Line", Encoding::Utf8) })?;
/// # producer.publish_as(id, b"a line")?;
/// while let Some(item) = observer.read()? {
///     let Item::Record(record) = item else { continue };
///     let record = shapes.see(record);
///     println!("{:?}", record.kind_of().map(|kind| &kind.name)); // also of a late type
/// #   assert!(record.kind_of().is_some());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Shapes {
    origin: Origin,
    taken: Types,
    /// Words of the table that were read: what precedes its end never changes, so no entry is read
    /// twice, and a table that claims otherwise is not trusted.
    known: usize,
    /// A reader of the table and the anchors. Not the records' reader, which every record borrows.
    source: Option<Observer>,
    /// Whether the table can grow.
    ended: bool,
    /// Missing types, each with its own counter: a type that is never registered must not delay
    /// others.
    missed: HashMap<u32, Missed>,
    /// The shared counter of all further types.
    others: Missed,
    /// The position up to which the anchors are known, and the end of the table.
    anchored: u64,
    /// Whether the table had more then than was taken.
    grows: bool,
}

impl Shapes {
    /// Reads the types and anchors of a ring, live or not; `id` is for its [`Origin`].
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn open(location: impl Into<Location>, id: u32) -> Result<Self, AttachError> {
        let location = location.into();
        let source = Observer::attach(&location, Start::Latest)?;
        // Hints: where a file system has no locks, and so no figures, records can be shown without
        // them.
        let (epoch, producer) = match source.stat() {
            Ok(stat) => (stat.epoch(), stat.producer.owner),
            Err(_) => Default::default(),
        };
        let origin = Origin::of(id, &location, source.layout(), epoch, producer);
        let mut shapes = Self::of(origin, Types::default());
        shapes.origin.find_birth(&source);
        shapes.source = Some(source);
        shapes.refresh();
        Ok(shapes)
    }

    /// Takes the types and anchors of a snapshot; `location` is that of the ring.
    #[must_use]
    pub fn of_snapshot(snapshot: &Snapshot, location: &Location, id: u32) -> Self {
        let origin = Origin::of(id, location, snapshot.layout(), 0, OwnerInfo::default());
        let mut shapes = Self::of(origin, snapshot.types().clone());
        shapes.origin.anchors = *snapshot.anchors();
        shapes
    }

    /// Creates fixed shapes from an origin and a table.
    #[must_use]
    pub fn of(origin: Origin, types: Types) -> Self {
        let mut shapes = Shapes {
            origin,
            taken: Types::default(),
            known: 0,
            source: None,
            ended: false,
            missed: HashMap::new(),
            others: Missed::default(),
            anchored: 0,
            grows: false,
        };
        shapes.learn(types);
        shapes
    }

    /// Returns whether it is of the ring of this layout. Another ring may have taken the name.
    #[must_use]
    pub fn is_of(&self, layout: &Layout) -> bool {
        self.origin.uuid == layout.uuid
    }

    /// Returns what is known now.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the origin mutably, to give the ring another name.
    pub fn origin_mut(&mut self) -> &mut Origin {
        &mut self.origin
    }

    /// Pairs a record with its type; first updates the types and anchors if necessary.
    pub fn see<'a>(&'a mut self, record: RecordRef<'a>) -> Rec<'a> {
        self.prepare(&record);
        Rec::new(record, &self.origin)
    }

    /// Updates the types and anchors if this record needs it.
    #[inline]
    pub fn prepare(&mut self, record: &RecordRef<'_>) {
        // The clock may be set between any two records, and its anchor is written before the second
        // one; and a type is registered before its first record. So what records before the head need
        // is known from what is read after it.
        if record.pos >= self.anchored {
            self.anchor();
        }
        self.find_type(record.kind);
    }

    #[cold]
    fn anchor(&mut self) {
        let Some(source) = &self.source else { return };
        self.anchored = source.head();
        self.origin.anchors = source.anchors();
        self.grows = source.has_more_types(&self.taken);
        // In a ring of many producers the first slot says nothing of the others.
        if source.layout().producers == Producers::One {
            let producer = source.producer();
            if producer.epoch != self.origin.producer.epoch {
                self.origin.producer = producer;
                self.origin.find_birth(source);
            }
        }
    }

    /// Returns the ring's head: the end of what is published. Returns 0 for a snapshot, which does
    /// not grow.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.head())
    }

    /// Returns whether a producer is attached, so that more may arrive; true if that is unknown.
    #[must_use]
    pub fn has_producer(&self) -> bool {
        let reported = self.source.as_ref().map(|source| source.has_producer().unwrap_or(true));
        reported.unwrap_or(false)
    }

    /// Returns the ring's totals, if it is a ring and they are intact.
    #[must_use]
    pub fn totals(&self) -> Option<RingTotals> {
        self.source.as_ref()?.stat().ok()?.totals
    }

    /// Returns the reader of a live ring's table, to ask for the ring's figures.
    #[must_use]
    pub fn observer(&self) -> Option<&Observer> {
        self.source.as_ref()
    }

    /// Returns the timestamp of the first record from a position on, ns; `None` if there is none, or no timestamp.
    #[must_use]
    pub fn first_time(&self, from: Saved) -> Option<u64> {
        let mut reader = self.reader(from).ok()??;
        for _ in 0..LOSSES_MAX {
            if let Item::Record(record) = reader.read().ok()?? {
                return record.time;
            }
        }
        None
    }

    /// Copies all that the ring holds now, if it is a ring.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn snapshot(&self) -> Result<Option<Snapshot>, ReadError> {
        self.source.as_ref().map(Observer::snapshot).transpose()
    }

    /// Reads the ring from a position on, beside all its other readers, also if its file was removed;
    /// `None` if it is not a live ring.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn reader(&self, from: Saved) -> Result<Option<Observer>, AttachError> {
        self.source.as_ref().map(|source| source.again(Start::At(from))).transpose()
    }

    /// Updates all types and anchors now.
    pub fn refresh(&mut self) {
        let Some(source) = &self.source else { return };
        self.anchored = source.head();
        self.origin.anchors = source.anchors();
        if source.has_more_types(&self.taken) {
            let types = source.types();
            self.learn(types);
        }
    }

    fn has(&self, kind: u32) -> bool {
        RecordType::new(kind).is_some_and(|kind| self.origin.types.get(kind).is_some())
    }

    #[inline]
    fn find_type(&mut self, kind: u32) {
        if self.grows && !self.has(kind) {
            self.read_again(kind);
        }
    }

    #[cold]
    fn read_again(&mut self, kind: u32) {
        let Some(source) = &self.source else { return };
        if self.ended || !source.has_more_types(&self.taken) {
            return;
        }
        // A type is searched for at once the first time.
        let full = self.missed.len() >= MISSED_MAX;
        let due = match self.missed.get_mut(&kind) {
            Some(missed) => missed.is_due(),
            None if full => self.others.is_due(),
            None => true,
        };
        if !due {
            return;
        }
        let types = source.types();
        self.learn(types);
        let table = &self.origin.types;
        self.missed.retain(|id, _| RecordType::new(*id).is_none_or(|id| table.get(id).is_none()));
        if self.has(kind) {
            self.others = Missed::default();
            return;
        }
        match self.missed.get_mut(&kind) {
            Some(missed) => missed.again(),
            None if full => self.others.again(),
            None => self.missed.entry(kind).or_default().again(),
        }
    }

    fn learn(&mut self, types: Types) {
        if let Some(words) = types.words().get(self.known..) {
            let known = 8 * self.known as u64;
            let ended = &mut self.ended;
            self.origin.types.extend(Entries::new(words).map(|entry| {
                entry.map_err(|mut bad| {
                    bad.at += known;
                    // A table ends at a damage, whatever follows.
                    *ended = true;
                    bad
                })
            }));
            self.known = types.words().len();
        }
        self.taken = types;
        self.grows = false;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use perfring_context::Birth;
    use perfring_producer::{Options, Producer};
    use perfring_types::{Encoding, Entry, Schema};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn schema(name: &str, id: u32) -> Schema<'_> {
        Schema { id: RecordType::new(id).unwrap(), ..Schema::new(name, Encoding::Utf8) }
    }

    /// A record of this type that was published just now.
    fn see(shapes: &mut Shapes, kind: u32) {
        shapes.prepare(&RecordRef { pos: u64::MAX, kind, bytes: b"", time: None, writer: None });
    }

    #[test]
    fn a_type_that_comes_later_is_found_and_a_ring_that_took_the_name_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::attach(&path, Start::Oldest).unwrap().layout();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        for id in 5000..5100 {
            see(&mut shapes, id);
            assert!(!shapes.has(id));
            producer.register(&schema("late", id)).unwrap();
            see(&mut shapes, id);
            assert!(shapes.has(id));
        }
        let other = dir.path().join("other");
        Producer::create(&other, &Options::default()).unwrap();
        let other = Shapes::open(other, 0).unwrap();
        assert!(shapes.is_of(&layout) && !other.is_of(&layout));
    }

    #[test]
    fn the_origin_has_the_present_producer_and_its_birth() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut first = Producer::create(&path, &Options::default()).unwrap();
        first.publish(b"one").unwrap();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        let born = shapes.origin().birth.unwrap();
        assert_eq!(Some(born.namespace), Birth::namespace_here());
        assert_eq!((shapes.origin().producer.epoch, shapes.origin().boot == [0; 16]), (1, false));
        drop(first);
        let mut next = Producer::attach_as(&path, "next").unwrap();
        next.publish(b"two").unwrap();
        see(&mut shapes, 4999);
        let producer = &shapes.origin().producer;
        assert_eq!((producer.epoch, &*producer.name), (2, "next"));
        assert_eq!(shapes.origin().birth, Some(born));
        // Nothing says which process a producer was that is gone.
        drop(next);
        assert_eq!(Shapes::open(&path, 1).unwrap().origin().birth, None);
    }

    #[test]
    fn a_table_that_grows_all_the_time_and_holds_nothing_is_not_read_for_every_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::attach(&path, Start::Oldest).unwrap().layout();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        let mut reads = 0;
        for id in 5000..5200 {
            producer.register(&schema("other", id)).unwrap();
            let before = shapes.origin().types.len();
            see(&mut shapes, 4999);
            reads += u32::from(shapes.origin().types.len() > before);
        }
        assert_eq!(reads, 7, "at records 1, 3, 7 ... 127");
        // As many unknown types as one likes: one read for each of the first, then as for one type.
        for id in 0..MISSED_MAX as u32 + 200 {
            producer.register(&schema("other", 6000 + id)).unwrap();
            let before = shapes.origin().types.len();
            see(&mut shapes, 100_000 + id);
            reads += u32::from(shapes.origin().types.len() > before);
        }
        assert_eq!(reads, 7 + (MISSED_MAX as u32 - 1) + 7);
        assert_eq!(shapes.missed.len(), MISSED_MAX);
        // Its end goes up and down: what was read is not read again.
        let file = File::options().write(true).open(&path).unwrap();
        for used in [64u64, u64::MAX, 64, u64::MAX] {
            file.write_all_at(&used.to_ne_bytes(), layout.areas().types.start).unwrap();
            (0..2 * PATIENCE_MAX).for_each(|_| see(&mut shapes, 4999));
        }
        assert_eq!(
            (shapes.origin().types.len(), shapes.origin().types.damage().len()),
            (400 + MISSED_MAX, 1)
        );
    }

    #[test]
    fn a_type_that_never_comes_does_not_hide_those_that_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        for id in 5000..5200 {
            producer.register(&schema("typed", id)).unwrap();
            for _ in 0..=id % 3 {
                see(&mut shapes, 4999);
            }
            see(&mut shapes, id);
            assert!(shapes.has(id), "{id}");
        }
        // A type that is registered after all is found once its counter has run out.
        producer.register(&schema("late", 4999)).unwrap();
        (0..PATIENCE_MAX).for_each(|_| see(&mut shapes, 4999));
        assert!(shapes.has(4999) && shapes.missed.is_empty());
    }

    #[test]
    fn no_entry_is_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::attach(&path, Start::Oldest).unwrap().layout();
        let id = RecordType::new(5000).unwrap();
        let entry = Entry { id, layout: 0, text: "no JSON" }.to_words();
        let bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&bytes, layout.areas().types.start + 64).unwrap();
        let used = 64 + bytes.len() as u64;
        file.write_all_at(&used.to_ne_bytes(), layout.areas().types.start).unwrap();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        producer.register(&schema("good", 5001)).unwrap();
        see(&mut shapes, 5001);
        assert!(shapes.has(5001));
        assert_eq!(shapes.origin().types.damage().len(), 1, "{:?}", shapes.origin().types.damage());
    }
}
