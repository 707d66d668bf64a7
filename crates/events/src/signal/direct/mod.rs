//! Log records as they stand in a record's bytes, with no value between.

mod found;
mod meaning;
mod plan;
mod value;

use crate::event::Rec;
use perfring_types::Class;
use perfring_types::tagged::Data;
use plan::Plan;
use std::collections::BTreeMap;

pub use found::Direct;

/// The limit of plans: beyond it all are made again.
const PLANS: usize = 4096;

/// Reads log records, and records without a class, without decoding them: by a plan that is made once for each type.
///
/// A record that needs more is not read, as one with an invalid value in a reserved field, or with a name that occurs twice:
/// then [`Signal::of`](super::Signal::of) says what it is. Otherwise both say the same.
///
/// ```
/// use perfring_events::signal::{DirectReader, Signal};
/// use perfring_events::{Rec, Shapes};
/// # use perfring_consumer::{Item, Snapshot};
/// # use perfring_telemetry::{Log, Resource, Sink, options};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let sink = Sink::create(&path, &options(), Resource::default())?;
/// # sink.emit(&Log { body: "ready".into(), attributes: &[("port", 80u64.into())], ..Log::default() })?;
/// # let snapshot = Snapshot::take(&path)?;
/// # let shapes = Shapes::of_snapshot(&snapshot, &path.into(), 0);
/// # let mut read = 0;
/// let mut reader = DirectReader::default();
/// # for item in &snapshot {
/// #     let Item::Record(record) = item? else { continue };
/// let record = Rec::new(record, shapes.origin());
/// match reader.read(shapes.origin().id, &record, |name, value| println!("{name}: {value:?}")) {
///     Some(log) => println!("{:?}", log.body),
///     None => println!("{:?}", Signal::of(&record)), // a resource
/// }
/// #     read += usize::from(reader.read(0, &record, |_, _| ()).is_some());
/// # }
/// # assert_eq!(read, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct DirectReader {
    /// By the numbers of ring and type; `None` for a type whose records are decoded.
    plans: BTreeMap<(u32, u32), Option<Box<Plan>>>,
}

impl DirectReader {
    /// Reads a record of the ring of this number: calls `each` for its attributes in their order, and returns the rest.
    ///
    /// Returns `None` if the record must be decoded, perhaps after some calls.
    #[inline]
    pub fn read<'a>(
        &'a mut self,
        ring: u32,
        record: &'a Rec<'_>,
        mut each: impl FnMut(&str, Data<'_>),
    ) -> Option<Direct<'a>> {
        let kind = record.kind_of()?;
        let key = (ring, record.kind);
        if !self.plans.contains_key(&key) {
            if self.plans.len() >= PLANS {
                self.plans.clear();
            }
            self.plans.insert(key, Plan::new(kind).map(Box::new));
        }
        let plan = self.plans.get_mut(&key)?.as_mut()?;
        let mut found = plan.read(kind, record.bytes, &mut each)?;
        found.time = found.time.or(record.wall);
        if found.class == Class::Plain {
            found.event_name = &kind.name;
        }
        Some(found)
    }

    /// Forgets the types of a ring.
    pub fn forget(&mut self, ring: u32) {
        self.plans.retain(|(its, _), _| *its != ring);
    }
}
