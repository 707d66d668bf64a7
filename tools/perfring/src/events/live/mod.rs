//! Rings that are followed: merged by time while they come and go.

mod losses;

use super::held::{Given, Held};
use super::told::Reached;
use crate::failure::{Failure, detail, note};
use crate::figures::opened::opened;
use crate::left_out;
use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Item, Layout, Location, Lost, Observer, Start,
    advanced::Saved,
    stat::{Count, Stat},
};
use perfring_export::{Event, Origin, Shapes};
use perfring_set::{About, Feed, FeedChange, Found, Merge, PlaceId, Source, SourceId};
use perfring_witness::Followed;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// As an observer, from this start on.
    Observe(Start),
    /// As the consumer: what was returned and released leaves the ring.
    Consume,
}

/// Many rings, as they come and go.
pub(crate) struct Live {
    how: How,
    merge: Merge,
    rings: HashMap<SourceId, Ring>,
    /// Those of the kernel.
    kernel: Vec<SourceId>,
    feed: Feed,
    /// Places that are one ring: they are left when it is removed.
    singles: Vec<PlaceId>,
    follows_dirs: bool,
    begun: VecDeque<SourceId>,
    ended: VecDeque<SourceId>,
    /// A ring whose end was returned.
    returned_end: Option<SourceId>,
    /// Losses that no stream reports, with the position of each ring's reader: those that the rings count, and those
    /// between a recording and a ring's oldest record.
    untold: VecDeque<(SourceId, Lost, Saved)>,
    /// How far a recording has each ring: the ring is read from there on.
    pub(crate) reached: HashMap<[u8; 16], Reached>,
    /// Rings whose items were returned since the last release.
    touched: Vec<SourceId>,
    held: Held,
    seq: u64,
    /// Number of rings read so far.
    pub(crate) ids: u32,
    /// Number of these that have evidence about the others.
    pub(crate) beside: u32,
    /// Number of rings found to be damaged.
    pub(crate) damaged: u64,
}

struct Ring {
    location: Location,
    uuid: [u8; 16],
    shapes: Shapes,
    /// Its file has no name any more.
    unnamed: bool,
    /// It is in `ended`.
    over: bool,
    last: Option<u64>,
    /// How far the recording had it before.
    reached: Reached,
    /// It has evidence of what happens around the other rings: it keeps nothing from its end.
    beside: bool,
}

impl Live {
    pub(crate) fn new(how: How, delay: Duration) -> Result<Self, Failure> {
        let merge = Merge::new(delay).map_err(Failure::general)?;
        Ok(Live {
            how,
            merge,
            rings: HashMap::new(),
            kernel: Vec::new(),
            feed: Feed::default(),
            singles: Vec::new(),
            follows_dirs: false,
            begun: VecDeque::new(),
            ended: VecDeque::new(),
            returned_end: None,
            untold: VecDeque::new(),
            reached: HashMap::new(),
            touched: Vec::new(),
            held: Held::default(),
            seq: 0,
            ids: 0,
            beside: 0,
            damaged: 0,
        })
    }

    /// Follows a ring until it is removed, unless it is followed already.
    pub(crate) fn add(&mut self, location: &Location) -> Result<(), Failure> {
        let uuid = Stat::read(location).map_or([0; 16], |stat| stat.layout.uuid);
        if let Some(other) = self.rings.values().find(|ring| ring.uuid == uuid) {
            if other.location != *location {
                left_out::copy(&location.path(), &other.location.path());
            }
            return Ok(());
        }
        if let Some(layout) = self.attach(location, self.how, None)? {
            self.singles.push(self.feed.add_attached(location, &layout));
        }
        Ok(())
    }

    /// Reads a ring of the kernel, which has no file, under this name. One that is `beside` the others has evidence of what
    /// happens around them.
    pub(crate) fn add_source(
        &mut self,
        name: &str,
        location: &str,
        source: Box<dyn Source>,
        beside: bool,
    ) {
        let About { uuid, data_size, policy, timed } = source.about();
        let (id, anchors, location) = (self.ids, source.anchors(), Location::from(location));
        self.ids += 1;
        let names = self.names(uuid, &location);
        let origin = Origin::of_kernel(id, name, uuid);
        // A map of BPF programs is in no pid namespace.
        let (birth, location_text) = (origin.birth.filter(|_| beside), location.to_string());
        let mut origin =
            Origin { location: location_text, policy, timed, data_size, anchors, birth, ..origin };
        origin.distinguish(|name| names.iter().any(|other| other == name));
        let shapes = Shapes::of(origin, source.types());
        let id = self.merge.add(source);
        let (over, last, reached) = (false, None, Reached::default());
        let ring = Ring { location, uuid, shapes, unnamed: beside, over, last, reached, beside };
        self.beside += u32::from(beside);
        self.rings.insert(id, ring);
        self.begun.push_back(id);
        self.kernel.push(id);
    }

    /// Updates the anchors of the kernel's rings, as the clock may be set.
    fn anchor(&mut self) {
        for id in &self.kernel {
            if let (Some(ring), Some(source)) = (self.rings.get_mut(id), self.merge.source(*id)) {
                ring.shapes.origin_mut().anchors = source.anchors();
            }
        }
    }

    /// Follows the ring of a witness, whose file may be removed at once.
    pub(crate) fn add_witness(&mut self, location: &Location, name: &str) -> Result<(), Failure> {
        if let Some(layout) = self.attach(location, How::Observe(Start::Oldest), None)? {
            let of = |ring: &&mut Ring| ring.uuid == layout.uuid;
            if let Some(ring) = self.rings.values_mut().find(of) {
                (ring.beside, ring.unnamed) = (true, true);
                name.clone_into(&mut ring.shapes.origin_mut().name);
            }
            self.beside += 1;
        }
        Ok(())
    }

    /// Returns the rings that are followed, without those that have evidence about them.
    pub(crate) fn followed(&self) -> impl Iterator<Item = Followed> {
        let rings = self.rings.values().filter(|ring| !ring.beside && !ring.over);
        rings.map(|ring| Followed { location: ring.location.clone(), uuid: ring.uuid })
    }

    /// Follows all rings of a directory, which need not be there yet.
    pub(crate) fn follow(&mut self, dir: PathBuf) -> Result<(), Failure> {
        self.feed.add_dir(dir).map_err(Failure::general)?;
        self.follows_dirs = true;
        self.poll_names();
        Ok(())
    }

    /// Attaches to a ring, or to the one that was found there. Returns its layout, or `None` if it was just replaced, which the
    /// feed reports.
    fn attach(
        &mut self,
        location: &Location,
        how: How,
        found: Option<&Found>,
    ) -> Result<Option<Layout>, AttachError> {
        let reached = |layout: &Layout| self.reached.get(&layout.uuid).copied();
        let (source, layout, reached): (Box<dyn Source>, Layout, Reached) = match how {
            How::Observe(start) => {
                let observer = Observer::attach(location, start)?;
                let layout = *observer.layout();
                let (observer, reached) = match reached(&layout) {
                    Some(reached) => reached.resume(observer)?,
                    None => (observer, Reached::default()),
                };
                (Box::new(observer), layout, reached)
            }
            How::Consume => {
                let consumer =
                    Consumer::attach_with(location, &ConsumerOptions::named("perfring record"))?;
                let layout = *consumer.layout();
                let reached = reached(&layout).unwrap_or_default();
                let reached = reached.of(&Stat::read(location)?, location);
                (Box::new(consumer), layout, reached)
            }
        };
        if found.is_some_and(|found| found.ring.identity.uuid != layout.uuid) {
            return Ok(None);
        }
        detail(|| opened(location, &layout));
        let id = self.ids;
        self.ids += 1;
        let mut shapes = Shapes::open(location, id)?;
        if !shapes.is_of(&layout) {
            let origin =
                Origin::of(id, location, &layout, 0, perfring_consumer::stat::OwnerInfo::default());
            shapes = Shapes::of(origin, source.types());
        }
        if let Some(found) = found {
            shapes.origin_mut().name = found.ring.name.clone();
        }
        let names = self.names(layout.uuid, location);
        shapes.origin_mut().distinguish(|name| names.iter().any(|other| other == name));
        let (after, id) = (source.resume_point().saved(), self.merge.add(source));
        // Another consumer may have taken what precedes a consumer's position.
        let lost = reached.lost_before(after.pos).filter(|_| how != How::Consume);
        self.untold.extend(lost.map(|lost| (id, lost, after)));
        let (location, uuid, last) = (location.clone(), layout.uuid, None);
        let (unnamed, over, beside) = (false, false, false);
        let ring = Ring { location, uuid, shapes, unnamed, over, last, reached, beside };
        self.rings.insert(id, ring);
        self.begun.push_back(id);
        Ok(Some(layout))
    }

    /// Returns the names of other rings at other places.
    fn names(&self, uuid: [u8; 16], location: &Location) -> Vec<String> {
        let others = self
            .rings
            .values()
            .filter(|ring| !ring.unnamed && ring.uuid != uuid && ring.location != *location);
        others.map(|ring| ring.shapes.origin().name.clone()).collect()
    }

    /// Checks which rings have come or gone.
    pub(crate) fn poll_names(&mut self) {
        self.anchor();
        while let Some(change) = self.feed.next(Instant::now()) {
            match change {
                FeedChange::Found(found) => self.found(found),
                FeedChange::Renamed(found) => self.renamed(found),
                FeedChange::Removed(found) => {
                    let uuid = found.ring.identity.uuid;
                    let lost = self.rings.values_mut().filter(|ring| ring.uuid == uuid);
                    lost.for_each(|ring| ring.unnamed = true);
                    if self.singles.contains(&found.place) {
                        self.feed.leave(found.place);
                    }
                }
                FeedChange::NotRead(_, other) => left_out::report([&other]),
                FeedChange::Copy { found, of } => left_out::report([&found.not_read(of.as_ref())]),
                _ => {}
            }
        }
        let mut over = Vec::new();
        for (id, ring) in &mut self.rings {
            if ring.unnamed
                && !ring.over
                && self.merge.source(*id).is_none_or(|source| !source.has_producer())
                && self.merge.is_drained(*id)
            {
                ring.over = true;
                over.push(*id);
            }
        }
        over.sort_unstable();
        self.ended.extend(over);
    }

    /// Attaches to a ring of a directory. One that came later is read from its beginning.
    fn found(&mut self, found: Found) {
        let how = match self.how {
            How::Observe(_) if found.is_new => How::Observe(Start::Oldest),
            how => how,
        };
        match self.attach(&found.location, how, Some(&found)) {
            Ok(None) => {}
            Ok(Some(_)) => {
                left_out::opened(&found.ring.path);
                self.feed.attached(found);
            }
            Err(error) => {
                let path = found.ring.path.clone();
                if self.feed.failed(found, &error).is_some() {
                    left_out::ring(&path, &error);
                }
            }
        }
    }

    fn renamed(&mut self, found: Found) {
        let (uuid, location) = (found.ring.identity.uuid, found.location);
        let names = self.names(uuid, &location);
        let Some(ring) = self.rings.values_mut().find(|ring| ring.uuid == uuid && !ring.over)
        else {
            return;
        };
        detail(|| format!("{} is {location} now", ring.location));
        let origin = ring.shapes.origin_mut();
        (origin.name, origin.location) = (found.ring.name, location.to_string());
        origin.distinguish(|name| names.iter().any(|other| other == name));
        (ring.unnamed, ring.location) = (false, location);
    }

    /// Returns whether nothing more can arrive: no directory is followed, and all rings are
    /// removed.
    pub(crate) fn is_over(&self) -> bool {
        let followed = self.rings.values().any(|ring| !ring.beside);
        !self.follows_dirs && !followed && self.begun.is_empty()
    }

    /// Polls all rings. Returns whether one has something.
    pub(crate) fn has_more(&mut self) -> bool {
        let merge = &mut self.merge;
        self.rings.keys().filter(|id| !merge.is_drained(**id)).count() > 0
    }

    pub(crate) fn rings(&self) -> usize {
        self.rings.values().filter(|ring| !ring.beside).count()
    }

    /// Returns the next event, or `None` if there is none now.
    pub(crate) fn next(&mut self) -> Result<Option<Event<'_>>, Failure> {
        if let Some(id) = self.returned_end.take() {
            if let Some(ring) = self.rings.remove(&id) {
                self.feed.ended(&ring.uuid);
                detail(|| format!("{} has ended", ring.location));
            }
            drop(self.merge.remove(id));
        }
        let Some(id) = self.choose() else { return Ok(None) };
        let Some(ring) = self.rings.get_mut(&id) else { return Ok(None) }; // always present
        if let Some(record) = self.held.record() {
            ring.shapes.prepare(&record);
        }
        self.seq += 1;
        Ok(Some(self.held.event(self.seq - 1, ring.shapes.origin())))
    }

    /// Puts the next item into `held`. Returns its ring, if there is one.
    fn choose(&mut self) -> Option<SourceId> {
        loop {
            if let Some(id) = self.begun.pop_front() {
                self.held.what = Given::Began;
                return Some(id);
            }
            if let Some(id) = self.take_untold() {
                return Some(id);
            }
            // All of its items were returned.
            if let Some(id) = self.ended.pop_front() {
                self.held.what = Given::Ended;
                self.returned_end = Some(id);
                return Some(id);
            }
            match self.merge.next() {
                Ok(Some(merged)) => {
                    let id = merged.source;
                    let Some(ring) = self.rings.get_mut(&id) else { continue };
                    if self.touched.last() != Some(&id) {
                        self.touched.push(id);
                    }
                    if matches!(merged.item, Item::Record(record) if ring.reached.has(record.pos)) {
                        continue;
                    }
                    self.held.item(&merged.item, merged.late, &mut ring.last);
                    let merge = &self.merge;
                    self.held.set_after(|| merge.resume_point(id).unwrap_or_default().saved());
                    return Some(id);
                }
                Err((id, error)) => {
                    if self.fail(id, &error) {
                        return Some(id);
                    }
                }
                Ok(None) => return None,
            }
        }
    }

    /// Puts what a damaged ring loses into `held`. Returns whether it is a ring that is followed.
    fn fail(&mut self, id: SourceId, error: &perfring_set::SourceError) -> bool {
        let Some(ring) = self.rings.get_mut(&id) else { return false };
        note(&format!("{}: {error}; everything before it is intact", ring.location));
        self.damaged += 1;
        self.feed.set_aside(ring.uuid);
        if !ring.over {
            ring.over = true;
            self.ended.push_back(id);
        }
        // Its producer may write on.
        let pos = self.merge.resume_point(id).unwrap_or_default().saved().pos;
        self.held.what = Given::Damaged { pos, rest: Count::default(), time: ring.last };
        true
    }

    pub(crate) fn wait(&mut self, timeout: Duration) {
        self.merge.wait(timeout);
    }

    /// Releases what was returned so far: as a consumer, frees its space.
    pub(crate) fn release(&mut self) {
        self.touched.sort_unstable();
        self.touched.dedup();
        for id in self.touched.drain(..) {
            if let Some(resume_point) = self.merge.resume_point(id) {
                self.merge.release(id, &resume_point);
            }
        }
    }
}
