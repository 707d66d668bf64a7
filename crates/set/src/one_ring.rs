//! One ring as a place of a feed.

use crate::change::Change;
use crate::entry::{NoRing, Not, RingEntry, refusal};
use perfring_consumer::{
    Layout, Location,
    files::{Identity, RingFile},
};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The ring at a location: one, a later one, or none.
#[derive(Debug)]
pub(crate) struct OneRing {
    pub(crate) location: Location,
    pub(crate) there: Option<RingEntry>,
    /// The reason why it is not read that was reported.
    reported: Option<String>,
    /// It was looked at, and has nothing new until the feed looks again.
    pub(crate) looked: bool,
}

impl OneRing {
    pub(crate) fn new(location: Location) -> Self {
        OneRing { location, there: None, reported: None, looked: false }
    }

    /// Returns whether nothing is there.
    pub(crate) fn is_missing(&self) -> bool {
        self.there.is_none() && self.reported.is_none()
    }

    /// Returns the next change, or `None` once the ring was looked at.
    pub(crate) fn next(&mut self) -> Option<Change> {
        if self.looked {
            return None;
        }
        if self.there.as_ref().is_some_and(has_its_name) {
            self.looked = true;
            return None;
        }
        if let Some(before) = self.there.take() {
            return Some(Change::Vanished(before));
        }
        self.looked = true;
        let path = self.location.path();
        let refusal = match RingFile::inspect(self.location.clone()) {
            Ok(file) => {
                self.reported = None;
                let ring = entry(&self.location, file.layout());
                return Some(Change::Appeared(self.there.insert(ring).clone()));
            }
            Err(error) => refusal(&path, error),
        };
        match refusal {
            Not::Gone => self.reported.take().map(|_| Change::Left(path)),
            Not::Because(why) if self.reported.as_ref() == Some(&why.sentence) => None,
            Not::Because(why) => {
                self.reported = Some(why.sentence.clone());
                Some(Change::Refused(NoRing::new(Path::new(""), path, why)))
            }
        }
    }
}

/// Describes the file at a location, which was a ring of this layout a moment ago.
pub(crate) fn entry(location: &Location, layout: &Layout) -> RingEntry {
    let path = location.path();
    let (dev, ino) =
        fs::metadata(location.holder()).map_or((0, 0), |meta| (meta.dev(), meta.ino()));
    let identity = Identity { dev, ino, uuid: layout.uuid };
    RingEntry { name: location.name(layout), path, identity, layout: *layout }
}

fn has_its_name(ring: &RingEntry) -> bool {
    match fs::metadata(Location::from(&ring.path).holder()) {
        Ok(meta) => (meta.dev(), meta.ino()) == (ring.identity.dev, ring.identity.ino),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}
