//! Change notification for a directory, by inotify and a timer.

use crate::paths::is_hidden;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use perfring_consumer::files::is_in_set;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The interval of full scans while inotify works: it does not report everything on every file system.
const SELDOM: Duration = Duration::from_secs(10);
/// The interval of full scans without inotify, or without a directory.
const OFTEN: Duration = Duration::from_millis(250);

/// The watched events of a directory.
const WHAT: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ATTRIB) // a mode that lets it be read
    .union(AddWatchFlags::IN_CLOSE_WRITE) // a copy that is finished
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// The possible changes.
pub(crate) enum DirNews {
    Nothing,
    /// Entries of these names, also in the directories in it: `requests/cpu3`.
    Names(Vec<OsString>),
    /// Unknown: the whole directory must be read.
    Anything,
}

/// A descriptor that is readable when something may have changed.
#[derive(Debug)]
pub(crate) struct DirWatch {
    epoll: Epoll,
    /// `None` if no inotify instance is left: then the timer alone serves.
    inotify: Option<Inotify>,
    timer: TimerFd,
    watched: Option<Watched>,
    /// The directories in it that have rings per CPU, or no files yet, by their names.
    sets: HashMap<WatchDescriptor, OsString>,
    there: bool,
    /// The whole directory must be read, and no descriptor says so.
    stale: bool,
    /// The timer's last setting.
    due_in: Duration,
}

#[derive(Debug)]
struct Watched {
    watch: WatchDescriptor,
    /// `st_dev` and `st_ino` of the directory.
    directory: (u64, u64),
}

impl DirWatch {
    pub(crate) fn new() -> Result<Self, (&'static str, Errno)> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| ("making an epoll descriptor", errno))?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)
            .map_err(|errno| ("making a timer", errno))?;
        let readable = || EpollEvent::new(EpollFlags::EPOLLIN, 0);
        epoll.add(&timer, readable()).map_err(|errno| ("polling a timer", errno))?;
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        if let Some(inotify) = &inotify {
            epoll.add(inotify, readable()).map_err(|errno| ("polling inotify", errno))?;
        }
        let mut this = DirWatch {
            epoll,
            inotify,
            timer,
            watched: None,
            sets: HashMap::new(),
            there: false,
            stale: true,
            due_in: Duration::ZERO,
        };
        // The descriptor is readable at once, for callers that poll it first.
        this.rescan_in(Duration::from_nanos(1));
        Ok(this)
    }

    pub(crate) fn is_there(&self) -> bool {
        self.there
    }

    /// Returns the possible changes since the last call.
    pub(crate) fn next(&mut self) -> DirNews {
        if self.stale || self.timer_is_due() {
            return DirNews::Anything;
        }
        let Some(inotify) = &self.inotify else { return DirNews::Nothing };
        let events = match inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN | Errno::EINTR) => return DirNews::Nothing,
            Err(_) => {
                // The timer alone serves from now on.
                (self.inotify, self.watched) = (None, None);
                self.sets.clear();
                return DirNews::Anything;
            }
        };
        let mut names = Vec::with_capacity(events.len());
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                return DirNews::Anything;
            }
            if let Some(set) = self.sets.get(&event.wd) {
                match event.name {
                    Some(name) if is_hidden(&name) => {}
                    Some(name) if is_in_set(&name) => {
                        names.push(Path::new(set).join(name).into_os_string());
                    }
                    _ => names.push(set.clone()),
                }
                if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    self.sets.remove(&event.wd);
                }
                continue;
            }
            if self.watched.as_ref().is_none_or(|watched| watched.watch != event.wd) {
                continue; // of a directory that is not followed any more
            }
            if let Some(name) = event.name {
                names.push(name);
                continue;
            }
            // It is the directory itself. Another one in its place may get the same inode number.
            if event.mask.intersects(
                AddWatchFlags::IN_DELETE_SELF
                    | AddWatchFlags::IN_IGNORED
                    | AddWatchFlags::IN_UNMOUNT,
            ) {
                self.watched = None;
            }
            return DirNews::Anything;
        }
        DirNews::Names(names)
    }

    /// Call this before the whole directory is read: from then on changes are reported. Without inotify, the
    /// next scan is due sooner.
    pub(crate) fn begin(&mut self, dir: &Path) {
        self.stale = false;
        let is = is_there(dir);
        self.there = is.is_some();
        if self.watched.as_ref().map(|it| it.directory) != is {
            self.watch(dir, is);
        }
        self.rescan_in(if self.watched.is_some() { SELDOM } else { OFTEN });
    }

    /// Call this if the directory is empty: it can be removed, and inotify does not report the removal as long as
    /// a process has a removed file of the directory open, like producers do.
    pub(crate) fn is_empty(&mut self) {
        if self.due_in > OFTEN {
            self.rescan_in(OFTEN);
        }
    }

    /// Watches the directory of this name in the directory, too. Without a watch, the whole directory is read often.
    pub(crate) fn watch_set(&mut self, dir: &Path, name: &OsStr) {
        let what = WHAT | AddWatchFlags::IN_DONT_FOLLOW;
        let watch = (self.inotify.as_ref())
            .and_then(|inotify| inotify.add_watch(&dir.join(name), what).ok());
        match watch {
            // The directory itself, which is mounted in itself.
            Some(watch) if self.watched.as_ref().is_some_and(|it| it.watch == watch) => {}
            // A directory that was renamed has the watch of its old name.
            Some(watch) => drop(self.sets.insert(watch, name.to_owned())),
            None if self.due_in > OFTEN => self.rescan_in(OFTEN),
            None => {}
        }
    }

    /// Ends the watch of the directory of this name in the directory.
    pub(crate) fn unwatch_set(&mut self, name: &OsStr) {
        let watches: Vec<_> = self.sets.extract_if(|_, its| its == name).collect();
        for (watch, _) in watches {
            if let Some(inotify) = &self.inotify {
                // It fails if the directory was removed, which removed the watch.
                let _ = inotify.rm_watch(watch);
            }
        }
    }

    fn watch(&mut self, dir: &Path, is: Option<(u64, u64)>) {
        let Some(inotify) = &self.inotify else { return };
        if let Some(watched) = self.watched.take() {
            // It fails if the directory was removed, which removed the watch.
            let _ = inotify.rm_watch(watched.watch);
        }
        // Of the directory that was here before.
        for (set, _) in self.sets.drain() {
            let _ = inotify.rm_watch(set);
        }
        let Some(directory) = is else { return };
        let Ok(watch) = inotify.add_watch(dir, WHAT) else { return };
        if is_there(dir) == Some(directory) {
            self.watched = Some(Watched { watch, directory });
        } else {
            // Another directory may have taken its place: that is watched after the next scan.
            let _ = inotify.rm_watch(watch);
        }
    }

    fn timer_is_due(&self) -> bool {
        // It does not block: an error means that the timer is not due.
        self.timer.wait().is_ok()
    }

    fn rescan_in(&mut self, time: Duration) {
        let once = Expiration::OneShot(TimeSpec::from_duration(time));
        self.due_in = time;
        // It fails only for invalid times.
        let _ = self.timer.set(once, TimerSetTimeFlags::empty());
    }
}

impl AsFd for DirWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// Returns the device and inode of the directory at this path.
fn is_there(dir: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(dir).ok().filter(std::fs::Metadata::is_dir)?;
    Some((meta.dev(), meta.ino()))
}
