//! What a ring says of its records, as its readers know it: their types, and how to tell the time.

use crate::event::{Origin, Rec};
use perfring_consumer::{
    AttachError, Layout, Location, Observer, OwnerInfo, ReadError, Record, RecordType, RingTotals,
    Snapshot, Start, Types,
};
use perfring_types::Entries;
use std::collections::HashMap;

/// Records of one unknown type that are passed over between two looks at a table that has grown, and
/// yet does not have it. Twice as many every time, up to so many: a table that lies costs little.
const PATIENCE_MAX: u32 = 4096;
/// Types of which it is known that the table did not have them. More of them share one patience.
const MISSED_MAX: usize = 256;

/// When to look again for a type that the table did not have.
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

/// The [`Origin`] of a ring. What it knows of a live ring becomes more while records go by.
///
/// ```
/// use perfring_consumer::{Item, Observer, Start};
/// use perfring_export::Shapes;
/// # use perfring_producer::{Options, Producer, RecordType, types::{Encoding, Schema}};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// let mut shapes = Shapes::open(&path, 0)?;
/// let mut observer = Observer::open(&path, Start::Oldest)?;
/// assert!(shapes.is_of(observer.layout())); // not of another ring that took the name
/// # let id = RecordType::new(5000).unwrap();
/// # producer.register(&Schema { id, ..Schema::new("demo.Line", Encoding::Utf8) })?;
/// # producer.publish_as(id, b"a line")?;
/// while let Some(item) = observer.read()? {
///     let Item::Record(record) = item else { continue };
///     let record = shapes.see(record);
///     println!("{:?}", record.kind_of().map(|kind| &kind.name)); // also of a type that came late
/// #   assert!(record.kind_of().is_some());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Shapes {
    origin: Origin,
    taken: Types,
    /// Words of the table that were read: what stands before its end never changes, so no entry is
    /// looked at twice, and a table that says otherwise is not believed.
    known: usize,
    /// Where to look for more. Not the reader itself, which is lent out with every record.
    source: Option<Observer>,
    /// Whether the table can have more.
    ended: bool,
    /// Each by itself: one that never comes must not keep those that do from being found.
    missed: HashMap<u32, Missed>,
    /// Of all that found no room among them.
    others: Missed,
    /// The anchors are those of all records before.
    anchored: u64,
}

impl Origin {
    /// Of a ring of this shape, of which nothing is known yet that its records need.
    #[must_use]
    pub fn of(
        id: u32,
        location: &Location,
        layout: &Layout,
        epoch: u64,
        producer: OwnerInfo,
    ) -> Self {
        let path = location.path();
        let name = match location {
            Location::Segment(name) => name.clone(),
            Location::File(_) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
        };
        Origin {
            id,
            name,
            location: location.to_string(),
            uuid: layout.uuid,
            epoch,
            policy: Some(layout.policy),
            timed: layout.time,
            data_size: layout.data_size,
            producer,
            ..Origin::default()
        }
    }
}

impl Shapes {
    /// Of the ring that stands there, live or not; `id` is for its [`Origin`].
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn open(location: impl Into<Location>, id: u32) -> Result<Self, AttachError> {
        let location = location.into();
        let source = Observer::open(&location, Start::Latest)?;
        // Hints: where a file system has no locks and so no figures, records can be shown without.
        let (epoch, producer) = match source.stat() {
            Ok(stat) => (stat.epoch(), stat.producer.owner),
            Err(_) => Default::default(),
        };
        let origin = Origin::of(id, &location, source.layout(), epoch, producer);
        let mut shapes = Self::of(origin, Types::default());
        shapes.source = Some(source);
        shapes.refresh();
        Ok(shapes)
    }

    /// Of a copy of a ring; `location` says where it was.
    #[must_use]
    pub fn of_snapshot(snapshot: &Snapshot, location: &Location, id: u32) -> Self {
        let origin = Origin::of(id, location, snapshot.layout(), 0, OwnerInfo::default());
        let mut shapes = Self::of(origin, snapshot.types().clone());
        shapes.origin.anchors = *snapshot.anchors();
        shapes
    }

    /// Of an origin that becomes no more than it is with this table.
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
        };
        shapes.learn(types);
        shapes
    }

    /// Whether it is of the ring of this layout. Another may have taken the name.
    #[must_use]
    pub fn is_of(&self, layout: &Layout) -> bool {
        self.origin.uuid == layout.uuid
    }

    /// What is known now.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The same, to give the ring another name.
    pub fn origin_mut(&mut self) -> &mut Origin {
        &mut self.origin
    }

    /// A record with what is said of it; looks again for what came after the last look.
    pub fn see<'a>(&'a mut self, record: Record<'a>) -> Rec<'a> {
        self.prepare(&record);
        Rec::new(record, &self.origin)
    }

    /// Looks again for what must be known of this record and came after the last look.
    #[inline]
    pub fn prepare(&mut self, record: &Record<'_>) {
        // Somebody may set the clock between any two records, and the anchor is there before the
        // second is: so those before the head are told by what is read after it.
        if record.pos >= self.anchored && record.time.is_some() {
            self.anchor();
        }
        self.look_for(record.kind);
    }

    #[cold]
    fn anchor(&mut self) {
        let Some(source) = &self.source else { return };
        self.anchored = source.head();
        self.origin.anchors = source.anchors();
    }

    /// Where its producers are now: the end of what is published. Of a copy nothing comes, and it
    /// is 0.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.head())
    }

    /// Whether a producer is attached, so that there may be more. If that cannot be told, it is.
    #[must_use]
    pub fn has_producer(&self) -> bool {
        let reported = self.source.as_ref().map(|source| source.has_producer().unwrap_or(true));
        reported.unwrap_or(false)
    }

    /// The ring's books, if it is a ring and they are whole.
    #[must_use]
    pub fn totals(&self) -> Option<RingTotals> {
        self.source.as_ref()?.stat().ok()?.totals
    }

    /// A copy of all that the ring holds now, if it is a ring.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn snapshot(&self) -> Result<Option<Snapshot>, ReadError> {
        self.source.as_ref().map(Observer::snapshot).transpose()
    }

    /// Looks again for all that the ring says by now.
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
    fn look_for(&mut self, kind: u32) {
        if self.source.is_some() && !self.ended && !self.has(kind) {
            self.look_again(kind);
        }
    }

    #[cold]
    fn look_again(&mut self, kind: u32) {
        let Some(source) = &self.source else { return };
        if !source.has_more_types(&self.taken) {
            return;
        }
        // One that was never looked for is looked for at once.
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
                    // A table ends there, whatever comes.
                    *ended = true;
                    bad
                })
            }));
            self.known = types.words().len();
        }
        self.taken = types;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;
    use perfring_producer::{Options, Producer};
    use perfring_types::{Encoding, Entry, Schema};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn schema(name: &str, id: u32) -> Schema<'_> {
        Schema { id: RecordType::new(id).unwrap(), ..Schema::new(name, Encoding::Utf8) }
    }

    #[test]
    fn a_type_that_comes_later_is_found_and_a_ring_that_took_the_name_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::open(&path, Start::Oldest).unwrap().layout();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        for id in 5000..5100 {
            shapes.look_for(id);
            assert!(!shapes.has(id));
            producer.register(&schema("late", id)).unwrap();
            shapes.look_for(id);
            assert!(shapes.has(id));
        }
        let other = dir.path().join("other");
        Producer::create(&other, &Options::default()).unwrap();
        let other = Shapes::open(other, 0).unwrap();
        assert!(shapes.is_of(&layout) && !other.is_of(&layout));
    }

    #[test]
    fn a_table_that_grows_all_the_time_and_holds_nothing_is_not_read_for_every_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::open(&path, Start::Oldest).unwrap().layout();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        let mut looks = 0;
        for id in 5000..5200 {
            producer.register(&schema("other", id)).unwrap();
            let before = shapes.origin().types.len();
            shapes.look_for(4999);
            looks += u32::from(shapes.origin().types.len() > before);
        }
        assert_eq!(looks, 7, "at records 1, 3, 7 ... 127");
        // As many unknown types as one likes: a look each for the first, then as for one.
        for id in 0..MISSED_MAX as u32 + 200 {
            producer.register(&schema("other", 6000 + id)).unwrap();
            let before = shapes.origin().types.len();
            shapes.look_for(100_000 + id);
            looks += u32::from(shapes.origin().types.len() > before);
        }
        assert_eq!(looks, 7 + (MISSED_MAX as u32 - 1) + 7);
        assert_eq!(shapes.missed.len(), MISSED_MAX);
        // Its end goes up and down: what was read is not read again.
        let file = File::options().write(true).open(&path).unwrap();
        for used in [64u64, u64::MAX, 64, u64::MAX] {
            file.write_all_at(&used.to_ne_bytes(), layout.types_offset()).unwrap();
            (0..2 * PATIENCE_MAX).for_each(|_| shapes.look_for(4999));
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
                shapes.look_for(4999);
            }
            shapes.look_for(id);
            assert!(shapes.has(id), "{id}");
        }
        // One that comes after all is found once it was waited for.
        producer.register(&schema("late", 4999)).unwrap();
        (0..PATIENCE_MAX).for_each(|_| shapes.look_for(4999));
        assert!(shapes.has(4999) && shapes.missed.is_empty());
    }

    #[test]
    fn no_entry_is_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::open(&path, Start::Oldest).unwrap().layout();
        let id = RecordType::new(5000).unwrap();
        let entry = Entry { id, layout: 0, text: "no JSON" }.to_words();
        let bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&bytes, layout.types_offset() + 64).unwrap();
        let used = 64 + bytes.len() as u64;
        file.write_all_at(&used.to_ne_bytes(), layout.types_offset()).unwrap();
        let mut shapes = Shapes::open(&path, 0).unwrap();
        producer.register(&schema("good", 5001)).unwrap();
        shapes.look_for(5001);
        assert!(shapes.has(5001));
        assert_eq!(shapes.origin().types.damage().len(), 1, "{:?}", shapes.origin().types.damage());
    }
}
