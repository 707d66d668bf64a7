//! What the kernel tells of a directory, and when to look without being told.

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How often everything is looked at although the kernel tells what changes: it does not on every
/// file system.
const SELDOM: Duration = Duration::from_secs(10);
/// The same where the kernel cannot be asked, or there is nothing that it could tell of.
const OFTEN: Duration = Duration::from_millis(250);

/// What may have changed.
pub(crate) enum DirNews {
    Nothing,
    /// Files of these names.
    Names(Vec<OsString>),
    /// The kernel cannot say, or was not asked: everything is to be looked at.
    Anything,
}

/// A descriptor that is readable when there is something to look at.
#[derive(Debug)]
pub(crate) struct DirWatch {
    epoll: Epoll,
    /// `None`: the kernel grants no more of them; the timer does.
    inotify: Option<Inotify>,
    timer: TimerFd,
    watched: Option<Watched>,
    there: bool,
    /// Everything is to be looked at, and no descriptor says so.
    stale: bool,
    /// What the timer was last set to.
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
            there: false,
            stale: true,
            due_in: Duration::ZERO,
        };
        // Whoever polls before asking is told at once that there is something to look at.
        this.look_again_in(Duration::from_nanos(1));
        Ok(this)
    }

    pub(crate) fn is_there(&self) -> bool {
        self.there
    }

    /// What may have changed since the last call.
    pub(crate) fn next(&mut self) -> DirNews {
        if self.stale || self.timer_is_due() {
            return DirNews::Anything;
        }
        let Some(inotify) = &self.inotify else { return DirNews::Nothing };
        let events = match inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN | Errno::EINTR) => return DirNews::Nothing,
            Err(_) => {
                // Then the timer alone.
                (self.inotify, self.watched) = (None, None);
                return DirNews::Anything;
            }
        };
        let mut names = Vec::with_capacity(events.len());
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                return DirNews::Anything;
            }
            if self.watched.as_ref().is_none_or(|watched| watched.watch != event.wd) {
                continue; // of a directory that is not followed any more
            }
            if let Some(name) = event.name {
                names.push(name);
                continue;
            }
            // It is the directory itself. One that is made in its place may get the same number.
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

    /// To be called before the whole directory is read: from then on changes are told, and if none
    /// can be, the next look is due sooner.
    pub(crate) fn begin(&mut self, dir: &Path) {
        self.stale = false;
        let is = is_there(dir);
        self.there = is.is_some();
        if self.watched.as_ref().map(|it| it.directory) != is {
            self.watch(dir, is);
        }
        self.look_again_in(if self.watched.is_some() { SELDOM } else { OFTEN });
    }

    /// Nothing is there. An empty directory can be removed, and of that the kernel tells nothing for
    /// as long as somebody has a file open that was in it, as producers have.
    pub(crate) fn is_empty(&mut self) {
        if self.due_in > OFTEN {
            self.look_again_in(OFTEN);
        }
    }

    fn watch(&mut self, dir: &Path, is: Option<(u64, u64)>) {
        let Some(inotify) = &self.inotify else { return };
        if let Some(watched) = self.watched.take() {
            // The kernel has done that already if the directory was removed.
            let _ = inotify.rm_watch(watched.watch);
        }
        let Some(directory) = is else { return };
        let what = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ATTRIB // a mode that lets it be read
            | AddWatchFlags::IN_CLOSE_WRITE // a copy that is finished
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let Ok(watch) = inotify.add_watch(dir, what) else { return };
        if is_there(dir) == Some(directory) {
            self.watched = Some(Watched { watch, directory });
        } else {
            // Perhaps of another that took its place meanwhile: that one at the next look.
            let _ = inotify.rm_watch(watch);
        }
    }

    fn timer_is_due(&self) -> bool {
        // Not blocking: an error says that it is not due.
        self.timer.wait().is_ok()
    }

    fn look_again_in(&mut self, time: Duration) {
        let once = Expiration::OneShot(TimeSpec::from_duration(time));
        self.due_in = time;
        // It fails for times that are none.
        let _ = self.timer.set(once, TimerSetTimeFlags::empty());
    }
}

impl AsFd for DirWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// Which directory has this name.
fn is_there(dir: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(dir).ok().filter(std::fs::Metadata::is_dir)?;
    Some((meta.dev(), meta.ino()))
}
