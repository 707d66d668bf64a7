//! The items of a directory's rings, copied for Python.

use crate::record::Origin;
use perfring_consumer::{Anchors, Lost, Start, WriterId};
use perfring_producer::RecordType;
use perfring_set::{DirEvent, DirMerge, FollowOptions, ReadMode};
use perfring_types::read::TypeTable;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An item of the merge.
pub(super) struct Got {
    pub(super) ring: Arc<str>,
    pub(super) what: What,
    pub(super) time: u64,
    pub(super) late: u64,
}

pub(super) enum What {
    Record {
        origin: Arc<dyn Origin>,
        pos: u64,
        kind: u32,
        timestamp: Option<u64>,
        writer: Option<WriterId>,
        bytes: Vec<u8>,
    },
    Lost(Lost),
    Event(Event),
}

/// An event of a ring's file.
pub(super) enum Event {
    Gone { path: String, uuid: [u8; 16] },
    Failed { path: String, why: String, retried: bool },
}

/// A ring's name, types and clock anchors, shared with its records, which may outlive it.
struct Ring {
    name: Arc<str>,
    table: Arc<TypeTable>,
    anchors: Anchors,
}

impl Origin for Ring {
    fn table(&self, _: Python<'_>, _: RecordType) -> PyResult<Arc<TypeTable>> {
        Ok(Arc::clone(&self.table))
    }

    fn anchors(&self, _: Python<'_>) -> PyResult<Anchors> {
        Ok(self.anchors)
    }
}

pub(super) struct Rings {
    pub(super) merge: DirMerge,
    /// Of each ring, as of its last record.
    rings: HashMap<String, Arc<Ring>>,
    /// An item that a wait found.
    kept: Option<Got>,
}

impl Rings {
    /// Follows a directory. Without `start` it consumes the rings, else it observes them.
    pub(super) fn new(
        dir: &Path,
        delay: Duration,
        start: Option<Start>,
        name: String,
    ) -> Result<Self, String> {
        let mut options = FollowOptions::default();
        options.delay = delay;
        options.mode = if start.is_some() { ReadMode::Observe } else { ReadMode::Consume };
        options.start = start.unwrap_or_default();
        options.name = Some(name);
        let merge = perfring_set::Merge::follow_with(dir, &options);
        let merge = merge.map_err(|error| error.to_string())?;
        Ok(Rings { merge, rings: HashMap::new(), kept: None })
    }

    /// Releases what was returned.
    pub(super) fn release(&mut self) {
        if self.kept.is_none() {
            self.merge.acknowledge(); // else the kept item was read, and not returned yet
        }
    }

    /// Returns the next item, if its time has come.
    pub(super) fn take(&mut self) -> Option<Got> {
        if let Some(kept) = self.kept.take() {
            return Some(kept);
        }
        let item = self.merge.read()?;
        let (time, late) = (item.time, item.late);
        let path = || item.path.display().to_string();
        let (ring, what) = match item.event {
            DirEvent::Record(record) => {
                let (table, anchors) = (item.types()?, item.anchors()?);
                let known = self
                    .rings
                    .get(item.ring)
                    .filter(|ring| Arc::ptr_eq(&ring.table, table) && ring.anchors == *anchors);
                let ring = match known {
                    Some(ring) => Arc::clone(ring),
                    None => {
                        let (table, anchors) = (Arc::clone(table), *anchors);
                        let ring = Arc::new(Ring { name: item.ring.into(), table, anchors });
                        self.rings.insert(item.ring.to_owned(), Arc::clone(&ring));
                        ring
                    }
                };
                let what = What::Record {
                    origin: Arc::clone(&ring) as Arc<dyn Origin>,
                    pos: record.pos,
                    kind: record.kind,
                    timestamp: record.time,
                    writer: record.writer,
                    bytes: record.bytes.to_vec(),
                };
                (Arc::clone(&ring.name), what)
            }
            DirEvent::Lost(lost) => (item.ring.into(), What::Lost(lost)),
            DirEvent::Gone { uuid } => {
                self.rings.remove(item.ring);
                (item.ring.into(), What::Event(Event::Gone { path: path(), uuid }))
            }
            DirEvent::Failed { why, retried } => {
                let event = Event::Failed { path: path(), why: why.to_owned(), retried };
                (item.ring.into(), What::Event(event))
            }
            _ => return None,
        };
        Some(Got { ring, what, time, late })
    }

    /// Waits for the next item and returns it.
    pub(super) fn wait(&mut self, limit: Duration) -> Option<Got> {
        let since = Instant::now();
        loop {
            if let Some(got) = self.take() {
                return Some(got);
            }
            // After a wait, another ring's item may be the next one.
            if !self.merge.wait(limit.saturating_sub(since.elapsed())) {
                return None;
            }
        }
    }

    /// Waits for the next item, and keeps it for [`Rings::take`].
    pub(super) fn expect(&mut self, limit: Duration) -> Option<()> {
        self.kept = self.wait(limit);
        self.kept.as_ref().map(|_| ())
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.merge.rings().map(str::to_owned).collect();
        names.sort();
        names
    }
}
