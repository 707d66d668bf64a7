//! How its ends find each other, and how its readers sleep.

use crate::CompareError;
use crate::contest::mapped::Mapped;
use crate::contest::waits::{Polls, until};
use crate::contestant::{Setup, failed};
use ringfire::header::{RINGFIRE_MAGIC, RingHeader};
use ringfire::{FutexWait, WaitStrategy};
use std::path::Path;
use std::time::Duration;

pub(super) const VERSION: &str = "ringfire 0.5.2";

/// Waits until the producer has created the file. Its readers refuse one that is not ready.
pub(super) fn attach<T>(
    name: &'static str,
    path: &Path,
    attach: impl Fn(&Path) -> ringfire::Result<T>,
) -> Result<T, CompareError> {
    until(name, "no producer came", || match attach(path) {
        Ok(end) => Ok(Some(end)),
        Err(ringfire::RingfireError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(
            ringfire::RingfireError::InvalidMagic { .. }
            | ringfire::RingfireError::CorruptLayout(_),
        ) => Ok(None),
        Err(other) => Err(failed(name)(other)),
    })
}

/// Sleeps by its own strategy, whose futex is in its header. The library passes the header to
/// strategies only while it blocks until a record comes, without a timeout, so this maps it again.
pub(super) struct Sleeper {
    map: Option<Mapped>,
}

impl Sleeper {
    pub(super) fn new(path: &Path, setup: &Setup) -> Result<Self, CompareError> {
        Ok(Sleeper { map: if setup.sleeping { Some(Mapped::open(path)?) } else { None } })
    }

    pub(super) fn sleep(&self, cursor: u64, timeout: Duration) -> Result<(), CompareError> {
        let Some(map) = self.map.as_ref().filter(|map| map.len() >= size_of::<RingHeader>()) else {
            return Err(CompareError::Cannot("sleep without being set up so"));
        };
        // SAFETY: mapped for as long as `map` lives and long enough; a mapping is aligned to pages.
        // What other processes change in it are atomics; the rest was written before its magic.
        let header = unsafe { &*map.base().cast::<RingHeader>() };
        debug_assert_eq!(header.magic, RINGFIRE_MAGIC);
        FutexWait::new(0, Some(timeout)).wait(header, cursor);
        Ok(())
    }
}

/// Describes how its readers wait.
pub(super) fn waits(setup: &Setup) -> String {
    if setup.sleeping { "its own FutexWait".to_owned() } else { Polls::about(setup.pace) }
}
