//! The rings of a directory as they come and go, and their items in the order of time.

use crate::locks::lock;
use crate::record::Origin;
use perfring_consumer::{
    Anchors, AttachError, Consumer, ConsumerOptions, Item, Lost, Observer, Start, Trust, Types,
};
use perfring_producer::RecordType;
use perfring_set::{Change, Follower, NoRing, RingEntry, Source, SourceId};
use perfring_types::read::TypeTable;
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often the directory is looked at.
const FOLLOW: Duration = Duration::from_millis(20);
/// How often rings are tried again that others have.
const AGAIN: Duration = Duration::from_secs(1);
/// Changes of a directory that are looked at in one go: attaching takes time, too.
const CHANGES: usize = 64;

/// What a merge gives.
pub(super) struct Got {
    pub(super) ring: Arc<str>,
    pub(super) what: What,
    pub(super) time: u64,
    pub(super) late: u64,
}

pub(super) enum What {
    Record { origin: Arc<dyn Origin>, pos: u64, kind: u32, timestamp: Option<u64>, bytes: Vec<u8> },
    Lost(Lost),
    Event(Event),
}

/// News of a ring.
pub(super) enum Event {
    Gone { path: String, uuid: [u8; 16] },
    Failed { path: String, why: String, again: bool },
}

/// What is known of a ring, also for its records that outlive it: its types, and how to tell the time.
struct Shape(Mutex<(Arc<TypeTable>, Anchors)>);

impl Origin for Shape {
    fn table(&self, _: Python<'_>, _: RecordType) -> PyResult<Arc<TypeTable>> {
        Ok(Arc::clone(&lock(&self.0).0))
    }

    fn anchors(&self, _: Python<'_>) -> PyResult<Anchors> {
        Ok(lock(&self.0).1)
    }
}

impl Shape {
    /// As it is now; the table only if it has grown.
    fn renew(&self, types: &mut Types, source: &dyn Source) {
        lock(&self.0).1 = source.anchors();
        if source.has_more_types(types) {
            *types = source.types();
            lock(&self.0).0 = Arc::new(TypeTable::from_words(types.words()));
        }
    }

    fn knows(&self, kind: u32) -> bool {
        RecordType::new(kind).is_none_or(|kind| lock(&self.0).0.get(kind).is_some())
    }
}

struct Ring {
    name: Arc<str>,
    path: String,
    uuid: [u8; 16],
    shape: Arc<Shape>,
    types: Types,
    /// When its shape was looked at last.
    looked: Instant,
    /// Something was taken that is not released.
    taken: bool,
    /// Its file is gone.
    vanished: bool,
    /// It goes with the next release.
    leaves: bool,
}

/// A ring that could not be attached to, and may be later.
struct Waiting {
    entry: RingEntry,
    reported: String,
}

pub(super) struct Rings {
    pub(super) merge: perfring_set::Merge,
    follower: Follower,
    /// `None`: they are consumed.
    start: Option<Start>,
    /// Who consumes.
    name: String,
    rings: HashMap<SourceId, Ring>,
    waiting: Vec<Waiting>,
    /// Damaged ones, which are not read again while they are the same.
    aside: HashSet<[u8; 16]>,
    events: VecDeque<(Arc<str>, Event)>,
    /// Sources of which something is to be released, or that go then.
    settle: Vec<SourceId>,
    /// What a wait found.
    kept: Option<Got>,
    due: Instant,
    again: Instant,
}

impl Rings {
    pub(super) fn new(
        dir: &Path,
        delay: Duration,
        start: Option<Start>,
        name: String,
    ) -> Result<Self, String> {
        let now = Instant::now();
        Ok(Rings {
            merge: perfring_set::Merge::new(delay).map_err(|error| error.to_string())?,
            follower: Follower::new(dir).map_err(|error| error.to_string())?,
            start,
            name,
            rings: HashMap::new(),
            waiting: Vec::new(),
            aside: HashSet::new(),
            events: VecDeque::new(),
            settle: Vec::new(),
            kept: None,
            due: now,
            again: now,
        })
    }

    /// Gives back what was taken.
    pub(super) fn release(&mut self) {
        if self.kept.is_some() {
            return; // it was taken, and not given yet
        }
        for id in std::mem::take(&mut self.settle) {
            if let Some(resume_point) = self.merge.resume_point(id) {
                self.merge.release(id, &resume_point);
            }
            match self.rings.get_mut(&id) {
                Some(ring) if !ring.leaves => ring.taken = false,
                _ => {
                    self.rings.remove(&id);
                    self.merge.remove(id);
                }
            }
        }
    }

    /// Whether it is time to look at the directory.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// The next item, if its time has come.
    pub(super) fn take(&mut self) -> Option<Got> {
        if let Some(kept) = self.kept.take() {
            return Some(kept);
        }
        loop {
            if let Some((ring, event)) = self.events.pop_front() {
                return Some(Got { ring, what: What::Event(event), time: 0, late: 0 });
            }
            let (id, item) = match self.merge.next() {
                Ok(None) => return None,
                Ok(Some(merged)) => (merged.source, Ok(merged)),
                Err((id, error)) => (id, Err(error.to_string())),
            };
            let Some(ring) = self.rings.get_mut(&id) else { continue };
            let (what, time, late) = match item {
                Ok(merged) => {
                    let what = match merged.item {
                        Item::Record(record) => What::Record {
                            origin: Arc::clone(&ring.shape) as Arc<dyn Origin>,
                            pos: record.pos,
                            kind: record.kind,
                            timestamp: record.time,
                            bytes: record.bytes.to_vec(),
                        },
                        Item::Lost(lost) => What::Lost(lost),
                    };
                    (what, merged.time, merged.late)
                }
                Err(why) => {
                    self.aside.insert(ring.uuid);
                    let (path, again) = (ring.path.clone(), false);
                    let event =
                        Event::Failed { path, why: format!("{why}; it is set aside"), again };
                    self.events.push_back((Arc::clone(&ring.name), event));
                    self.leave(id);
                    continue;
                }
            };
            if !std::mem::replace(&mut ring.taken, true) && !ring.leaves {
                self.settle.push(id);
            }
            if let What::Record { kind, .. } = &what
                && let Some(source) = self.merge.source(id)
                && (ring.looked.elapsed() > FOLLOW
                    || (!ring.shape.knows(*kind) && source.has_more_types(&ring.types)))
            {
                ring.looked = Instant::now();
                ring.shape.renew(&mut ring.types, source);
            }
            return Some(Got { ring: Arc::clone(&ring.name), what, time, late });
        }
    }

    /// The next item, waited for.
    pub(super) fn wait(&mut self, limit: Duration) -> Option<Got> {
        if self.is_due() {
            self.follow();
        }
        let limit = limit.min(FOLLOW);
        let since = Instant::now();
        loop {
            if let Some(got) = self.take() {
                return Some(got);
            }
            let left = limit.saturating_sub(since.elapsed());
            // What is ready may be another source's than the one that it was asked for.
            if !self.merge.wait(left) {
                return None;
            }
        }
    }

    /// As [`Rings::wait`], and leaves what it finds for [`Rings::take`].
    pub(super) fn expect(&mut self, limit: Duration) -> Option<()> {
        self.kept = self.wait(limit);
        self.kept.as_ref().map(|_| ())
    }

    fn leave(&mut self, id: SourceId) {
        if let Some(ring) = self.rings.get_mut(&id) {
            ring.leaves = true;
            if !ring.taken {
                self.settle.push(id);
            }
        }
    }

    /// Sees which rings have come, gone, or can be read now.
    pub(super) fn follow(&mut self) {
        for _ in 0..CHANGES {
            let Some(change) = self.follower.next() else { break };
            match change {
                Change::Appeared(ring) => self.appear(ring),
                Change::Replaced { before, now } => {
                    self.vanish(&before);
                    self.appear(now);
                }
                Change::Vanished(ring) => self.vanish(&ring),
                Change::Refused(NoRing { path, why }) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let event =
                        Event::Failed { path: path.display().to_string(), why, again: false };
                    self.events.push_back((name.into(), event));
                }
                _ => {}
            }
        }
        let now = Instant::now();
        if now >= self.again {
            self.again = now + AGAIN;
            for waiting in std::mem::take(&mut self.waiting) {
                self.attach(waiting.entry, waiting.reported);
            }
        }
        let vanished: Vec<SourceId> =
            self.rings.iter().filter(|(_, ring)| ring.vanished).map(|(id, _)| *id).collect();
        for id in vanished {
            self.end_of(id);
        }
        self.due = Instant::now() + FOLLOW;
    }

    fn appear(&mut self, entry: RingEntry) {
        let uuid = entry.identity.uuid;
        // It was renamed.
        if let Some(ring) = self.rings.values_mut().find(|ring| ring.uuid == uuid) {
            (ring.vanished, ring.name) = (false, entry.name.as_str().into());
            ring.path = entry.path.display().to_string();
            return;
        }
        if !self.aside.contains(&uuid) {
            self.attach(entry, String::new());
        }
    }

    fn vanish(&mut self, entry: &RingEntry) {
        let uuid = entry.identity.uuid;
        self.waiting.retain(|waiting| waiting.entry.identity.uuid != uuid);
        if let Some(ring) = self.rings.values_mut().find(|ring| ring.uuid == uuid) {
            ring.vanished = true;
        }
    }

    /// A ring without a file goes when nobody writes to it and all is read.
    fn end_of(&mut self, id: SourceId) {
        // In this order: what was written before the producer went is seen after it.
        if self.merge.source(id).is_some_and(Source::has_producer) || !self.merge.is_drained(id) {
            return;
        }
        let Some(ring) = self.rings.get(&id).filter(|ring| !ring.leaves) else { return };
        let event = Event::Gone { path: ring.path.clone(), uuid: ring.uuid };
        self.events.push_back((Arc::clone(&ring.name), event));
        self.leave(id);
    }

    fn attach(&mut self, entry: RingEntry, reported: String) {
        let failed = match self.source(&entry) {
            Ok(None) => return, // whoever follows the directory hears of it
            Ok(Some(source)) => {
                let types = source.types();
                let table = Arc::new(TypeTable::from_words(types.words()));
                let shape = Shape(Mutex::new((table, source.anchors())));
                let ring = Ring {
                    name: entry.name.as_str().into(),
                    path: entry.path.display().to_string(),
                    uuid: entry.identity.uuid,
                    shape: Arc::new(shape),
                    types,
                    looked: Instant::now(),
                    taken: false,
                    vanished: false,
                    leaves: false,
                };
                let id = self.merge.add(source);
                self.rings.insert(id, ring);
                return;
            }
            Err(AttachError::NotFound { .. } | AttachError::Removed { .. }) => return,
            Err(error) => error,
        };
        let again = !matches!(
            failed,
            AttachError::Bad { .. } | AttachError::Corrupt { .. } | AttachError::Truncated { .. }
        );
        let end = if again { "it is tried again" } else { "it is set aside" };
        let why = format!("{failed}; {end}");
        if why != reported {
            let path = entry.path.display().to_string();
            let event = Event::Failed { path, why: why.clone(), again };
            self.events.push_back((entry.name.as_str().into(), event));
        }
        if again {
            self.waiting.push(Waiting { entry, reported: why });
        } else {
            self.aside.insert(entry.identity.uuid);
        }
    }

    /// `None`: another ring has its name by now.
    fn source(&self, entry: &RingEntry) -> Result<Option<Box<dyn Source>>, AttachError> {
        let (source, uuid): (Box<dyn Source>, _) = match self.start {
            Some(start) => {
                let observer = Observer::open(entry.path.clone(), start)?;
                let uuid = observer.layout().uuid;
                (Box::new(observer), uuid)
            }
            None => {
                let consumer = Consumer::attach_with(
                    entry.path.clone(),
                    &ConsumerOptions { trust: Trust::Auto, ..ConsumerOptions::named(&self.name) },
                )?;
                let uuid = consumer.layout().uuid;
                (Box::new(consumer), uuid)
            }
        };
        Ok((uuid == entry.identity.uuid).then_some(source))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let stay = self.rings.values().filter(|ring| !ring.leaves);
        let mut names: Vec<_> = stay.map(|ring| ring.name.to_string()).collect();
        names.sort();
        names
    }
}
