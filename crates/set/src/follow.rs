//! Following a directory: the rings in it, and which come and go.

use crate::change::{Change, FollowError};
use crate::dir_watch::{DirNews, DirWatch};
use crate::entry::{self, NoRing, Not, RingEntry};
use crate::not_read::Why;
use crate::paths::{Below, NAMES_MAX, below, in_set, is_hidden};
use perfring_consumer::files::{Identity, RingFile};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file's state when it was inspected. If none of this has changed, the file is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileState {
    dev: u64,
    ino: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileState {
    fn of(meta: &fs::Metadata) -> Self {
        let changed = (meta.ctime(), meta.ctime_nsec());
        FileState { dev: meta.dev(), ino: meta.ino(), size: meta.size(), changed }
    }
}

#[derive(Clone, Debug)]
enum Known {
    Ring(RingEntry),
    /// The reported reason; if it is a second link to a ring, the name that the ring is known by.
    Refused(String, Option<OsString>),
}

/// Follows a directory of rings: reports the rings in it, and then the rings that appear and vanish.
///
/// It opens the regular files of the directory for reading, and the files of the sets of rings per CPU in it (see
/// [`paths`](crate::paths())): no symbolic links, no other subdirectories, no names that begin with a dot. It maps no ring
/// and writes to none. A file is a ring if it has a ring's header. Rings are renamed into place when they are complete, so a
/// half-made ring is never seen. A second link to a ring is refused, so that its records are not read twice. A copy of
/// a ring is also refused. Of the two files, the file with a producer is followed, or else the older file.
///
/// The directory need not exist yet, and may be removed and created again. The follower uses inotify. If
/// inotify is unavailable or overflows, and every 10 s in any case, it reads the directory again.
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
    known: BTreeMap<OsString, (FileState, Known)>,
    /// The name that each ring is known by.
    by_uuid: HashMap<[u8; 16], OsString>,
    /// Names to check.
    pending: VecDeque<OsString>,
    /// New rings without a producer that are not read, by the age of their files. They are checked after all other rings: of a
    /// ring and its copies in the directory, the file with a producer is followed, or else the file that is read, or else the
    /// oldest.
    idle: BTreeSet<(Age, OsString)>,
    /// Reported that the directory has too many names.
    overfull: bool,
}

impl Follower {
    /// Follows this directory from now on: all rings that are there appear first.
    ///
    /// # Errors
    /// [`FollowError`] if this process has no descriptors left. A missing or unreadable directory is no
    /// error: it is checked again later.
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
            idle: BTreeSet::new(),
            overfull: false,
        })
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns whether the directory existed and was readable when it was last checked.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.watch.is_there()
    }

    /// Returns the rings in the directory, as far as they were reported.
    pub fn rings(&self) -> impl Iterator<Item = &RingEntry> {
        self.known.values().filter_map(|(_, known)| match known {
            Known::Ring(ring) => Some(ring),
            Known::Refused(..) => None,
        })
    }

    /// Returns the next change, or `None` if there is no change now. Does not wait. Call it until it returns
    /// `None`, and then again when the descriptor ([`AsFd`]) is readable.
    #[expect(clippy::should_implement_trait, reason = "`None` is not the end")]
    pub fn next(&mut self) -> Option<Change> {
        self.next_beside(&|_| false)
    }

    /// Returns the next change. Of a ring's files in this directory without a producer, the file that is read is followed.
    pub(crate) fn next_beside(&mut self, is_read: IsRead<'_>) -> Option<Change> {
        loop {
            while let Some(name) = self.pending.pop_front() {
                if let Some(change) = self.check(name, CheckIdle::Later, is_read) {
                    return Some(change);
                }
            }
            if let Some((_, name)) = self.idle.pop_first() {
                if let Some(change) = self.check(name, CheckIdle::Now, is_read) {
                    return Some(change);
                }
                continue;
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

    /// Reads the whole directory, and queues new, changed and missing entries.
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
        let there: HashSet<&OsString> = names.iter().collect();
        // The rings of a set are checked with its directory.
        let missing = |name: &&OsString| {
            !there.contains(name)
                && in_set(name).is_none_or(|(set, _)| !there.contains(&set.to_owned()))
        };
        let missing: Vec<OsString> = self.known.keys().filter(missing).cloned().collect();
        drop(there);
        // Missing names first, so that a renamed ring is not taken for a second link.
        self.pending.extend(missing);
        self.pending.extend(names);
        let reported = std::mem::replace(&mut self.overfull, overfull);
        let why = || format!("more than {NAMES_MAX} names: the rest is not followed").into();
        (overfull && !reported)
            .then(|| Change::Refused(NoRing::new(&self.dir, self.dir.clone(), why())))
    }

    /// Checks one name. A new ring without a producer that is not read is reported now, or later.
    fn check(&mut self, name: OsString, idle: CheckIdle, is_read: IsRead<'_>) -> Option<Change> {
        if is_hidden(&name) {
            return None;
        }
        let path = self.dir.join(&name);
        let meta = match self.metadata(&name) {
            Ok(meta) => meta,
            Err(error) => {
                self.queue_set(&name, None);
                return match entry::unknown(&error) {
                    Not::Gone => self.forget(&name),
                    Not::Because(why) => {
                        let before = self.known.get(&name).map(|(_, known)| known.clone());
                        self.refuse(name, path, FileState::default(), before, why, None)
                    }
                };
            }
        };
        let rings = match (meta.is_dir() && in_set(&name).is_none()).then(|| self.set(&name)) {
            Some(Below::Set(rings)) => Some(rings),
            Some(Below::Empty) => Some(Vec::new()),
            Some(Below::No(_)) | None => None,
        };
        self.queue_set(&name, rings.as_deref());
        if rings.is_some() {
            return self.forget(&name);
        }
        let state = FileState::of(&meta);
        let before = match self.known.get(&name) {
            // A refused entry is checked each time: its state may change without a sign.
            Some((then, Known::Ring(_))) if *then == state => return None,
            Some((_, known)) => Some(known.clone()),
            None if self.known.len() >= NAMES_MAX => return None,
            None => None,
        };
        let (now, file) = match entry::inspect(&path, &name) {
            Ok(found) => found,
            // It was removed or replaced between the two checks.
            Err(Not::Gone) => return self.forget(&name),
            Err(Not::Because(why)) => return self.refuse(name, path, state, before, why, None),
        };
        match self.known_as(&name, &now) {
            None if idle == CheckIdle::Later
                && !is_live(&file)
                && !is_read(&now.identity)
                && !matches!(before, Some(Known::Ring(_))) =>
            {
                self.idle.insert(((meta.created().ok(), meta.ino()), name));
                None
            }
            None => self.ring(name, state, before, now),
            // It was renamed to this. Its old name is checked next: if two rings were swapped, the other one
            // has it.
            Some(of) if !self.still_has_its_name(&of) => {
                let vanished = self.forget(&of);
                self.pending.push_front(of);
                self.pending.push_front(name);
                vanished
            }
            // It has the producer, or is read, and the other one is a copy.
            Some(of)
                if (is_live(&file) || is_read(&now.identity) && !self.is_link(&of, &now))
                    && !self.is_live(&of) =>
            {
                let vanished = self.forget(&of);
                self.pending.push_front(of);
                self.pending.push_front(name);
                vanished
            }
            Some(of) => {
                let why = format!(
                    "the same ring as {}, which is read: keep a copy in another directory",
                    of.to_string_lossy()
                );
                self.refuse(name, path, state, before, why.into(), Some(of))
            }
        }
    }

    /// Reads the metadata of an entry. A set is no symbolic link.
    fn metadata(&self, name: &OsStr) -> io::Result<fs::Metadata> {
        if let Some((set, _)) = in_set(name)
            && !fs::symlink_metadata(self.dir.join(set))?.is_dir()
        {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        fs::symlink_metadata(self.dir.join(name))
    }

    /// Reads a directory in the directory, and watches it if it has rings per CPU, or may have some soon.
    fn set(&mut self, name: &OsStr) -> Below {
        let dir = self.dir.join(name);
        if let no @ Below::No(_) = below(&dir) {
            return no;
        }
        // Rings that are made after this are reported, or read now.
        self.watch.watch_set(&self.dir, name);
        below(&dir)
    }

    /// Queues the rings that a set has now, and the rings that it had. An entry that is no set has no rings, and is not
    /// watched.
    fn queue_set(&mut self, name: &OsStr, rings: Option<&[OsString]>) {
        if in_set(name).is_some() {
            return;
        }
        if rings.is_none() {
            self.watch.unwatch_set(name);
        }
        let path = |ring: &OsString| Path::new(name).join(ring).into_os_string();
        let has: HashSet<OsString> = rings.unwrap_or_default().iter().map(path).collect();
        let had = self.known.range(path(&OsString::new())..).map(|(known, _)| known);
        let had = had.take_while(|known| in_set(known).is_some_and(|(set, _)| set == name));
        let gone: Vec<OsString> = had.filter(|known| !has.contains(*known)).cloned().collect();
        self.pending.extend(gone);
        self.pending.extend(has);
    }

    /// Returns the name that this ring is known by, if that is another.
    fn known_as(&self, name: &OsStr, ring: &RingEntry) -> Option<OsString> {
        self.by_uuid.get(&ring.identity.uuid).filter(|other| *other != name).cloned()
    }

    /// Returns whether the ring with this name has a producer.
    fn is_live(&self, name: &OsStr) -> bool {
        RingFile::inspect(self.dir.join(name)).is_ok_and(|file| is_live(&file))
    }

    /// Returns whether the file with this name is the same file as this ring's.
    fn is_link(&self, name: &OsStr, ring: &RingEntry) -> bool {
        let known = self.known.get(name).map(|(_, known)| known);
        matches!(known, Some(Known::Ring(known)) if known.identity == ring.identity)
    }

    fn still_has_its_name(&self, name: &OsStr) -> bool {
        let Some((state, _)) = self.known.get(name) else { return false };
        let now = fs::symlink_metadata(self.dir.join(name));
        now.is_ok_and(|meta| (meta.dev(), meta.ino()) == (state.dev, state.ino))
    }

    fn ring(
        &mut self,
        name: OsString,
        state: FileState,
        before: Option<Known>,
        now: RingEntry,
    ) -> Option<Change> {
        let uuid = now.identity.uuid;
        self.known.insert(name.clone(), (state, Known::Ring(now.clone())));
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
        state: FileState,
        before: Option<Known>,
        why: Why,
        of: Option<OsString>,
    ) -> Option<Change> {
        self.known.insert(name.clone(), (state, Known::Refused(why.sentence.clone(), of)));
        match before {
            Some(Known::Refused(reported, _)) if reported == why.sentence => None,
            Some(Known::Ring(before)) => {
                self.unlist(&name, &before);
                // Both are reported: the refusal when the name is checked again.
                self.known.remove(&name);
                self.pending.push_front(name);
                Some(Change::Vanished(before))
            }
            _ => Some(Change::Refused(NoRing::new(&self.dir, path, why))),
        }
    }

    fn forget(&mut self, name: &OsStr) -> Option<Change> {
        match self.known.remove(name)?.1 {
            Known::Ring(ring) => {
                self.unlist(name, &ring);
                Some(Change::Vanished(ring))
            }
            Known::Refused(..) => Some(Change::Left(self.dir.join(name))),
        }
    }

    /// Handles that a ring lost this name: a link that was refused may be its only name now.
    fn unlist(&mut self, name: &OsStr, ring: &RingEntry) {
        self.by_uuid.remove(&ring.identity.uuid);
        let is_copy = |known: &Known| matches!(known, Known::Refused(_, Some(of)) if of == name);
        let copies = self.known.iter().filter(|(_, (_, known))| is_copy(known));
        let copies: Vec<OsString> = copies.map(|(copy, _)| copy.clone()).collect();
        copies.iter().for_each(|copy| drop(self.known.remove(copy)));
        self.pending.extend(copies);
    }
}

/// Says of a file whether it is read.
type IsRead<'a> = &'a dyn Fn(&Identity) -> bool;

/// The time when a file was made, and its inode: older kernels lack the time on a tmpfs, whose inodes are numbered in order.
type Age = (Option<SystemTime>, u64);

/// Whether a new ring without a producer is reported now, or after all others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckIdle {
    Later,
    Now,
}

/// Returns whether a ring has a producer, as far as that can be known.
fn is_live(file: &RingFile) -> bool {
    file.has_producer().unwrap_or(false)
}

/// Readable when [`Follower::next`] may return a change.
impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
