//! What a ring says of its records, as its readers know it: their types, and how to tell the time.

use crate::failure::Failure;
use crate::typed::Seen;
use perfring_consumer::{Anchors, Home, Layout, Observer, Record, RecordType, Start, Types};
use perfring_types::Entries;
use perfring_types::read::{TableDamage, Type, TypeTable};
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

/// The types of a ring. Those of a ring that is followed become more.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    table: TypeTable,
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
    anchors: Anchors,
    /// Whose records they are, where there are several.
    name: Option<String>,
}

impl Shapes {
    /// Of copies of a table and of anchors.
    pub(crate) fn of(types: Types, anchors: Anchors) -> Self {
        let mut shapes = Shapes { anchors, ..Shapes::default() };
        shapes.learn(types);
        shapes
    }

    /// The same, of the ring that has this name.
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Shapes { name: Some(name.into()), ..self }
    }

    /// Whose records they are, where there are several.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// From now on the time is told so.
    pub(crate) fn set_anchors(&mut self, anchors: Anchors) {
        self.anchors = anchors;
    }

    /// Of the ring that stands there, if it is the one of this layout.
    pub(crate) fn follow(home: &Home, layout: &Layout) -> Result<Self, Failure> {
        let source = Observer::open(home, Start::Oldest)?;
        let mut shapes = Self::of(Types::default(), Anchors::default());
        // Another ring has taken the name: what this one's records are cannot be found out.
        if source.layout().uuid == layout.uuid {
            shapes.learn(source.types());
            shapes.source = Some(source);
        }
        Ok(shapes)
    }

    /// The types.
    pub(crate) fn table(&self) -> &TypeTable {
        &self.table
    }

    /// What of the table cannot be read.
    pub(crate) fn damage(&self) -> &[TableDamage] {
        self.table.damage()
    }

    /// A record with what is said of it; looks again for one that came after the last look.
    pub(crate) fn see<'a>(&'a mut self, record: Record<'a>) -> Seen<'a> {
        if record.time.is_some()
            && let Some(source) = &self.source
        {
            // For every record, as somebody may set the clock between two.
            self.anchors = source.anchors();
        }
        self.look_for(record.kind);
        Seen::new(record, self.get(record.kind), &self.anchors)
    }

    fn get(&self, kind: u32) -> Option<&Type> {
        self.table.get(RecordType::new(kind)?)
    }

    fn look_for(&mut self, kind: u32) {
        if self.source.is_some() && !self.ended && self.get(kind).is_none() {
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
        let table = &self.table;
        self.missed.retain(|id, _| RecordType::new(*id).is_none_or(|id| table.get(id).is_none()));
        if self.get(kind).is_some() {
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
            self.table.extend(Entries::new(words).map(|entry| {
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
    fn a_type_that_comes_later_is_found_and_a_ring_that_took_the_name_is_not_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let home = Home::from(path.clone());
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::open(&path, Start::Oldest).unwrap().layout();
        let mut shapes = Shapes::follow(&home, &layout).unwrap();
        for id in 5000..5100 {
            shapes.look_for(id);
            assert!(shapes.get(id).is_none());
            producer.register(&schema("late", id)).unwrap();
            shapes.look_for(id);
            assert_eq!(shapes.get(id).map(|kind| kind.id.get()), Some(id));
        }
        let other = dir.path().join("other");
        Producer::create(&other, &Options::default())
            .unwrap()
            .register(&schema("x", 5000))
            .unwrap();
        let mut shapes = Shapes::follow(&Home::from(other), &layout).unwrap();
        shapes.look_for(5000);
        assert!(shapes.get(5000).is_none() && shapes.table().is_empty());
    }

    #[test]
    fn a_table_that_grows_all_the_time_and_holds_nothing_is_not_read_for_every_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let home = Home::from(path.clone());
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::open(&path, Start::Oldest).unwrap().layout();
        let mut shapes = Shapes::follow(&home, &layout).unwrap();
        let mut looks = 0;
        for id in 5000..5200 {
            producer.register(&schema("other", id)).unwrap();
            let before = shapes.table().len();
            shapes.look_for(4999);
            looks += u32::from(shapes.table().len() > before);
        }
        assert_eq!(looks, 7, "at records 1, 3, 7 ... 127");
        // As many unknown types as one likes: a look each for the first, then as for one.
        for id in 0..MISSED_MAX as u32 + 200 {
            producer.register(&schema("other", 6000 + id)).unwrap();
            let before = shapes.table().len();
            shapes.look_for(100_000 + id);
            looks += u32::from(shapes.table().len() > before);
        }
        assert_eq!(looks, 7 + (MISSED_MAX as u32 - 1) + 7);
        assert_eq!(shapes.missed.len(), MISSED_MAX);
        // Its end goes up and down: what was read is not read again.
        let file = File::options().write(true).open(&path).unwrap();
        for used in [64u64, u64::MAX, 64, u64::MAX] {
            file.write_all_at(&used.to_ne_bytes(), layout.types_offset()).unwrap();
            (0..2 * PATIENCE_MAX).for_each(|_| shapes.look_for(4999));
        }
        assert_eq!((shapes.table().len(), shapes.damage().len()), (400 + MISSED_MAX, 1));
    }

    #[test]
    fn a_type_that_never_comes_does_not_hide_those_that_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut producer = Producer::create(&path, &Options::default()).unwrap();
        let layout = *Observer::open(&path, Start::Oldest).unwrap().layout();
        let mut shapes = Shapes::follow(&Home::from(path), &layout).unwrap();
        for id in 5000..5200 {
            producer.register(&schema("typed", id)).unwrap();
            for _ in 0..=id % 3 {
                shapes.look_for(4999);
            }
            shapes.look_for(id);
            assert!(shapes.get(id).is_some(), "{id}");
        }
        // One that comes after all is found once it was waited for.
        producer.register(&schema("late", 4999)).unwrap();
        (0..PATIENCE_MAX).for_each(|_| shapes.look_for(4999));
        assert!(shapes.get(4999).is_some() && shapes.missed.is_empty());
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
        let mut shapes = Shapes::follow(&Home::from(path), &layout).unwrap();
        producer.register(&schema("good", 5001)).unwrap();
        shapes.look_for(5001);
        assert!(shapes.get(5001).is_some());
        assert_eq!(shapes.damage().len(), 1, "{:?}", shapes.damage());
    }
}
