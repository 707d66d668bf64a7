//! The rings of a directory in the order of time, while they come and go.

use crate::change::FollowError;
use crate::dir::RingSet;
use crate::dir_item::{DirEvent, DirItem};
use crate::entry::{NoRing, RingEntry};
use crate::feed::Feed;
use crate::feed_change::{FeedChange, Found};
use crate::follow_options::{FollowOptions, OpenedRing};
use crate::merge::{Merge, MergeFigures};
use crate::merged::SourceId;
use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest time between two polls of the directory while the caller waits.
const FOLLOW: Duration = Duration::from_millis(20);
/// Changes of the directory that are handled in one go: attaching takes time, too.
const CHANGES: usize = 64;
/// The clock is read once in so many items.
const ITEMS: u32 = 256;

/// The items of all rings of a directory in the order of time; made by [`Merge::follow`].
///
/// It follows the directory: a ring is read from its appearance until it is read to its
/// end and its file is removed. Nothing is released before [`DirMerge::acknowledge`], which releases
/// all records that were read before the call. If the process dies before, the next consumer reads them again. Therefore a
/// drop ring must hold all unacknowledged records.
///
/// A new ring is attached to within some 20 ms. Its records that are older than returned records
/// are late: see [`DirItem::late`].
///
/// The example prints the wall-clock time, the ring's name, the type and the decoded fields of each
/// record:
///
/// ```
/// use perfring_set::{DirEvent, Merge, RingSet};
/// use std::time::Duration;
/// # use perfring_producer::types::{Encoding, Field, Kind, Schema, Shape};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("rings");
/// # let fields = [Field::new("price", 0, Shape::plain(Kind::F64, 8)), Field::new("count", 8, Shape::plain(Kind::U64, 8))];
/// # let tick = Schema::new("Tick", Encoding::Pod).with_fields(16, &fields).with_hashed_id();
/// # let set = RingSet::open(&dir)?;
/// # let (mut one, mut two) = (set.producer("one")?, set.producer("two")?);
/// # one.register(&tick)?;
/// # two.register(&tick)?;
/// # for n in 1..=2u64 {
/// #     let bytes = [(0.5 * n as f64).to_ne_bytes(), n.to_ne_bytes()].concat();
/// #     one.publish_as(tick.id, &bytes)?;
/// #     two.publish_as(tick.id, &bytes)?;
/// # }
/// # drop((one, two));
/// # let mut lines = Vec::new();
/// let mut merge = Merge::follow(&dir)?;
/// while merge.wait(Duration::from_millis(200)) { // ends when nothing came for so long; a service: `Duration::MAX`
///     while let Some(item) = merge.read() {
///         match item.event {
///             DirEvent::Record(_) => {
///                 let wall = item.wall().unwrap_or_default();
///                 let (seconds, ns) = (wall / 1_000_000_000, wall % 1_000_000_000);
///                 let name = item.record_type().map_or("?", |kind| &kind.name);
///                 let Some(fields) = item.decode().transpose()? else { continue };
///                 println!("{seconds}.{ns:09} {} {name} {fields}", item.ring);
/// #               lines.push(format!("{} {name} {fields}", item.ring));
/// #               assert!(seconds > 1_600_000_000);
///             }
///             DirEvent::Lost(_) | DirEvent::Failed { .. } => eprintln!("{item}"),
///             _ => println!("{item}"),
///         }
///     }
///     merge.acknowledge(); // all of it was handled: the rings have room again
/// }
/// # assert_eq!(lines, ["one Tick price=0.5 count=1", "two Tick price=0.5 count=1",
/// #     "one Tick price=1.0 count=2", "two Tick price=1.0 count=2"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A record of a type that the program knows is read without decoding, by
/// [`RecordRef::as_pod`](perfring_consumer::RecordRef::as_pod).
pub struct DirMerge {
    merge: Merge,
    dir: PathBuf,
    feed: Feed,
    options: FollowOptions,
    /// Of the merge's sources, by their slots.
    rings: Vec<Option<MergedRing>>,
    /// Sources of which something was read that is not acknowledged.
    unacknowledged: Vec<SourceId>,
    news: VecDeque<News>,
    /// The news that were returned last.
    shown: Option<News>,
    /// Items until the clock is read.
    items: u32,
    follow_at: Instant,
}

struct MergedRing {
    id: SourceId,
    name: String,
    path: PathBuf,
    uuid: [u8; 16],
    observed: bool,
    /// It is in `unacknowledged`.
    unacknowledged: bool,
    /// Its file is removed.
    removed: bool,
    /// Its end was reported.
    ended: bool,
}

/// An event of a ring. `why`: the reason why it is not read.
struct News {
    name: String,
    path: PathBuf,
    uuid: [u8; 16],
    why: Option<(String, bool)>,
}

impl fmt::Debug for DirMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rings: Vec<&str> = self.rings().collect();
        f.debug_struct("DirMerge").field("dir", &self.dir()).field("rings", &rings).finish()
    }
}

impl Merge {
    /// Merges all rings of a directory, which need not be there yet: see [`DirMerge`].
    ///
    /// # Errors
    /// See [`FollowError`].
    pub fn follow(dir: impl Into<PathBuf>) -> Result<DirMerge, FollowError> {
        Self::follow_with(dir, &FollowOptions::default())
    }

    /// Merges all rings of a directory with these options.
    ///
    /// ```
    /// use perfring_set::{FollowOptions, Merge, ReadMode};
    /// # let dir = tempfile::tempdir()?;
    /// let mut options = FollowOptions::default();
    /// options.mode = ReadMode::Observe; // takes nothing from the rings' consumers
    /// let merge = Merge::follow_with(dir.path(), &options)?;
    /// # assert_eq!(merge.rings().count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`FollowError`].
    pub fn follow_with(
        dir: impl Into<PathBuf>,
        options: &FollowOptions,
    ) -> Result<DirMerge, FollowError> {
        let (merge, dir) = (Merge::new(options.delay)?, dir.into());
        let mut feed = Feed::default();
        feed.add_dir(&dir)?;
        Ok(DirMerge {
            merge,
            dir,
            feed,
            options: options.clone(),
            rings: Vec::new(),
            unacknowledged: Vec::new(),
            news: VecDeque::new(),
            shown: None,
            items: 0,
            follow_at: Instant::now(),
        })
    }
}

impl RingSet {
    /// Merges the set's rings: [`Merge::follow`] of its directory.
    ///
    /// # Errors
    /// See [`FollowError`].
    pub fn merge(&self) -> Result<DirMerge, FollowError> {
        Merge::follow(self.dir())
    }
}

impl DirMerge {
    /// Returns the next item that is due, or `None` if no item is due now: then call
    /// [`DirMerge::wait`]. Does not wait. Releases nothing: call [`DirMerge::acknowledge`].
    #[inline]
    pub fn read(&mut self) -> Option<DirItem<'_>> {
        match self.items.checked_sub(1) {
            Some(items) => self.items = items,
            None => self.follow_if_due(),
        }
        if !self.news.is_empty() {
            self.shown = self.news.pop_front();
            return self.shown.as_ref().map(News::item);
        }
        match self.merge.next() {
            Ok(Some(merged)) => {
                let ring = self.rings.get_mut(merged.source.slot as usize)?.as_mut()?;
                if !std::mem::replace(&mut ring.unacknowledged, true) {
                    self.unacknowledged.push(merged.source);
                }
                Some(DirItem::of_source(&ring.name, &ring.path, merged))
            }
            Ok(None) => {
                self.items = 0;
                None
            }
            Err((id, error)) => {
                let ring = self.rings.get_mut(id.slot as usize)?.as_mut()?;
                ring.ended = true;
                self.feed.set_aside(ring.uuid);
                let why = (format!("{error}; the ring is set aside"), false);
                let (name, path) = (ring.name.clone(), ring.path.clone());
                self.shown = Some(News { name, path, uuid: ring.uuid, why: Some(why) });
                self.shown.as_ref().map(News::item)
            }
        }
    }

    /// Releases all that was read so far, in all rings. Rings that ended are detached.
    pub fn acknowledge(&mut self) {
        for id in std::mem::take(&mut self.unacknowledged) {
            if let Some(resume_point) = self.merge.resume_point(id) {
                self.merge.release(id, &resume_point);
            }
            if let Some(Some(ring)) = self.rings.get_mut(id.slot as usize) {
                ring.unacknowledged = false;
            }
        }
        self.detach_ended();
    }

    /// Sleeps until there may be something to read, for at most `timeout`. Returns whether there is.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let since = Instant::now();
        loop {
            self.follow_if_due();
            if !self.news.is_empty() {
                return true;
            }
            let left = timeout.saturating_sub(since.elapsed());
            if self.merge.wait(left.min(FOLLOW)) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    /// Returns whether the next [`DirMerge::wait`] checks the directory, and may attach to rings. For callers
    /// that hold a lock meanwhile.
    #[must_use]
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.follow_at
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the names of the rings that are read now.
    pub fn rings(&self) -> impl Iterator<Item = &str> {
        self.rings.iter().flatten().filter(|ring| !ring.ended).map(|ring| &*ring.name)
    }

    /// Returns the counters of the merge.
    #[must_use]
    pub fn figures(&self) -> MergeFigures {
        self.merge.figures()
    }

    fn follow_if_due(&mut self) {
        self.items = ITEMS;
        let now = Instant::now();
        if now >= self.follow_at {
            self.follow(now);
        }
    }

    /// Handles the changes of the directory since the last call.
    #[cold]
    fn follow(&mut self, now: Instant) {
        self.detach_ended();
        for _ in 0..CHANGES {
            let Some(change) = self.feed.next(now) else { break };
            match change {
                FeedChange::Found(found) => self.attach(found),
                FeedChange::Renamed(Found { ring, .. }) => {
                    if let Some(known) = self.ring(ring.identity.uuid) {
                        (known.removed, known.name, known.path) = (false, ring.name, ring.path);
                    }
                }
                FeedChange::Removed(Found { ring, .. }) => {
                    if let Some(known) = self.ring(ring.identity.uuid) {
                        known.removed = true;
                    }
                }
                FeedChange::NotRead(_, file) => self.not_read(file, false),
                FeedChange::Copy { found, of } => self.not_read(found.not_read(of.as_ref()), true),
                FeedChange::Left(_) => {}
            }
        }
        for slot in 0..self.rings.len() {
            self.end(slot);
        }
        let now = Instant::now();
        self.follow_at = now.checked_add(FOLLOW).unwrap_or(now);
    }

    fn not_read(&mut self, file: NoRing, retried: bool) {
        let NoRing { name, path, why, .. } = file;
        self.news.push_back(News { name, path, uuid: [0; 16], why: Some((why, retried)) });
    }

    fn ring(&mut self, uuid: [u8; 16]) -> Option<&mut MergedRing> {
        self.rings.iter_mut().flatten().find(|ring| ring.uuid == uuid && !ring.ended)
    }

    fn attach(&mut self, found: Found) {
        let RingEntry { name, path, identity, .. } = found.ring.clone();
        let uuid = identity.uuid;
        match self.options.open(&found.ring, found.is_new) {
            Ok(Some(OpenedRing { source, observed })) => {
                self.feed.attached(found);
                let id = self.merge.add_described(source);
                let slot = id.slot as usize;
                let (unacknowledged, removed, ended) = (false, false, false);
                self.rings.resize_with(self.rings.len().max(slot + 1), || None);
                let ring =
                    MergedRing { id, name, path, uuid, observed, unacknowledged, removed, ended };
                self.rings[slot] = Some(ring);
            }
            // The feed reports the ring that has the name now.
            Ok(None) => {}
            Err(error) => {
                if let Some(failed) = self.feed.failed(found, &error) {
                    let why = Some((failed.why, failed.is_retried));
                    self.news.push_back(News { name, path, uuid, why });
                }
            }
        }
    }

    /// Reports the end of a ring whose file is removed, that has no producer, and is read to its end.
    fn end(&mut self, slot: usize) {
        let Some(Some(ring)) = self.rings.get_mut(slot) else { return };
        let (id, merge) = (ring.id, &mut self.merge);
        // In this order: after the producer is found detached, all its records are seen.
        if !ring.removed
            || ring.ended
            || merge.source(id).is_some_and(|source| source.has_producer())
            || !merge.is_drained(id)
        {
            return;
        }
        ring.ended = true;
        let (name, path) = (ring.name.clone(), ring.path.clone());
        self.news.push_back(News { name, path, uuid: ring.uuid, why: None });
    }

    /// Detaches from rings that ended, once nothing of them is to be released.
    fn detach_ended(&mut self) {
        for slot in &mut self.rings {
            if let Some(ring) = slot
                && ring.ended
                && (ring.observed || !ring.unacknowledged)
            {
                self.merge.remove(ring.id);
                self.feed.ended(&ring.uuid);
                *slot = None;
            }
        }
    }
}

impl News {
    fn item(&self) -> DirItem<'_> {
        let event = match &self.why {
            Some((why, retried)) => DirEvent::Failed { why, retried: *retried },
            None => DirEvent::Gone { uuid: self.uuid },
        };
        DirItem::news(&self.name, &self.path, event)
    }
}
