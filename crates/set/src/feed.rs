//! The rings of several places, while they come and go.
//!
//! It stands below the merge of a directory, and so in this crate: the command and the sidecar follow rings by the same code.

use crate::change::{Change, FollowError};
use crate::entry::RingEntry;
use crate::feed_change::{FeedChange, Found, NotAttached, PlaceId};
use crate::follow::Follower;
use crate::one_ring::{OneRing, entry};
use perfring_consumer::{AttachError, Layout, Location, files::Identity};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a ring that could not be attached to is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The interval between two looks at a place that is one ring. The kernel reports the changes of a directory.
const LOOK: Duration = Duration::from_millis(100);
/// Changes after which a place that has ever more of them delays nothing else.
const PATIENCE: u32 = 256;
/// The limit of damaged rings that are remembered.
const ASIDE_MAX: usize = 65_536;

/// Reports the life of the rings of some places: a ring to attach to, its new name, and the removal of its
/// file. A place is a directory, which a [`Follower`] follows, or one ring.
///
/// A ring is known by its uuid, and read once: from one file, which may have several names, and may move from place to
/// place. A copy of a ring that is read waits until the ring is [ended](Feed::ended). If a directory has several files of a
/// ring, one is followed: the file with a producer, or else the file that is read, or else the oldest.
///
/// A damaged ring is set aside. Any other ring that could not be attached to is found again each second: it may be allowed
/// later, or have room for one more reader. After a read error that means damage, the user calls [`Feed::set_aside`] and
/// [`Feed::ended`].
///
/// [`Feed::next`] does not wait: call it some ten times a second. The feed maps no ring and releases nothing. Its user
/// attaches, reads, and decides when a ring has ended: once its file is removed, no producer is attached, and everything is
/// read.
///
/// ```
/// use perfring_consumer::Consumer;
/// use perfring_set::{Feed, FeedChange};
/// use std::{collections::HashMap, time::Instant};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let mut producer = Producer::create(dir.path().join("one"), &Options::default())?;
/// # producer.publish(b"a record")?;
/// # let (dir, mut turns, mut records) = (dir.path(), 0, 0);
/// let mut feed = Feed::default();
/// feed.add_dir(dir)?;
/// let mut rings = HashMap::new(); // the consumers, with their names and whether the file was removed
/// loop {
///     while let Some(change) = feed.next(Instant::now()) {
///         match change {
///             FeedChange::Found(found) => match Consumer::attach(&found.location) {
///                 // Another ring took its place: the feed reports that.
///                 Ok(consumer) if consumer.layout().uuid != found.ring.identity.uuid => {}
///                 Ok(consumer) => {
///                     rings.insert(found.ring.identity.uuid, (consumer, found.ring.name.clone(), false));
///                     feed.attached(found);
///                 }
///                 Err(error) => {
///                     if let Some(failed) = feed.failed(found, &error) {
///                         eprintln!("{}", failed.why);
///                     }
///                 }
///             },
///             FeedChange::Renamed(found) => {
///                 if let Some((_, name, removed)) = rings.get_mut(&found.ring.identity.uuid) {
///                     (*name, *removed) = (found.ring.name, false);
///                 }
///             }
///             FeedChange::Removed(found) => {
///                 if let Some((_, _, removed)) = rings.get_mut(&found.ring.identity.uuid) {
///                     *removed = true;
///                 }
///             }
///             other => eprintln!("{other:?}"),
///         }
///     }
///     for (uuid, (consumer, name, removed)) in &mut rings {
///         // In this order: after the producer is found detached, all its records are seen.
///         let is_last = *removed && !consumer.has_producer()?;
///         while let Some(item) = consumer.read()? { // a record or a loss
///             println!("{name}: {item:?}");
/// #           records += 1;
///         }
///         if is_last {
///             feed.ended(uuid);
///         }
///     }
/// #   turns += 1;
/// #   if turns == 1 { std::fs::remove_file(dir.join("one"))?; }
/// #   if turns == 2 { break }
///     rings.retain(|uuid, _| feed.is_read(uuid));
/// }
/// # assert_eq!(records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Feed {
    places: Vec<FeedPlace>,
    ids: u32,
    /// The place that is asked next.
    turn: usize,
    read: HashMap<[u8; 16], ReadRing>,
    /// Rings that have lost their last name, until no place has news: one of them may have a new name.
    nameless: Vec<Found>,
    /// The number of changes before waiting rings are handled nevertheless: a directory may be flooded with files.
    patience: u32,
    /// Rings that could not be attached to, and copies of rings that are read.
    waiting: Vec<Found>,
    /// The waiting rings to try now.
    due: VecDeque<Found>,
    retry_at: Option<Instant>,
    look_at: Option<Instant>,
    aside: HashSet<Identity>,
    changes: VecDeque<FeedChange>,
    /// No place had news when all were asked last.
    is_quiet: bool,
}

#[derive(Debug)]
struct FeedPlace {
    id: PlaceId,
    /// It was read once.
    scanned: bool,
    at: At,
}

#[derive(Debug)]
enum At {
    Dir(Box<Follower>),
    Ring(Box<OneRing>),
}

/// A ring that is read.
#[derive(Debug)]
struct ReadRing {
    identity: Identity,
    /// The names of its file. The first is its name.
    names: Vec<Found>,
}

impl Feed {
    /// Follows the rings of a directory, which need not be there yet.
    ///
    /// # Errors
    /// See [`Follower::new`].
    pub fn add_dir(&mut self, dir: impl Into<PathBuf>) -> Result<PlaceId, FollowError> {
        let follower = Follower::new(dir)?;
        Ok(self.add(At::Dir(Box::new(follower))))
    }

    /// Follows a location: the ring there, or its successor, or a ring that does not exist yet.
    pub fn add_ring(&mut self, location: impl Into<Location>) -> PlaceId {
        let location = location.into();
        self.look_at = None;
        self.add(At::Ring(Box::new(OneRing::new(location))))
    }

    /// Follows a ring that is read already, by this location; its layout says which one it is.
    pub fn add_attached(&mut self, location: &Location, layout: &Layout) -> PlaceId {
        let place = self.add_ring(location);
        let ring = entry(location, layout);
        if let Some(FeedPlace { at: At::Ring(one), .. }) = self.places.last_mut() {
            one.there = Some(ring.clone());
            self.attached(Found::new(ring, location.clone(), place, false));
        }
        place
    }

    fn add(&mut self, at: At) -> PlaceId {
        let id = PlaceId(self.ids);
        self.ids += 1;
        self.places.push(FeedPlace { id, scanned: false, at });
        id
    }

    /// Follows a place no longer. A ring that is read there stays read, until it is [ended](Feed::ended).
    pub fn leave(&mut self, place: PlaceId) {
        self.places.retain(|other| other.id != place);
        self.turn = 0;
        let here = |found: &Found| found.place == place;
        self.waiting.retain(|found| !here(found));
        self.due.retain(|found| !here(found));
        self.changes.retain(|change| !matches!(change, FeedChange::Found(found) if here(found)));
        for ring in self.read.values_mut() {
            ring.lose(here, &mut self.changes);
        }
    }

    /// Returns the places without content: a directory that does not exist or may not be read, or a missing ring.
    pub fn missing(&self) -> impl Iterator<Item = PlaceId> {
        let is_missing = |place: &&FeedPlace| match &place.at {
            At::Dir(follower) => !follower.is_there(),
            At::Ring(one) => one.is_missing(),
        };
        let asked = self.places.iter().filter(|place| place.scanned);
        asked.filter(is_missing).map(|place| place.id)
    }

    /// Returns whether a ring is read: [attached](Feed::attached) to, and not [ended](Feed::ended).
    #[must_use]
    pub fn is_read(&self, uuid: &[u8; 16]) -> bool {
        self.read.contains_key(uuid)
    }

    /// Returns whether everything in the places at the last look was reported. Waiting rings may be found again.
    #[must_use]
    pub fn is_level(&self) -> bool {
        self.is_quiet
    }

    /// Returns the rings that are found again later: rings that could not be attached to, and copies of rings that are read.
    pub fn waiting(&self) -> impl Iterator<Item = &Found> {
        self.waiting.iter().chain(&self.due)
    }

    /// Returns the next change, or `None` if there is no change. Does not wait. `now`: the present time.
    pub fn next(&mut self, now: Instant) -> Option<FeedChange> {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return Some(change);
            }
            self.is_quiet = !self.ask_places(now);
            if !self.is_quiet && self.patience > 0 {
                self.patience -= 1;
                continue;
            }
            self.patience = PATIENCE;
            for found in std::mem::take(&mut self.nameless) {
                let uuid = found.ring.identity.uuid;
                self.changes.push_back(FeedChange::Removed(found));
                let mut copies = self.waiting.iter();
                if let Some(copy) = copies.find(|copy| copy.ring.identity.uuid == uuid) {
                    self.changes.push_back(FeedChange::Copy { found: copy.clone(), of: None });
                }
            }
            self.find_due(now);
            if self.is_quiet && self.changes.is_empty() {
                return None;
            }
        }
    }

    /// Notes that a ring was attached to: it is read from now on.
    pub fn attached(&mut self, found: Found) {
        let identity = found.ring.identity;
        self.read.insert(identity.uuid, ReadRing { identity, names: vec![found] });
    }

    /// Notes that attaching to a ring failed. Returns the reason, unless the same reason was returned before, or the file is
    /// gone, which the feed reports.
    pub fn failed(&mut self, found: Found, error: &AttachError) -> Option<NotAttached> {
        match error {
            AttachError::NotFound { .. } | AttachError::Removed { .. } => None,
            AttachError::Bad { .. }
            | AttachError::Corrupt { .. }
            | AttachError::Truncated { .. }
            | AttachError::TooLargeToCopy { .. } => {
                self.put_aside(found.ring.identity);
                Some(NotAttached {
                    why: format!("{error}; the ring is set aside"),
                    is_retried: false,
                })
            }
            error => {
                let why = format!("{error}; it is tried again each second");
                self.retry(found, &why).then_some(NotAttached { why, is_retried: true })
            }
        }
    }

    /// Finds a ring again in a second. Returns whether it waits for another reason than before.
    pub fn retry(&mut self, found: Found, why: &str) -> bool {
        let is_new = why != found.reported;
        let now = Instant::now();
        self.retry_at.get_or_insert(now.checked_add(RETRY).unwrap_or(now));
        self.waiting.push(Found { reported: why.to_owned(), ..found });
        is_new
    }

    /// Finds rings that wait at once.
    pub fn retry_now(&mut self) {
        self.retry_at = self.retry_at.map(|_| Instant::now());
    }

    /// Sets the file of a ring that is read aside, because it is damaged: it is not found again. A copy may be sound.
    pub fn set_aside(&mut self, uuid: [u8; 16]) {
        if let Some(ring) = self.read.get(&uuid) {
            self.put_aside(ring.identity);
        }
    }

    fn put_aside(&mut self, file: Identity) {
        // To try one again is better than unbounded memory.
        if self.aside.len() >= ASIDE_MAX {
            self.aside.clear();
        }
        self.aside.insert(file);
    }

    /// Notes that a ring is not read any more. A copy of it is found next. Its file is found again in a second, if that still
    /// has a name.
    pub fn ended(&mut self, uuid: &[u8; 16]) {
        let is_it = |found: &mut Found| found.ring.identity.uuid == *uuid;
        self.nameless.retain_mut(|found| !is_it(found));
        self.due.extend(self.waiting.extract_if(.., is_it));
        for found in self.read.remove(uuid).into_iter().flat_map(|ring| ring.names) {
            self.retry(found, "");
        }
    }

    /// Asks the places in turn, until one has news. Returns whether one had.
    fn ask_places(&mut self, now: Instant) -> bool {
        if self.look_at.is_none_or(|at| now >= at) {
            self.look_at = Some(now.checked_add(LOOK).unwrap_or(now));
            for place in &mut self.places {
                if let At::Ring(one) = &mut place.at {
                    one.looked = false;
                }
            }
        }
        for _ in 0..self.places.len() {
            self.turn = if self.turn < self.places.len() { self.turn } else { 0 };
            let FeedPlace { id, scanned, at } = &mut self.places[self.turn];
            self.turn += 1;
            let (id, is_new) = (*id, *scanned);
            let (change, location) = match at {
                At::Dir(follower) => {
                    let read = &self.read;
                    let is_read = |file: &Identity| {
                        read.get(&file.uuid).is_some_and(|ring| ring.identity == *file)
                    };
                    (follower.next_beside(&is_read), None)
                }
                At::Ring(one) => (one.next(), Some(one.location.clone())),
            };
            let Some(change) = change else {
                *scanned = true;
                continue;
            };
            self.change(change, id, |ring| {
                let location = location.unwrap_or_else(|| Location::File(ring.path.clone()));
                Found::new(ring, location, id, is_new)
            });
            return true;
        }
        self.turn = 0;
        false
    }

    fn change(&mut self, change: Change, place: PlaceId, found: impl FnOnce(RingEntry) -> Found) {
        match change {
            Change::Appeared(ring) => self.appeared(found(ring)),
            Change::Replaced { before, now } => {
                self.vanished(before, place);
                self.appeared(found(now));
            }
            Change::Vanished(ring) => self.vanished(ring, place),
            Change::Refused(file) => self.changes.push_back(FeedChange::NotRead(place, file)),
            Change::Left(path) => self.changes.push_back(FeedChange::Left(path)),
        }
    }

    fn appeared(&mut self, found: Found) {
        let uuid = found.ring.identity.uuid;
        if self.aside.contains(&found.ring.identity) {
            return;
        }
        let Some(ring) = self.read.get_mut(&uuid) else {
            return self.changes.push_back(FeedChange::Found(found));
        };
        let name = ring.names.first();
        if ring.identity == found.ring.identity {
            if name.is_none() {
                self.nameless.retain(|lost| lost.ring.identity.uuid != uuid);
                self.changes.push_back(FeedChange::Renamed(found.clone()));
            }
            return ring.names.push(found);
        }
        let of = name.map(|name| name.location.clone());
        self.changes.push_back(FeedChange::Copy { found: found.clone(), of });
        self.waiting.push(found);
    }

    fn vanished(&mut self, ring: RingEntry, place: PlaceId) {
        let is_it = |found: &Found| found.place == place && found.ring.path == ring.path;
        self.waiting.retain(|found| !is_it(found));
        self.due.retain(|found| !is_it(found));
        match self.read.get_mut(&ring.identity.uuid) {
            Some(read) if read.names.iter().any(is_it) => {
                self.nameless.extend(read.lose(is_it, &mut self.changes));
            }
            _ => self.changes.push_back(FeedChange::Left(ring.path)),
        }
    }

    /// Finds rings that were not attached to before.
    fn find_due(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            let is_due = |found: &mut Found| !self.read.contains_key(&found.ring.identity.uuid);
            self.due.extend(self.waiting.extract_if(.., is_due));
        }
        // One at a time: once one of two copies is attached to, the other waits.
        if let Some(found) = self.due.pop_front() {
            self.appeared(found);
        }
    }
}

impl ReadRing {
    /// Removes names that its file has no more. Returns the last one.
    fn lose(
        &mut self,
        is_lost: impl Fn(&Found) -> bool,
        changes: &mut VecDeque<FeedChange>,
    ) -> Option<Found> {
        let before = self.names.first().filter(|name| is_lost(name)).cloned();
        self.names.retain(|name| !is_lost(name));
        let Some(now) = self.names.first() else { return before };
        if before.is_some() {
            changes.push_back(FeedChange::Renamed(now.clone()));
        }
        None
    }
}
