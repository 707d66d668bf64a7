//! Following a directory: which rings there are, and which come and go.

use crate::dir_watch::{DirNews, DirWatch};
use crate::entry::{self, NoRing, Not, RingEntry, is_hidden};
use perfring_consumer::ClockError;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Names in a directory beyond which it is not looked at any more.
const NAMES_MAX: usize = 100_000;
/// What has changed in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A ring is there, ready to be attached to.
    Appeared(RingEntry),
    /// Another ring has this name now.
    Replaced {
        /// The one that had it. Whoever is attached to it still has it, and can read it to its end.
        before: RingEntry,
        /// The one that has it.
        now: RingEntry,
    },
    /// A ring has no name any more. Whoever is attached to it still has it, and can read it to its
    /// end.
    Vanished(RingEntry),
    /// Something there is not followed. Told once, and again if it is refused for another reason.
    /// The directory itself if there are too many names in it.
    Refused(NoRing),
}

/// Why a directory cannot be followed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The kernel has no descriptor to be had.
    #[error("cannot follow {}: {step}: {source}", .dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The clock of the timestamps is unknown here, so that nothing can be merged by time.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

/// What a file was when it was looked at: if none of this has changed, it is the same still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        let changed = (meta.ctime(), meta.ctime_nsec());
        Stamp { dev: meta.dev(), ino: meta.ino(), size: meta.size(), changed }
    }
}

#[derive(Clone, Debug)]
enum Known {
    Ring(RingEntry),
    /// What is told of it; the name that its ring is known by, if it is a copy.
    Refused(String, Option<OsString>),
}

/// Follows a directory of rings: tells which there are, and from then on which come and go.
///
/// It opens regular files of the directory itself, to read: no symbolic links, nothing in
/// directories below, no names that begin with a dot. It maps nothing and leaves no trace. A file is
/// a ring when its header says so; rings are renamed into place when they are ready, so half of one
/// is not seen. A name that stands for the same ring as another is refused: its records are not to be read
/// twice.
///
/// The directory need not be there yet, and may go and come again. The kernel tells what changes
/// (inotify), and where it cannot, or has too much to tell, the directory is read again; also every
/// 10 s to be sure.
///
/// ```
/// use perfring_set::{Change, Follower, RingSet};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("rings");
/// let set = RingSet::open(&dir)?;
/// let mut follower = Follower::new(&dir)?;
/// assert_eq!(follower.next(), None);
/// let producer = set.producer("one")?;
/// let Some(Change::Appeared(ring)) = follower.next() else { panic!("nothing is there") };
/// assert_eq!(ring.name, "one");
/// std::fs::remove_file(ring.path)?;
/// assert!(matches!(follower.next(), Some(Change::Vanished(ring)) if ring.name == "one"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    watch: DirWatch,
    known: BTreeMap<OsString, (Stamp, Known)>,
    /// Which name each ring is known by.
    by_uuid: HashMap<[u8; 16], OsString>,
    /// Names to look at.
    pending: VecDeque<OsString>,
    /// Told that the directory has too many names.
    overfull: bool,
}

impl Follower {
    /// Follows this directory from now on: all rings that are there appear first.
    ///
    /// # Errors
    /// [`FollowError`] if this process has no descriptors left. A directory that is missing, or may
    /// not be read, is none: it is looked for.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Self, FollowError> {
        let dir = dir.into();
        let watch = DirWatch::new().map_err(|(step, errno)| FollowError::Io {
            dir: dir.clone(),
            step,
            source: errno.into(),
        })?;
        Ok(Follower {
            dir,
            watch,
            known: BTreeMap::new(),
            by_uuid: HashMap::new(),
            pending: VecDeque::new(),
            overfull: false,
        })
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the directory was there and could be read when it was last looked at.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.watch.is_there()
    }

    /// The rings that are there, as far as was told.
    pub fn rings(&self) -> impl Iterator<Item = &RingEntry> {
        self.known.values().filter_map(|(_, known)| match known {
            Known::Ring(ring) => Some(ring),
            Known::Refused(..) => None,
        })
    }

    /// The next change, or `None` if there is none now. Does not wait. Call it until `None`, and
    /// then again when the descriptor ([`AsFd`]) is readable.
    #[expect(clippy::should_implement_trait, reason = "`None` is not the end")]
    pub fn next(&mut self) -> Option<Change> {
        loop {
            while let Some(name) = self.pending.pop_front() {
                if let Some(change) = self.check(name) {
                    return Some(change);
                }
            }
            match self.watch.next() {
                DirNews::Nothing => {
                    if self.known.is_empty() {
                        self.watch.is_empty();
                    }
                    return None;
                }
                DirNews::Names(names) => self.pending.extend(names),
                DirNews::Anything => {
                    if let Some(change) = self.rescan() {
                        return Some(change);
                    }
                }
            }
        }
    }

    /// Reads the whole directory: what is new, has changed or is gone is to be looked at.
    fn rescan(&mut self) -> Option<Change> {
        self.watch.begin(&self.dir);
        let mut names: Vec<OsString> = Vec::new();
        let mut overfull = false;
        if let Ok(entries) = fs::read_dir(&self.dir) {
            for entry in entries.flatten() {
                let name = entry.file_name();
                if is_hidden(&name) {
                    continue;
                }
                overfull = names.len() == NAMES_MAX;
                if overfull {
                    break;
                }
                names.push(name);
            }
        }
        let there: std::collections::HashSet<&OsString> = names.iter().collect();
        let gone: Vec<OsString> =
            self.known.keys().filter(|name| !there.contains(name)).cloned().collect();
        drop(there);
        // What is gone first, so that a ring that was renamed is not taken for a copy.
        self.pending.extend(gone);
        self.pending.extend(names);
        let reported = std::mem::replace(&mut self.overfull, overfull);
        (overfull && !reported).then(|| {
            let why = format!("more than {NAMES_MAX} names: the rest is not looked at");
            Change::Refused(NoRing { path: self.dir.clone(), why })
        })
    }

    /// Looks at one name.
    fn check(&mut self, name: OsString) -> Option<Change> {
        if is_hidden(&name) {
            return None;
        }
        let path = self.dir.join(&name);
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(_) => return self.forget(&name),
        };
        let stamp = Stamp::of(&meta);
        let before = match self.known.get(&name) {
            // What was refused is looked at each time: it need not show that it has changed.
            Some((then, Known::Ring(_))) if *then == stamp => return None,
            Some((_, known)) => Some(known.clone()),
            None if self.known.len() >= NAMES_MAX => return None,
            None => None,
        };
        let now = match entry::inspect(&path, &meta) {
            Ok((now, _)) => now,
            // It went, or went and came, between the two looks.
            Err(Not::Gone) => return self.forget(&name),
            Err(Not::Because(why)) => return self.refuse(name, path, stamp, before, why, None),
        };
        match self.known_as(&name, &now) {
            None => self.ring(name, stamp, before, now),
            // It has just been renamed to this. What has its old name is looked at next: another may
            // have it, of two that were swapped.
            Some(of) if !self.still_has_its_name(&of) => {
                let vanished = self.forget(&of);
                self.pending.push_front(of);
                self.pending.push_front(name);
                vanished
            }
            Some(of) => {
                let why = format!(
                    "the same ring as {}: its records are not read twice",
                    of.to_string_lossy()
                );
                self.refuse(name, path, stamp, before, why, Some(of))
            }
        }
    }

    /// The name that this ring is known by, if it is another.
    fn known_as(&self, name: &OsStr, ring: &RingEntry) -> Option<OsString> {
        self.by_uuid.get(&ring.identity.uuid).filter(|other| *other != name).cloned()
    }

    fn still_has_its_name(&self, name: &OsStr) -> bool {
        let Some((stamp, _)) = self.known.get(name) else { return false };
        let now = fs::symlink_metadata(self.dir.join(name));
        now.is_ok_and(|meta| (meta.dev(), meta.ino()) == (stamp.dev, stamp.ino))
    }

    fn ring(
        &mut self,
        name: OsString,
        stamp: Stamp,
        before: Option<Known>,
        now: RingEntry,
    ) -> Option<Change> {
        let uuid = now.identity.uuid;
        self.known.insert(name.clone(), (stamp, Known::Ring(now.clone())));
        let change = match before {
            Some(Known::Ring(before)) if before.identity == now.identity => return None,
            Some(Known::Ring(before)) => {
                self.unlist(&name, &before);
                Change::Replaced { before, now }
            }
            _ => Change::Appeared(now),
        };
        self.by_uuid.insert(uuid, name);
        Some(change)
    }

    fn refuse(
        &mut self,
        name: OsString,
        path: PathBuf,
        stamp: Stamp,
        before: Option<Known>,
        why: String,
        of: Option<OsString>,
    ) -> Option<Change> {
        self.known.insert(name.clone(), (stamp, Known::Refused(why.clone(), of)));
        match before {
            Some(Known::Refused(reported, _)) if reported == why => None,
            Some(Known::Ring(before)) => {
                self.unlist(&name, &before);
                // Both are to be told: the second when it is looked at again.
                self.known.remove(&name);
                self.pending.push_front(name);
                Some(Change::Vanished(before))
            }
            _ => Some(Change::Refused(NoRing { path, why })),
        }
    }

    fn forget(&mut self, name: &OsStr) -> Option<Change> {
        match self.known.remove(name)?.1 {
            Known::Ring(ring) => {
                self.unlist(name, &ring);
                Some(Change::Vanished(ring))
            }
            Known::Refused(..) => None,
        }
    }

    /// A ring has lost this name; what was refused as a copy of it may be all that there is now.
    fn unlist(&mut self, name: &OsStr, ring: &RingEntry) {
        self.by_uuid.remove(&ring.identity.uuid);
        let copies = self.known.iter().filter_map(|(its, (_, known))| match known {
            Known::Refused(_, Some(of)) if of == name => Some(its.clone()),
            _ => None,
        });
        let copies: Vec<OsString> = copies.collect();
        for copy in copies {
            self.known.remove(&copy);
            self.pending.push_back(copy);
        }
    }
}

/// Readable when [`Follower::next`] may have something to tell.
impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
