//! ringfire: fixed slots from one producer, fixed slots from many, and blobs of any length.
//!
//! Its producers make the file, and its readers copy each record out. The ring of one producer has
//! a mode that waits for its readers and one that does not; the other two overwrite always.

mod blobs;
mod many;
mod reader;
mod slots;

pub use blobs::Blobs;
pub use many::Many;
pub use reader::SlotReceiver;
pub use slots::Slots;

use super::Setup;
use super::common::{Mapped, Polls, failed, until};
use crate::CompareError;
use ringfire::header::{RINGFIRE_MAGIC, RingHeader};
use ringfire::{FutexWait, WaitStrategy};
use std::path::Path;
use std::time::Duration;

const VERSION: &str = "ringfire 0.5.2";

/// Waits until the producer has made the file. Its readers refuse one that is not ready.
fn attach<T>(
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

/// Sleeps by its own strategy, whose futex is in its header. The library hands the header to
/// strategies only while it blocks until a record comes, without a timeout: so this maps it again.
struct Sleeper {
    map: Option<Mapped>,
}

impl Sleeper {
    fn new(path: &Path, setup: &Setup) -> Result<Self, CompareError> {
        Ok(Sleeper { map: if setup.sleeping { Some(Mapped::open(path)?) } else { None } })
    }

    fn sleep(&self, cursor: u64, timeout: Duration) -> Result<(), CompareError> {
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

/// How its readers wait.
fn waits(setup: &Setup) -> String {
    if setup.sleeping { "its own FutexWait".to_owned() } else { Polls::about(setup.pace) }
}
