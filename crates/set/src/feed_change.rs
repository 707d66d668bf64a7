//! The changes that a feed reports.

use crate::entry::{NoRing, RingEntry};
use crate::not_read::NotRead;
use perfring_consumer::Location;
use std::path::PathBuf;

/// A place of a [`Feed`](crate::Feed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlaceId(pub(crate) u32);

/// A ring at a place of a [`Feed`](crate::Feed).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The ring's name, file and layout.
    pub ring: RingEntry,
    /// The file's location.
    pub location: Location,
    /// The place that has it.
    pub place: PlaceId,
    /// Whether it came after its place had been read once.
    pub is_new: bool,
    /// The reason why it could not be attached to that was reported last.
    pub(crate) reported: String,
}

/// A change of the rings of a [`Feed`](crate::Feed).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedChange {
    /// A ring to attach to. The answer is [`Feed::attached`](crate::Feed::attached), [`Feed::failed`](crate::Feed::failed) or
    /// [`Feed::retry`](crate::Feed::retry). Without an answer, the ring is not found again.
    Found(Found),
    /// Another file of a ring that is read. It is found once that ring is [ended](crate::Feed::ended). Reported again when `of`
    /// becomes `None`. A copy beside the ring, in the same directory, is [`FeedChange::NotRead`].
    Copy {
        /// The copy.
        found: Found,
        /// The location of the file that is read; `None` if that has no name any more.
        of: Option<Location>,
    },
    /// A ring that is read has this name now, maybe at another place.
    Renamed(Found),
    /// The file of a ring that is read has no name at any place any more, and this was the last: it was removed, or moved
    /// elsewhere, or is no ring any more (then `NotRead` says that). The ring can be read to its end. A file that was
    /// truncated raises SIGBUS in a reader without [`install_sigbus_handler`](perfring_consumer::install_sigbus_handler).
    Removed(Found),
    /// Something at a place is not read.
    NotRead(PlaceId, NoRing),
    /// Earlier changes about the file with this path are obsolete: it is gone, or another change reports it.
    Left(PathBuf),
}

/// Why a ring could not be attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotAttached {
    /// A sentence about the reason, and the further treatment of the ring.
    pub why: String,
    /// Whether it is found again each second; if not, it is damaged and set aside.
    pub is_retried: bool,
}

impl Found {
    pub(crate) fn new(ring: RingEntry, location: Location, place: PlaceId, is_new: bool) -> Self {
        Found { ring, location, place, is_new, reported: String::new() }
    }

    /// Says why this [copy](FeedChange::Copy) is not read.
    #[must_use]
    pub fn not_read(&self, of: Option<&Location>) -> NoRing {
        let of = of.map_or_else(
            || "a ring that is read, and whose file is gone: it is read after that".to_owned(),
            |of| format!("{of}, which is read: keep copies in directories that are not read"),
        );
        let RingEntry { name, path, .. } = self.ring.clone();
        NoRing { name, path, why: format!("a copy of {of}"), reason: NotRead::Foreign }
    }
}
