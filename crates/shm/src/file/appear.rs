//! Waiting for a ring that does not exist yet.

use crate::file::error::AttachError;
use crate::file::location::Location;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest time between two attempts while the kernel reports changes, which it does not on
/// every file system.
const SELDOM: Duration = Duration::from_secs(1);
/// The longest time where the kernel cannot be asked, or the directory does not exist either.
const OFTEN: Duration = Duration::from_millis(10);

/// Calls `attach` until it finds a ring, for at most `timeout`: again whenever something with the
/// ring's name appears in its directory.
///
/// # Errors
/// The errors of `attach`, except [`AttachError::NotFound`] and [`AttachError::Removed`] before the time
/// is over.
pub fn when_there<T>(
    location: impl Into<Location>,
    timeout: Duration,
    mut attach: impl FnMut(&Location) -> Result<T, AttachError>,
) -> Result<T, AttachError> {
    let location = location.into();
    let deadline = Instant::now().checked_add(timeout);
    let mut watch = None;
    loop {
        let error = match attach(&location) {
            Err(error @ (AttachError::NotFound { .. } | AttachError::Removed { .. })) => error,
            done => return done,
        };
        let left =
            deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(error);
        }
        match &mut watch {
            // A ring that is made between an attempt and the watch would be missed, so it is tried
            // once more.
            None => watch = Some(AppearWatch::new(&location)),
            Some(watch) => {
                watch.wait(left);
                watch.begin();
            }
        }
    }
}

/// The kernel's reports about the directory in which a ring is expected.
struct AppearWatch {
    path: PathBuf,
    inotify: Option<Inotify>,
    watches: bool,
}

impl AppearWatch {
    fn new(location: &Location) -> Self {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let mut watch = AppearWatch { path: location.path(), inotify, watches: false };
        watch.begin();
        watch
    }

    /// Watches the directory, also after another directory has replaced it.
    fn begin(&mut self) {
        let dir = match self.path.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        };
        let what = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        // Adding a watch twice changes nothing.
        let added = self.inotify.as_ref().map(|inotify| inotify.add_watch(dir, what));
        self.watches = added.is_some_and(|added| added.is_ok());
    }

    /// Waits until something with the ring's name may have appeared, for at most `limit`, and less
    /// where the kernel may not report it. Returns whether the kernel reported it.
    fn wait(&mut self, limit: Duration) -> bool {
        let (Some(inotify), true) = (&self.inotify, self.watches) else {
            std::thread::sleep(limit.min(OFTEN));
            return false;
        };
        let (began, limit) = (Instant::now(), limit.min(SELDOM));
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let seconds = left.as_secs().try_into().unwrap_or(i64::MAX);
            let left = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&left)) {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
            let Ok(events) = inotify.read_events() else { return false };
            let name = self.path.file_name();
            // An event without a name is the directory's own, or events were dropped.
            if events.iter().any(|event| event.name.is_none() || event.name.as_deref() == name) {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::create::{RingOptions, create};
    use crate::file::open::RingFile;
    use perfring_testkit::wait::WATCHDOG;
    use std::cell::Cell;

    #[test]
    fn a_ring_that_appears_between_two_attempts_is_found() {
        let dir = tempfile::tempdir().unwrap();
        // At the first two attempts there is no directory, at the third no ring.
        let path = dir.path().join("sub/ring");
        let attempts = Cell::new(0);
        let found = when_there(&path, WATCHDOG, |location| {
            let found = RingFile::inspect(location);
            attempts.set(attempts.get() + 1);
            match attempts.get() {
                2 => std::fs::create_dir(dir.path().join("sub")).unwrap(),
                3 => create(&path, &RingOptions::default()).unwrap(),
                _ => {}
            }
            found
        });
        assert_eq!(found.unwrap().location(), &Location::from(&path));
        assert_eq!(attempts.get(), 4, "an attempt for every event, and no more");
    }

    #[test]
    fn the_kernel_reports_the_ring_s_name_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let mut watch = AppearWatch::new(&Location::from(&path));
        std::fs::write(dir.path().join("another"), "").unwrap();
        assert!(!watch.wait(Duration::ZERO), "another's name");
        create(&path, &RingOptions::default()).unwrap();
        assert!(watch.wait(WATCHDOG), "the ring's name");
    }

    #[test]
    fn a_ring_that_never_appears_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let wait = Duration::from_millis(5);
        let refused =
            when_there(dir.path().join("ring"), wait, |location| RingFile::inspect(location));
        assert!(matches!(refused, Err(AttachError::NotFound { .. })));
    }

    #[test]
    fn what_is_no_ring_is_an_error_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        std::fs::write(&path, "none").unwrap();
        let refused = when_there(&path, Duration::MAX, |location| RingFile::inspect(location));
        assert!(matches!(refused, Err(AttachError::Bad { .. })));
    }
}
